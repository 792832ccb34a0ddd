"""A disk in memory that can lose power.

Reads see what was written at once, as from a page cache. What survives a power cut is
decided anew for each: a synced byte and a name in a synced directory always do; each write,
truncation and change of a name since then may be kept or lost on its own, whatever its
order, and a kept write may be torn. That is more than any journaling file system allows
itself, so whoever survives it survives those too.

A sync that fails does what it does on ext4 and xfs: the kernel calls the pages clean. Reads still
see them, of later processes too, and the next sync succeeds without them. They are gone after a
power cut, and as soon as the cache forgets them.

Every call that changes something is counted, and `cut_power_at` makes one of them the last.
"""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from chiplog_broker.ports.disk import DiskUsage, SyncFailedError
from chiplog_wire.buffer import Buffer

SECTOR_BYTES = 512
_TOTAL_BYTES = 2**40
_WAITING = frozenset({"sync", "sync_directory", "replace"})
"""They fail when the device has answered."""


_REFUSALS = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE})
"""With them a file is not replaced at all."""


class PowerCutError(Exception):
    """The machine is off. Not an `OSError`, so that nobody handles it."""


@dataclass
class _Write:
    position: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if self.data and len(content) < self.position:
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data

    def torn(self, chance: random.Random) -> "list[_Write]":
        """Some of the sectors it touches: those before an edge, or any of them."""
        pieces = self._sectors()
        if chance.random() < 0.5:
            return pieces[: chance.randrange(len(pieces) + 1)]
        return [piece for piece in pieces if chance.random() < 0.5]

    def _sectors(self) -> "list[_Write]":
        pieces, begin, end = [], self.position, self.position + len(self.data)
        while begin < end:
            edge = min(end, begin - begin % SECTOR_BYTES + SECTOR_BYTES)
            data = self.data[begin - self.position : edge - self.position]
            pieces.append(_Write(begin, data))
            begin = edge
        return pieces


@dataclass
class _Truncate:
    size_bytes: int

    def apply(self, content: bytearray) -> None:
        if len(content) > self.size_bytes:
            del content[self.size_bytes :]
        else:
            content.extend(bytes(self.size_bytes - len(content)))


@dataclass
class _FileNode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[_Write | _Truncate] = field(default_factory=list)

    def evict(self) -> None:
        """What reads see is fetched from the device again, but for what is still to be written."""
        self.content[:] = self.durable
        _apply(self.unsynced, self.content)


@dataclass
class _Rename:
    old: str
    new: str


@dataclass
class _Link:
    name: str
    node: "_Node | None"
    """None: the name goes."""


@dataclass
class _DirectoryNode:
    names: "dict[str, _Node]" = field(default_factory=dict)
    durable: "dict[str, _Node]" = field(default_factory=dict)
    unsynced: list[_Link | _Rename] = field(default_factory=list)


class _InjectedError(OSError):
    """What a fault raises, and how much of a write it lets through before."""

    written_share = 0.0
    is_cut_back = True


@dataclass(frozen=True)
class _Fault:
    operation: str
    path_part: str
    error: OSError
    fired: Callable[[], None]


_Node: TypeAlias = _FileNode | _DirectoryNode


