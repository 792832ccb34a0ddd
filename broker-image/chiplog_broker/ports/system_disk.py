"""The disk of the machine.

This is the only module of the broker that opens files, and the only one with threads: a sync waits
for the device, so it runs in a small thread pool. Every call gives its position (`pread`,
`pwrite`), so users of a file do not share a cursor.
"""

import asyncio
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from chiplog_broker.ports.disk import DiskUsage, SyncFailedError
from chiplog_wire.buffer import Buffer

SYNC_THREADS = 8
"""How many syncs may run at the same time. Their threads only wait for the device."""

WRITE_BYTES = 2**20
"""How much one call writes. For larger writes the kernel takes memory in blocks of several MiB. On
a virtual machine these are often blocks that were never used, and the host provides each page of
them only when it is written: 4 MiB at once took up to five times as long as 1 MiB at a time."""

ALL_DESCRIPTORS = 2**62
DESCRIPTOR_ATTEMPTS = 20
DESCRIPTOR_PAUSE_S = 0.05
"""The pause before another attempt: a burst of connections that are refused soon may use up all
descriptors for a moment."""

_T = TypeVar("_T")


class SystemDisk:
    """A directory tree below `root`, which is created if it does not exist."""

    def __init__(self, root: Path, files_below: int = ALL_DESCRIPTORS) -> None:
        """Opening an existing file fails if its descriptor would be `files_below` or higher: those
        are reserved for files that are closed again at once, and for operations that must not fail
        half-way."""
        self._root = root
        self._files_below = files_below
        # Joined once: with thousands of files, joining paths is a noticeable cost.
        self._prefix = f"{root}/"
        self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="disk")
        self._locks: list[int] = []
        root.mkdir(parents=True, exist_ok=True)

    def open(self, path: str, *, create: bool = False) -> "SystemFile":
        """Open for reading and writing. New files may have any descriptor: operations that create
        files must not fail half-way."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(self._prefix + path, flags, 0o640)
        if descriptor >= self._files_below and not create:
            # As if the process had no descriptor left.
            os.close(descriptor)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return SystemFile(descriptor, self._pool)

    def exists(self, path: str) -> bool:
        return os.access(self._prefix + path, os.F_OK)

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; empty where it does not exist."""
        try:
            with os.scandir(self._prefix + path) as entries:
                return sorted(entry.name for entry in entries)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        (self._root / path).mkdir(parents=True, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        (self._root / old).replace(self._root / new)

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; does nothing where there is none."""
        target = self._root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    async def sync_directory(self, path: str) -> None:
        await self._in_thread(lambda: _sync_directory(self._root / path))

    async def replace(self, path: str, data: bytes) -> None:
        await self._in_thread(lambda: _replace(self._root / path, data))

    def usage(self) -> DiskUsage:
        status = os.statvfs(self._root)
        return DiskUsage(
            total_bytes=status.f_blocks * status.f_frsize,
            free_bytes=status.f_bavail * status.f_frsize,
        )

    def lock(self, path: str) -> None:
        """Hold an exclusive lock on a file until `close`, or until this process ends. Raises
        `BlockingIOError` if another process holds it."""
        descriptor = os.open(self._root / path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._locks.append(descriptor)

    def close(self) -> None:
        """Release locks and threads, as the end of the process does."""
        self._pool.shutdown()
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        """Run a call that may wait for the device in a thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _retry_without_descriptors, call
        )


