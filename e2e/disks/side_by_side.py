"""Makes the same random calls on the machine's disk and on the simulated one.

Both must return the same values and raise the same errors. The stored files are compared through
the port `Disk`, and for the machine's disk also directly in the file system.
"""

import asyncio
import errno
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from chiplog_broker.ports.disk import Disk, File
from chiplog_broker.ports.system_disk import SystemDisk
from e2e.sim.disk import memory_disk

DIRECTORIES: Final = ("", "one", "two", "one/deep", "none")
NAMES: Final = ("a", "b", "c")
MOST_BYTES: Final = 20_000


class Outcome(NamedTuple):
    """The result of a call: its value, or the class and errno of its error."""

    value: object = None
    error: str = ""


def outcome_of(call: Callable[[], object]) -> Outcome:
    """Make a call; its `OSError` becomes an `Outcome`, too."""
    try:
        return Outcome(call())
    except OSError as error:
        return refused(error)


async def outcome_later(call: Callable[[], Awaitable[object]]) -> Outcome:
    """Await a call; its `OSError` becomes an `Outcome`, too."""
    try:
        return Outcome(await call())
    except OSError as error:
        return refused(error)


def refused(error: OSError) -> Outcome:
    return Outcome(error=f"{type(error).__name__} {error.errno}")


@dataclass(slots=True)
class OpenFile:
    """The same file, open on both disks."""

    real: File
    simulated: Any


@dataclass(slots=True)
class Seen:
    """Counts calls and errors of a run, so that a test can check that the run covered enough."""

    calls: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def note(self, call: str, outcome: Outcome) -> None:
        """Count a call (like "rename") and its error, if any."""
        self.calls[call] = self.calls.get(call, 0) + 1
        if outcome.error:
            self.errors[outcome.error] = self.errors.get(outcome.error, 0) + 1


