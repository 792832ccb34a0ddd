"""The disk: files below a root directory, with control over what is durable.

Nothing is durable before a `sync`: neither the bytes of a file nor its name. Calls that only access
the page cache are synchronous; calls that may wait for the device are coroutines.

Every call raises `OSError` as the kernel does. A failed sync raises `SyncFailedError`, whatever its
error number, and must not be retried.
"""

from dataclasses import dataclass
from typing import Protocol

from chiplog_wire.buffer import Buffer


class SyncFailedError(OSError):
    """Data that was not durable yet may be lost, although it can still be read.

    The kernel marks the pages that it could not write as clean: it never writes them again, and the
    next sync of the file succeeds. `ENOSPC` is no exception: a device that allocates space on
    writing (thin provisioning, or a file on a full file system) has dropped these bytes. In
    contrast, an append that the file system refuses with `ENOSPC` has changed nothing.
    """


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """How full the file system is."""

    total_bytes: int
    free_bytes: int


class File(Protocol):
    """One open file."""

    def size(self) -> int:
        """Bytes in the file now."""

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end; returns the position where it begins.

        If the kernel writes only a part (`ENOSPC`), the file is truncated to its old size before
        the error is raised.
        """

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position`; returns the bytes read, fewer only at the end."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to `size_bytes`."""

    async def sync(self) -> None:
        """Make the file's bytes and size durable (fdatasync). Raises `SyncFailedError`."""

    def fileno(self) -> int | None:
        """The descriptor, for sendfile; None where there is none (simulated disks)."""

    def hold(self) -> None:
        """Keep the descriptor valid until `release`, even if the file is closed before."""

    def release(self) -> None:
        """End one `hold`; after the last one, a closed file gives its descriptor back."""

    def close(self) -> None:
        """Close the descriptor. Closing twice is allowed."""


class Disk(Protocol):
    """A tree of files. Paths are relative to its root, with `/` between names."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises `FileNotFoundError` unless `create`."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; empty where it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; does nothing where it exists."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; does nothing where there is none."""

    async def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable. Raises `SyncFailedError`."""

    async def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably: after a crash it has the old or the new
        content.

        Raises `SyncFailedError` if it was written, but could not be made durable.
        """

    def usage(self) -> DiskUsage:
        """How full the file system is."""

    def lock(self, path: str) -> None:
        """Hold an exclusive lock until this process ends; raises `BlockingIOError` if held."""
