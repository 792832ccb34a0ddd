"""What the process asks of its operating system: memory that stays, descriptors enough.

Reads of up to a few megabytes come and go with every fetch. By default glibc maps and
unmaps such blocks each time, which costs more than the read itself (measured: 0.87
against 0.33 CPU seconds a gigabyte). And each partition has files open, each client a
socket: the usual limit of 1024 is for programs that use `select`.
"""

import ctypes
import resource

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

KEEP_BYTES = 64 * 2**20
MMAP_FROM_BYTES = 32 * 2**20


def keep_freed_memory() -> None:
    """Set the thresholds; does nothing where the C library has no `mallopt` (musl)."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)


def raise_open_file_limit() -> None:
    """Allow as many open files as we may allow ourselves."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