class MemoryDisk:
    """The disk port over a tree in memory."""

    def __init__(self, root: _DirectoryNode | None = None) -> None:
        self._root = root or _DirectoryNode()
        self._locked: set[str] = set()
        self._cut_at: int | None = None
        self._is_off = False
        self._faults: list[_Fault] = []
        self.operations = 0
        self.syncs = 0
        self.capacity_bytes = _TOTAL_BYTES
        self.chance: random.Random | None = None
        """Decides what a failed sync leaves; without it nothing of what it was to write."""
        self.evicted_share = 0.0
        """So many failed syncs also drop the pages from the cache: reads see the old bytes."""
        self.device: Callable[[str], Awaitable[object]] = _answer_soon
        """What a sync of a path waits for."""
        self.appended: Callable[[str, bytes], None] = _tell_nobody
        """Told of each append, with its path."""
        self.renaming: Callable[[str, str], None] = _tell_nobody
        """Told of each rename, just before it, with the old and the new path."""
        self.stepping: Callable[[str, str], None] = _tell_nobody
        """Told of each call that changes something, just before it does; may end it all."""
        self.looking: Callable[[str, str], None] = _tell_nobody
        """Told of each read, and each opening of a file that exists; may raise in its place."""

    # --- the port --------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> "MemoryFile":
        self._check_power()
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._step("open", path)
            node = _FileNode()
            self._link(directory, name, node)
        else:
            self.looking("open", path)
        if isinstance(node, _DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return MemoryFile(self, node, path)

    def exists(self, path: str) -> bool:
        self._check_power()
        try:
            directory, name = self._parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return name in directory.names

    def names(self, path: str) -> list[str]:
        self._check_power()
        try:
            return sorted(self._directory(path).names)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        self._step("make_directory", path)
        directory = self._root
        names = path.split("/")
        for depth, name in enumerate(names, 1):
            node = directory.names.get(name)
            if node is None:
                node = _DirectoryNode()
                self._link(directory, name, node)
            if isinstance(node, _FileNode):
                if depth == len(names):
                    raise FileExistsError(errno.EEXIST, "is a file", path)
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        self._step("rename", old)
        directory, old_name = self._parent(old)
        target, new_name = self._parent(new)
        assert directory is target, "no file moves between directories"
        if old_name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        _check_replaceable(directory.names[old_name], directory.names.get(new_name), new)
        self.renaming(old, new)
        directory.names[new_name] = directory.names.pop(old_name)
        directory.unsynced.append(_Rename(old_name, new_name))

    def remove(self, path: str) -> None:
        self._check_power()
        try:
            directory, name = self._parent(path)
        except FileNotFoundError:
            return
        if name in directory.names:
            self._step("remove", path)
            del directory.names[name]
            directory.unsynced.append(_Link(name, None))

    async def sync_directory(self, path: str) -> None:
        self._sync_step("sync_directory", path)
        directory = self._directory(path)
        count = len(directory.unsynced)
        await self._written_out("sync_directory", path)
        for change in directory.unsynced[:count]:
            _change_names(directory.durable, change)
        del directory.unsynced[:count]

    async def replace(self, path: str, data: bytes) -> None:
        self._sync_step("replace", path)
        directory, name = self._parent(path)
        node = _FileNode(bytearray(data), bytearray(data))
        try:
            await self._written_out("replace", path)
        except OSError as error:
            is_written = error.errno not in _REFUSALS
            if is_written and self.chance and self.chance.random() < 0.5:
                # The file was written and has its name; only the directory's sync has failed.
                self._link(directory, name, node)
            raise
        _check_replaceable(node, directory.names.get(name), path)
        directory.names[name] = node
        # Syncing the directory for the new name makes earlier changes durable too.
        for change in directory.unsynced:
            _change_names(directory.durable, change)
        directory.unsynced.clear()
        directory.durable[name] = node

    def usage(self) -> DiskUsage:
        # Files that are replaced need no room here, so there may be less than none.
        free_bytes = max(self.capacity_bytes - _size(self._root), 0)
        return DiskUsage(self.capacity_bytes, free_bytes)

    def lock(self, path: str) -> None:
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self.open(path, create=True).close()
        self._locked.add(path)

    def release_locks(self) -> None:
        """The process that held them has ended."""
        self._locked.clear()

    # --- what can happen to it --------------------------------------------------------

    def cut_power_at(self, operation: int) -> None:
        """Turn the machine off just before the changing call of this number."""
        self._cut_at = operation

    def fail_next(
        self,
        operation: str,
        error_number: int,
        path_part: str = "",
        fired: Callable[[], None] = lambda: None,
        *,
        written_share: float = 0.0,
        is_cut_back: bool = True,
    ) -> None:
        """Let the next such call on such a path fail, and tell when it did.

        An append may write a share of its bytes before. Unless it is cut back, because that
        fails as well, they stay in the file. So do those of `write_at`, which nobody cuts back.
        `replace` finds no way to write, `replace_sync` none to make durable what was written.
        """
        error = _InjectedError(error_number, f"injected into {operation}")
        error.written_share, error.is_cut_back = written_share, is_cut_back
        self._faults.append(_Fault(operation, path_part, error, fired))

    def fail_no_more(self) -> None:
        """Forget the failures that have not come yet."""
        self._faults.clear()

    def power_off(self) -> None:
        self._is_off = True

    def after_power_cut(self, seed: int) -> "MemoryDisk":
        """The disk as the next machine finds it. This one is off from now on."""
        self._is_off = True
        chance = random.Random(seed)  # noqa: S311 (not for secrets)
        kept = chance.choice((0.0, 0.5, 1.0))
        return MemoryDisk(_survivor_directory(self._root, chance, kept))

    def after_unmount(self) -> "MemoryDisk":
        """The disk as the next mount finds it: what was dirty is written, nothing is cached."""
        self._is_off = True
        for directory in _directories(self._root):
            directory.durable = dict(directory.names)
            directory.unsynced.clear()
        for node in _files(self._root):
            _apply(node.unsynced, node.durable)
            node.unsynced.clear()
        self.drop_caches()
        return MemoryDisk(self._root)

    def drop_caches(self) -> None:
        """Clean pages leave the page cache: what a failed sync lost is not seen any more."""
        for node in _files(self._root):
            node.evict()

    def copy(self) -> "MemoryDisk":
        """A perfect snapshot: everything as it reads now, and durable."""
        return MemoryDisk(_copied(self._root))

    def after_kill(self) -> "MemoryDisk":
        """The disk as the next process finds it: the page cache is still there."""
        self._is_off = True
        return MemoryDisk(self._root)

    def content(self, path: str) -> bytearray:
        """The bytes of a file, to be read or damaged in place (both copies of it)."""
        directory, name = self._parent(path)
        node = directory.names[name]
        assert isinstance(node, _FileNode)
        return node.content

    def durable_content(self, path: str) -> bytearray:
        """What every power cut leaves of a file."""
        directory, name = self._parent(path)
        node = directory.names[name]
        assert isinstance(node, _FileNode)
        return node.durable

    def flip_bit(self, path: str, byte: int, bit: int) -> None:
        self.content(path)[byte] ^= 1 << bit

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Other bytes in a file, as read from now on and as any power cut leaves it."""
        directory, name = self._parent(path)
        node = directory.names[name]
        assert isinstance(node, _FileNode)
        for content in (node.content, node.durable):
            end = min(position + len(data), len(content))
            content[position:end] = data[: max(end - position, 0)]

    # --- inner workings -----------------------------------------------------------------

    def _check_power(self) -> None:
        if self._is_off:
            raise PowerCutError

    def _step(self, operation: str, path: str) -> None:
        self._check_power()
        self.stepping(operation, path)
        self._check_power()
        self.operations += 1
        if self._cut_at is not None and self.operations >= self._cut_at:
            self._is_off = True
            raise PowerCutError
        if self._faults and operation not in _WAITING:
            self._fail_if_due(operation, path)

    async def _written_out(self, operation: str, path: str) -> None:
        """The device has everything, or this call raises what becomes of it."""
        is_replace = operation == "replace"
        try:
            await self.device(path)
            self._check_power()
            if self._faults:
                self._fail_if_due("replace_sync" if is_replace else operation, path)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror) from error
        if self._faults and is_replace:
            self._fail_if_due(operation, path)

    def _lose(self, node: _FileNode, count: int) -> None:
        """What a failed sync does to the changes that it was to write.

        Truncations stay to be written: they are the file system's own.
        """
        chance = self.chance
        kept = chance.choice((0.0, 0.0, 0.5)) if chance else 0.0
        pending: list[_Write | _Truncate] = []
        for change in node.unsynced[:count]:
            if isinstance(change, _Truncate):
                pending.append(change)
            elif chance and chance.random() < kept:
                change.apply(node.durable)
            elif chance and chance.random() < 0.5:
                # The size reached the journal, the bytes did not reach their blocks.
                missing = change.position + len(change.data) - len(node.durable)
                node.durable.extend(bytes(max(missing, 0)))
        node.unsynced[:count] = pending
        if chance and chance.random() < self.evicted_share:
            node.evict()

    def _fail_if_due(self, operation: str, path: str) -> None:
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path:
                self._faults.remove(fault)
                fault.fired()
                raise fault.error

    def _sync_step(self, operation: str, path: str) -> None:
        self._step(operation, path)
        self.syncs += 1

    def _parent(self, path: str) -> tuple[_DirectoryNode, str]:
        head, _, name = path.rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> _DirectoryNode:
        directory = self._root
        for name in path.split("/") if path else []:
            node = directory.names.get(name)
            if node is None:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            if isinstance(node, _FileNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            directory = node
        return directory

    def _link(self, directory: _DirectoryNode, name: str, node: _Node) -> None:
        directory.names[name] = node
        directory.unsynced.append(_Link(name, node))


class MemoryFile:
    """An open file of a `MemoryDisk`. As the real one, it is the only writer and knows the size."""

    def __init__(self, disk: MemoryDisk, node: _FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._is_open = True
        self._size_bytes = len(node.content)

    def size(self) -> int:
        self._check()
        return self._size_bytes

    def append(self, data: Buffer) -> int:
        position = self._size_bytes
        written = bytes(data)
        try:
            self._need_room(len(data))
            self._change("append", _Write(position, written))
        except _InjectedError as error:
            self._write_part(position, written[: int(len(data) * error.written_share)])
            if error.is_cut_back:
                self._cut_back(position)
            raise
        except OSError:
            # There was room for a part.
            self._write_part(position, written[: self._disk.usage().free_bytes])
            self._cut_back(position)
            raise
        self._size_bytes = position + len(written)
        self._disk.appended(self._path, written)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._need_room(position + len(data) - len(self._node.content))
        try:
            self._change("write_at", _Write(position, bytes(data)))
        except _InjectedError as error:
            self._write_part(position, bytes(data)[: int(len(data) * error.written_share)])
            raise
        if data:
            self._size_bytes = max(self._size_bytes, position + len(data))

    def read(self, position: int, size_bytes: int) -> bytes:
        self._check()
        self._disk.looking("read", self._path)
        if self._disk._faults:
            self._disk._fail_if_due("read", self._path)
        return bytes(self._node.content[position : position + size_bytes])

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        self._change("truncate", _Truncate(size_bytes))
        self._size_bytes = size_bytes

    async def sync(self) -> None:
        self._check()
        self._disk._sync_step("sync", self._path)
        node = self._node
        count = len(node.unsynced)
        try:
            await self._disk._written_out("sync", self._path)
        except OSError:
            self._disk._lose(node, count)
            raise
        _apply(node.unsynced[:count], node.durable)
        del node.unsynced[:count]

    def fileno(self) -> int | None:
        return None

    def hold(self) -> None:
        """There is no descriptor to keep."""

    def release(self) -> None:
        """There is none to give back."""

    def close(self) -> None:
        self._is_open = False

    def _check(self) -> None:
        self._disk._check_power()
        if not self._is_open:
            raise ValueError(f"{self._path} is closed")

    def _need_room(self, growth_bytes: int) -> None:
        disk = self._disk
        # Counting what is stored takes a while, and most disks are far from full.
        if disk.capacity_bytes < _TOTAL_BYTES and disk.usage().free_bytes < growth_bytes:
            self._check()
            raise OSError(errno.ENOSPC, "no space left on device", self._path)

    def _change(self, operation: str, change: _Write | _Truncate) -> None:
        self._check()
        self._disk._step(operation, self._path)
        self._note(change)

    def _note(self, change: _Write | _Truncate) -> None:
        change.apply(self._node.content)
        self._node.unsynced.append(change)

    def _write_part(self, position: int, data: bytes) -> None:
        if data:
            self._note(_Write(position, data))

    def _cut_back(self, position: int) -> None:
        """The file's old size, after a part of an append."""
        if len(self._node.content) > position:
            self._note(_Truncate(position))


class ManualClock:
    """Stands still until it is told otherwise."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.time_ms = now_ms
        self.step_ms = 0
        """By how much the wall clock was put forward; the monotonic one does not feel it."""

    def now_ms(self) -> int:
        return self.time_ms + self.step_ms

    def monotonic_s(self) -> float:
        return self.time_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.time_ms += int(seconds * 1000)
        await asyncio.sleep(0)


class SeededRng:
    """The same tokens for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 (not for secrets)

    def token(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)


def _tell_nobody(*_: object) -> None: ...


async def _answer_soon(_: str) -> None:
    await asyncio.sleep(0)


def _apply(changes: Iterable[_Write | _Truncate], content: bytearray) -> None:
    for change in changes:
        change.apply(content)


def _files(node: _DirectoryNode) -> Iterator[_FileNode]:
    for child in node.names.values():
        if isinstance(child, _DirectoryNode):
            yield from _files(child)
        else:
            yield child


def _directories(node: _DirectoryNode) -> Iterator[_DirectoryNode]:
    yield node
    for child in node.names.values():
        if isinstance(child, _DirectoryNode):
            yield from _directories(child)


def _copied(node: _DirectoryNode) -> _DirectoryNode:
    names: dict[str, _Node] = {
        name: _copied(child)
        if isinstance(child, _DirectoryNode)
        else _FileNode(bytearray(child.content), bytearray(child.content))
        for name, child in node.names.items()
    }
    return _DirectoryNode(names, dict(names))


def _change_names(names: dict[str, _Node], change: _Link | _Rename) -> None:
    if isinstance(change, _Rename):
        if change.old in names:
            names[change.new] = names.pop(change.old)
    elif change.node is None:
        names.pop(change.name, None)
    else:
        names[change.name] = change.node


def _check_replaceable(node: _Node, replaced: _Node | None, path: str) -> None:
    """Raise what rename(2) does where one may not stand in the place of the other."""
    if replaced is None or replaced is node:
        return
    if isinstance(replaced, _FileNode):
        if isinstance(node, _DirectoryNode):
            raise NotADirectoryError(errno.ENOTDIR, "is no directory", path)
    elif isinstance(node, _FileNode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    elif replaced.names:
        raise OSError(errno.ENOTEMPTY, "is not empty", path)


def _size(root: _DirectoryNode) -> int:
    total, waiting = 0, [root]
    while waiting:
        for child in waiting.pop().names.values():
            if isinstance(child, _DirectoryNode):
                waiting.append(child)
            else:
                total += len(child.content)
    return total


def _survivor_directory(node: _DirectoryNode, chance: random.Random, kept: float) -> _DirectoryNode:
    names = dict(node.durable)
    for change in node.unsynced:
        if chance.random() < kept:
            _change_names(names, change)
    survivors: dict[str, _Node] = {
        name: _survivor_directory(child, chance, kept)
        if isinstance(child, _DirectoryNode)
        else _survivor_file(child, chance, kept)
        for name, child in names.items()
    }
    return _DirectoryNode(dict(survivors), dict(survivors))


def _survivor_file(node: _FileNode, chance: random.Random, kept: float) -> _FileNode:
    content = bytearray(node.durable)
    for change in node.unsynced:
        if chance.random() < kept:
            if isinstance(change, _Write) and change.data and chance.random() < 0.3:
                for piece in change.torn(chance):
                    piece.apply(content)
            else:
                change.apply(content)
    return _FileNode(bytearray(content), content)
