"""Settings of the process: freed memory is kept, and the limit of open files is raised.

Every fetch allocates and frees blocks of up to a few megabytes. By default glibc maps and unmaps
such blocks each time, which costs more than the read itself (measured: 0.87 against 0.33 CPU
seconds per gigabyte). Each partition has open files and each client a socket; the usual limit of
1024 descriptors exists for programs that use `select`.
"""

import ctypes
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The memory and descriptors that the process may use."""

    memory_bytes: int = 2**50
    descriptors: int = 2**30


def keep_freed_memory(keep_bytes: int) -> None:
    """Let glibc keep up to this many bytes of freed memory, and reuse freed blocks of up to half of
    it. Does nothing where the C library has no `mallopt` (musl)."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        # glibc accepts at most 32 MiB for the first threshold.
        library.mallopt(M_MMAP_THRESHOLD, keep_bytes // 2)
        library.mallopt(M_TRIM_THRESHOLD, keep_bytes)


def raise_open_file_limit() -> None:
    """Raise the limit of open files to the maximum that the process may set."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def allowance() -> Allowance:
    """The present limits of this process."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Allowance(memory_limit_bytes(), soft_limit)


def memory_limit_bytes() -> int:
    """The memory limit of the container; the machine's memory if there is none."""
    limits_bytes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _limit_files():
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # not `max`
            limits_bytes.append(int(text))
    return min(limits_bytes)


def _limit_files() -> Iterator[Path]:
    """The limit files of cgroup 2 and cgroup 1: by their path in the container, and by their full
    path."""
    yield CGROUPS / "memory.max"
    yield CGROUPS / "memory" / "memory.limit_in_bytes"
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # cgroup 2 has one hierarchy for all controllers
            yield CGROUPS / path.lstrip("/") / "memory.max"
        elif "memory" in controllers.split(","):
            yield CGROUPS / "memory" / path.lstrip("/") / "memory.limit_in_bytes"