class SystemFile:
    """One open file. It has no other writer, so its size is known without a system call."""

    __slots__ = ("_close_when_free", "_descriptor", "_holders", "_pool", "_size_bytes")

    def __init__(self, descriptor: int, pool: ThreadPoolExecutor) -> None:
        self._descriptor = descriptor
        self._pool = pool
        self._size_bytes = os.fstat(descriptor).st_size
        # The number of users of the descriptor: after it is closed, the kernel could reuse its
        # number for another file.
        self._holders = 0
        self._close_when_free = False

    def size(self) -> int:
        return self._size_bytes

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end, or nothing; returns the position where it begins."""
        position = self._size_bytes
        piece = data if len(data) <= WRITE_BYTES else memoryview(data)[:WRITE_BYTES]
        try:
            written = os.pwrite(self._descriptor, piece, position)
            if written != len(data):
                _write_rest(self._descriptor, memoryview(data)[written:], position + written)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, position)
            except OSError as failed:
                # A part stays in the file: whatever the numbers are, this is no mere lack of space.
                raise OSError(errno.EIO, f"not cut back: {failed.strerror}") from error
            raise
        self._size_bytes = position + len(data)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`; the file grows if it is shorter."""
        _write_rest(self._descriptor, memoryview(data), position)
        if data:  # an empty write beyond the end does not change the size
            self._size_bytes = max(self._size_bytes, position + len(data))

    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size_bytes, position)
        if len(data) == size_bytes or position + len(data) >= self._size_bytes:
            return data
        # The kernel may return less than was asked for, also before the end of the file.
        rest = bytearray(size_bytes - len(data))
        count = self.read_into(position + len(data), memoryview(rest))
        return data + rest[:count]

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position`; returns the bytes read, fewer only at the end of the
        file."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(self._descriptor, [buffer[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)
        self._size_bytes = size_bytes

    async def sync(self) -> None:
        """Make the file's bytes and size durable. Raises `SyncFailedError`."""
        self.hold()  # the file may be closed while the thread syncs it
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, _sync, os.fdatasync, self._descriptor)
        finally:
            self.release()

    def fileno(self) -> int | None:
        return self._descriptor

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        """End one `hold`; after the last one, a file that was closed gives its descriptor back."""
        self._holders -= 1
        if self._close_when_free and not self._holders:
            self._close_now()

    def close(self) -> None:
        """Close the descriptor now, or after the last `release`. Closing twice is allowed."""
        if self._holders:
            self._close_when_free = True
        else:
            self._close_now()

    def _close_now(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_rest(descriptor: int, data: memoryview, position: int) -> None:
    """Write all of `data` at `position`; one call of the kernel may write only a part."""
    while data:
        written = os.pwrite(descriptor, data[:WRITE_BYTES], position)
        data = data[written:]
        position += written


def _retry_without_descriptors(call: Callable[[], _T]) -> _T:
    """Return the result of `call`; if no descriptor is free, call it again after a pause, up to
    `DESCRIPTOR_ATTEMPTS` times. Such a failure has changed nothing."""
    for _ in range(DESCRIPTOR_ATTEMPTS):
        try:
            return call()
        except SyncFailedError:
            raise  # a failed sync must not be retried, whatever its error number
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            time.sleep(DESCRIPTOR_PAUSE_S)
    return call()


def _sync(call: Callable[[int], None], descriptor: int) -> None:
    """Sync with `call`, which is `os.fsync` or `os.fdatasync`. Raises `SyncFailedError`."""
    try:
        call(descriptor)
    except OSError as error:
        raise SyncFailedError(error.errno, error.strerror) from error


def _sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises `SyncFailedError`."""
    descriptor = _open_directory(path)
    try:
        _sync(os.fsync, descriptor)
    finally:
        os.close(descriptor)


def _open_directory(path: Path) -> int:
    """A descriptor of a directory, for a sync."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _replace(path: Path, data: bytes) -> None:
    """Write and sync a temporary file, rename it, and sync the directory: a crash at any time
    leaves the old or the new content."""
    temporary = path.with_name(path.name + ".tmp")
    # Opened first: without a descriptor for it, nothing may be replaced.
    directory = _open_directory(path.parent)
    try:
        try:
            _write_whole(temporary, data)
            temporary.replace(path)
        except OSError:
            # The disk may be full, so the temporary file must not stay.
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync(os.fsync, directory)
    finally:
        os.close(directory)


def _write_whole(path: Path, data: bytes) -> None:
    """Create or overwrite a file with this content, and sync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        _write_rest(descriptor, memoryview(data), 0)
        _sync(os.fsync, descriptor)
    finally:
        os.close(descriptor)
