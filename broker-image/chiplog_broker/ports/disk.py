"""The disk: files below one root, with a say in what is durable.

Nothing is durable before a `sync`: neither a file's bytes nor the name it was given.
Calls that only touch the page cache are synchronous; what may wait for the device is
a coroutine. Every call raises `OSError` as the kernel gives it. What fails to become durable
raises `SyncFailedError`, whatever its number, and must not be retried.
"""

from dataclasses import dataclass
from typing import Protocol

from chiplog_wire.buffer import Buffer


class SyncFailedError(OSError):
    """What was not durable yet may be gone for good, although it can still be read.

    The kernel marks the pages that it could not write as clean: they are never written again, and
    the next sync of the file succeeds. `ENOSPC` is no exception. A device that takes its space when
    it is written to (thin provisioning, a file on a full file system) has dropped these bytes,
    while an append for which the file system has no room has changed nothing.
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

        Where the kernel takes only a part (`ENOSPC`), the file is cut back to its old
        size before the error is raised.
        """

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position`; returns the bytes read, fewer only at the end."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""

    async def sync(self) -> None:
        """Make the file's bytes and size durable (fdatasync). Raises `SyncFailedError`."""

    def fileno(self) -> int | None:
        """The descriptor, for sendfile; None where there is none (simulated disks)."""

    def hold(self) -> None:
        """Keep the descriptor usable until `release`, also where the file is closed meanwhile."""

    def release(self) -> None:
        """End one `hold`."""

    def close(self) -> None:
        """Give the descriptor back. Closing twice is allowed."""


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
        """Write a small file whole and durably: after a crash it holds the old or the new bytes.

        Raises `SyncFailedError` where writing was possible, and making it durable was not.
        """

    def usage(self) -> DiskUsage:
        """How full the file system is."""

    def lock(self, path: str) -> None:
        """Hold an exclusive lock until this process ends; raises `BlockingIOError` if held."""
