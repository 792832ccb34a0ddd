"""Touches the free memory of a virtual machine before anything is measured.

The host gives memory to a virtual machine page by page, when the guest touches a page for the
first time, and that takes several times as long as writing to the page. The process that writes to
a new file is slowed down by it, so which of two measured brokers is slower would be chance.
"""

import subprocess
import sys
from pathlib import Path

LEAVE_BYTES = 2 * 2**30
"""Memory that stays untouched, for other processes on the machine."""

# Run in a process of its own: where a limit of memory kills a process, it is only that one.
TOUCH = """
import mmap, sys
mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
"""


def touch_free_memory() -> int:
    """Touch the free memory and free it again; returns the number of bytes, 0 if it failed."""
    size_bytes = free_bytes(Path("/proc/meminfo").read_text()) - LEAVE_BYTES
    if size_bytes <= 0:
        return 0
    done = subprocess.run([sys.executable, "-c", TOUCH, str(size_bytes)], check=False)
    return size_bytes if done.returncode == 0 else 0


def free_bytes(meminfo: str) -> int:
    """MemFree of /proc/meminfo in bytes, which does not count the page cache; 0 if missing."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemFree":
            return int(value.split()[0]) * 1024
    return 0