class SideBySide:
    """Both disks, and the random calls on them; each method below `run` is one kind of call."""

    def __init__(self, directory: Path, seed: int, seen: Seen) -> None:
        self.directory = directory
        self.real = SystemDisk(directory)
        self.simulated: Any = memory_disk().MemoryDisk()
        self.chance = random.Random(seed)  # noqa: S311 - calls that can be made again
        self.seen = seen
        self.files: list[OpenFile] = []
        self.syncs: list[asyncio.Task[None]] = []
        self.history: list[str] = []
        """All calls so far, as text for messages."""

    async def run(self, calls: int) -> None:
        """Make this many random calls; raises `AssertionError` if the two disks differ."""
        for _ in range(calls):
            await self.chance.choices(tuple(MOVES), tuple(MOVES.values()))[0](self)
            self.compare_files()
        await self.wait_for_syncs()
        assert self.stored() == self.simulated_tree(), self.calls_made()

    def close(self) -> None:
        for one in self.files:
            one.real.close()
        self.real.close()

    # --- calls on the disk ------------------------------------------------------------

    async def list_names(self) -> None:
        """Compare `exists` of a random path and `names` of a random directory on both disks."""
        path = self.path()
        self.both(f"exists {path}", lambda disk: disk.exists(path))
        directory = self.chance.choice(DIRECTORIES)
        self.both(f"names {directory}", lambda disk: disk.names(directory))

    async def make_directory(self) -> None:
        """Make a random directory on both disks, and compare."""
        path = self.chance.choice(DIRECTORIES[1:-1])
        self.both(f"make_directory {path}", lambda disk: disk.make_directory(path))

    async def rename(self) -> None:
        """Rename a file or directory within one directory, as the brokers do."""
        directory = self.chance.choice(DIRECTORIES)
        old, new = (join(directory, self.chance.choice((*NAMES, "one", "two"))) for _ in range(2))
        real = outcome_of(lambda: self.real.rename(old, new))
        if real == refused(OSError(errno.EEXIST, "")):
            # The error of xfs if the target is a directory that is not empty; rename(2) allows
            # both.
            real = refused(OSError(errno.ENOTEMPTY, ""))
        simulated = outcome_of(lambda: self.simulated.rename(old, new))
        self.agree(f"rename {old} {new}", real, simulated)

    async def remove(self) -> None:
        """Remove a random file or directory on both disks, and compare."""
        path = self.chance.choice([self.path(), self.path(), *DIRECTORIES[1:]])
        self.both(f"remove {path}", lambda disk: disk.remove(path))

    async def replace(self) -> None:
        """Replace a random file's content on both disks, and compare."""
        path, data = self.path(), self.data()
        await self.both_later(f"replace {path}", lambda disk: disk.replace(path, data))

    async def sync_directory(self) -> None:
        """Sync a random directory on both disks, and compare."""
        path = self.chance.choice(DIRECTORIES)
        await self.both_later(f"sync_directory {path}", lambda disk: disk.sync_directory(path))

    async def lock(self) -> None:
        """Lock a file on both disks, one in the root or in a missing directory, and compare."""
        path = self.chance.choice((".lock", "none/.lock"))
        self.both(f"lock {path}", lambda disk: disk.lock(path))

    async def open(self) -> None:
        """Open a file as its only writer: another open handle of the same file is closed first."""
        path, create = self.path(), self.chance.random() < 0.7
        simulated: Any = outcome_of(lambda: self.simulated.open(path, create=create))
        for one in self.files.copy():
            if not simulated.error and one.simulated._node is simulated.value._node:  # noqa: SLF001
                await self.closed(one)
        real: Any = outcome_of(lambda: self.real.open(path, create=create))
        self.agree(
            f"open {path} {create}", Outcome(None, real.error), Outcome(None, simulated.error)
        )
        if not real.error:
            self.files.append(OpenFile(real.value, simulated.value))

    # --- calls on an open file --------------------------------------------------------

    async def append(self) -> None:
        """Append random data to an open file on both disks, and compare."""
        data = self.data()
        self.both_files("append", lambda file: file.append(data))

    async def write_at(self) -> None:
        """Write random data at a random offset of an open file on both disks, and compare."""
        data, at = self.data(), self.chance.randrange(2 * MOST_BYTES)
        self.both_files(f"write_at {at} {len(data)}", lambda file: file.write_at(at, data))

    async def truncate(self) -> None:
        """Truncate an open file on both disks, to 0 or to a random size, and compare."""
        size = self.chance.choice((0, self.chance.randrange(2 * MOST_BYTES)))
        self.both_files(f"truncate {size}", lambda file: file.truncate(size))

    async def read(self) -> None:
        """Read a random range of an open file on both disks, by `read` and `read_into`; compare."""
        at, size = (self.chance.randrange(2 * MOST_BYTES) for _ in range(2))
        self.both_files(f"read {at} {size}", lambda file: file.read(at, size))

        def into(file: File) -> tuple[int, bytes]:
            buffer = bytearray(size)
            count = file.read_into(at, memoryview(buffer))
            return count, bytes(buffer)

        self.both_files(f"read_into {at} {size}", into)

    async def sync(self) -> None:
        """Start a sync in the background: later calls run at the same time, and may close the
        file."""
        if self.files:
            one = self.chance.choice(self.files)
            self.syncs.append(asyncio.create_task(self.synced(one)))
            await asyncio.sleep(0)

    async def close_one(self) -> None:
        if self.files:
            await self.closed(self.chance.choice(self.files))

    async def hold(self) -> None:
        """Close a file on which `hold` was called: it must stay readable until `release`."""
        if self.files:
            one = self.chance.choice(self.files)
            one.real.hold()
            size = one.real.size()
            await self.closed(one)
            assert len(one.real.read(0, size)) == size, self.calls_made()
            one.real.release()

    async def wait_for_syncs(self) -> None:
        """Wait until all syncs in the background have ended."""
        await asyncio.gather(*self.syncs)
        self.syncs.clear()

    # --- both at once -----------------------------------------------------------------

    def both(self, what: str, call: Callable[[Disk], object]) -> None:
        """Make a call on both disks and compare; `what` describes it in messages."""
        self.agree(
            what, outcome_of(lambda: call(self.real)), outcome_of(lambda: call(self.simulated))
        )

    async def both_later(self, what: str, call: Callable[[Disk], Awaitable[object]]) -> None:
        """Await a call on both disks and compare; `what` describes it in messages."""
        real = await outcome_later(lambda: call(self.real))
        simulated = await outcome_later(lambda: call(self.simulated))
        self.agree(what, real, simulated)

    def both_files(self, what: str, call: Callable[[File], object]) -> None:
        """Make a call on one random open file of both disks and compare."""
        if self.files:
            one = self.chance.choice(self.files)
            real, simulated = (
                outcome_of(lambda: call(one.real)),
                outcome_of(lambda: call(one.simulated)),
            )
            self.agree(what, real, simulated)

    async def synced(self, one: OpenFile) -> None:
        """Sync the real file, which must succeed; the simulated file is not synced here."""
        real = await outcome_later(one.real.sync)
        self.agree("sync", real, Outcome())

    async def closed(self, one: OpenFile) -> None:
        """Close an open file on both disks, and compare."""
        self.files.remove(one)
        self.agree("close", outcome_of(one.real.close), outcome_of(one.simulated.close))

    def agree(self, what: str, real: Outcome, simulated: Outcome) -> None:
        """Note a call; raises `AssertionError` unless both disks had the same outcome."""
        self.history.append(what)
        self.seen.note(what.split(maxsplit=1)[0], real)
        assert real == simulated, (
            f"{self.calls_made()}: real disk {brief(real)}, simulated disk {brief(simulated)}"
        )

    # --- what is stored ---------------------------------------------------------------

    def compare_files(self) -> None:
        """Raise `AssertionError` if an open file has other sizes or bytes on the two disks."""
        for one in self.files:
            size = one.real.size()
            assert size == one.simulated.size(), self.calls_made()
            assert size == os.fstat(one.real.fileno() or -1).st_size, self.calls_made()
            assert one.real.read(0, size + 1) == one.simulated.read(0, size + 1), self.calls_made()

    def stored(self) -> dict[str, bytes | None]:
        """Path -> content of all files on the machine's disk; None for a directory."""
        return {
            str(path.relative_to(self.directory)): None if path.is_dir() else path.read_bytes()
            for path in self.directory.rglob("*")
        }

    def simulated_tree(self, directory: str = "") -> dict[str, bytes | None]:
        """As `stored`, for the simulated disk."""
        found: dict[str, bytes | None] = {}
        for name in self.simulated.names(directory):
            path = join(directory, name)
            try:
                found[path] = bytes(self.simulated.content(path))
            except AssertionError:  # a directory
                found |= {path: None} | self.simulated_tree(path)
        return found

    # --- chance -----------------------------------------------------------------------

    def path(self) -> str:
        return join(self.chance.choice(DIRECTORIES), self.chance.choice(NAMES))

    def data(self) -> bytes:
        return self.chance.randbytes(self.chance.choice((0, 1, 511, 4096, MOST_BYTES)))

    def calls_made(self) -> str:
        """The last calls, for messages."""
        return f"after {len(self.history)} calls, the last of them {self.history[-3:]}"


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def brief(outcome: Outcome) -> str:
    return repr(outcome)[:200]


# Call -> its weight in the random choice.
MOVES: Final[dict[Callable[[SideBySide], Awaitable[None]], int]] = {
    SideBySide.list_names: 3,
    SideBySide.make_directory: 2,
    SideBySide.rename: 4,
    SideBySide.remove: 3,
    SideBySide.replace: 2,
    SideBySide.sync_directory: 1,
    SideBySide.lock: 1,
    SideBySide.open: 6,
    SideBySide.append: 8,
    SideBySide.write_at: 3,
    SideBySide.truncate: 3,
    SideBySide.read: 6,
    SideBySide.sync: 2,
    SideBySide.close_one: 2,
    SideBySide.hold: 1,
    SideBySide.wait_for_syncs: 1,
}
