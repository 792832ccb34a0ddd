"""Memory that the machine really has.

The host of a virtual machine gives memory page by page, when the guest touches it for the
first time, and that costs several times what writing to the page does. It is paid for
by the process that writes to a new file then: two brokers that are measured one after the other pay
by chance. So free memory is touched once before anything is measured.
"""

import subprocess
import sys
from pathlib import Path

LEAVE_BYTES = 2 * 2**30
"""What stays untouched, for others on the machine."""

# In a process of its own: where memory is limited from outside, only that one is killed.
TOUCH = """
import mmap, sys
mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
"""


def touch_free_memory() -> int:
    """Touch it and give it back; how many bytes that were."""
    size_bytes = free_bytes(Path("/proc/meminfo").read_text()) - LEAVE_BYTES
    if size_bytes <= 0:
        return 0
    done = subprocess.run([sys.executable, "-c", TOUCH, str(size_bytes)], check=False)
    return size_bytes if done.returncode == 0 else 0


def free_bytes(meminfo: str) -> int:
    """What the kernel has given to nobody."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemFree":
            return int(value.split()[0]) * 1024
    return 0
