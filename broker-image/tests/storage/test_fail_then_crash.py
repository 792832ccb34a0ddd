"""One call to the disk fails, the log goes on, and then the machine stops.

Each seed is the life of a log, and one call of it fails. An operation that raised is refused: what
it has left behind must not harm what comes later. Whether the broker is closed, killed or loses its
power in the end, the next one finds all that was acknowledged, and no replica is taken for damaged.
"""

import copy
import errno
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pytest

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.directory_report import Verdict
from chiplog_broker.storage.errors import DirectoryOfflineError, DiskFullError, StorageError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import LOCK, TopicPartition
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.storage.conftest import StorageKit
from tests.storage.memory_disk import ManualClock, MemoryDisk, PowerCutError
from tests.storage.test_compaction_crash import records
from tests.storage.test_crash_everywhere import last_batches, producers_by_folding

Record: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value."""
Step: TypeAlias = Callable[[], Awaitable[None]]

SEEDS = 30
STEPS = 22
CALLS = 250
"""About as many calls has a life."""
KEYS = 4
OTHER = TopicPartition("payments", 0)
SMALL = LogConfig(
    segment_bytes=900,
    index_interval_bytes=100,
    segment_index_bytes=200,
    file_delete_delay_ms=10,
    retention_ms=-1,
    message_timestamp_after_max_ms=10**12,
)
COMPACTED = replace(
    SMALL, deletes=False, compacts=True, min_cleanable_dirty_ratio=0.0, delete_retention_ms=10**9
)
CONFIGS = {
    "fsync": SMALL,
    "page-cache": replace(SMALL, durability=Durability.PAGE_CACHE),
    "compacted": COMPACTED,
}
CLEANER = CleanerSettings(dedupe_buffer_bytes=20 * 192, io_max_bytes_per_second=float("inf"))
_CHANGES = frozenset({"open", "append", "write_at", "truncate", "rename", "replace"})
_SYNCS = frozenset({"sync", "sync_directory"})
FAILING = {
    errno.ENOSPC: _CHANGES | _SYNCS,
    errno.EMFILE: frozenset({"open", "look", "replace", "sync_directory"}),
    errno.EIO: _CHANGES | _SYNCS | {"remove", "look", "read"},
}
"""Which calls may fail with an error. `look` opens a file that exists."""


@dataclass
class Fault:
    """The call that fails: the first one from number `at` on that can fail with this error."""

    at: int
    number: int
    chance: random.Random
    stops_after: int = 0
    """The machine stops so many changes after the fault; with 0 when the life is over."""
    calls: int = 0
    fired: str = ""

    def arm(self, disk: MemoryDisk) -> None:
        disk.chance = random.Random(self.at)  # noqa: S311 (not for secrets)
        disk.stepping = lambda operation, path: self._change(disk, operation, path)
        disk.looking = lambda operation, path: self._look(
            "look" if operation == "open" else operation, path
        )

    def _is_due(self, operation: str, path: str) -> bool:
        self.calls += 1
        if self.fired or self.calls < self.at or path == LOCK:
            return False
        if operation in FAILING[self.number]:
            self.fired = f"{operation} {path}"
        return bool(self.fired)

    def _change(self, disk: MemoryDisk, operation: str, path: str) -> None:
        if self.fired and self.stops_after:
            self.stops_after -= 1
            if not self.stops_after:
                disk.power_off()
        if not self._is_due(operation, path):
            return
        if operation == "sync_directory" and self.number == errno.EMFILE:
            raise OSError(self.number, "no descriptor for the directory", path)
        is_io_error = self.number == errno.EIO
        if operation == "replace" and is_io_error and self.chance.random() < 0.5:
            operation = "replace_sync"
        disk.fail_next(
            operation,
            self.number,
            path,
            written_share=self.chance.choice((0.0, 0.5, 1.0)),
            is_cut_back=not is_io_error or self.chance.random() < 0.5,
        )

    def _look(self, operation: str, path: str) -> None:
        if self._is_due(operation, path):
            raise OSError(self.number, f"injected into {operation}", path)


@dataclass
class Witness:
    """What the log has promised; after each step that left the disk working it is asked again."""

    written: dict[int, Record] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    """The offsets whose records compaction has not removed."""
    durable_end: int = 0
    acknowledged_end: int = 0
    """All records below it survive the end of the process."""
    start: int = 0
    lowest_end: int = 0
    """The least that a truncation may leave which the end of the machine interrupts."""
    highest_start: int = 0
    """The log start offset that the step in progress may set."""

    def ask(self, log: PartitionLog) -> None:
        self.durable_end = log.durable_end_offset
        self.acknowledged_end = self.lowest_end = log.countable_end_offset
        self.start = self.highest_start = log.log_start_offset
        for offset in [one for one in self.written if one >= log.end_offset]:
            del self.written[offset]
            self.kept.discard(offset)


class Life:
    """The life of a log, the same for each seed."""

    directory: LogDirectory
    log: PartitionLog
    other: PartitionLog
    """A log whose offsets are in the same files."""

    def __init__(self, kit: StorageKit, seed: int) -> None:
        self.kit = kit
        self.chance = random.Random(seed)  # noqa: S311 (not for secrets)
        self.witness = Witness()
        self.problems: list[str] = []
        self.trace: list[str] = []
        self.is_over = False
        """Whether the disk has failed, or the machine has stopped."""
        self.number = 0
        self.epoch = 0
        self.producer_epochs = [0, 0, 0]
        self.attempted: dict[int, Record] = {}

    async def begin(self) -> None:
        self.directory = await self.kit.open()
        kit = self.kit
        self.log = await self.directory.create(kit.orders, kit.topic_id, kit.config)
        self.other = await self.directory.create(OTHER, kit.topic_id, kit.config)

    async def run(self, after: Step) -> None:
        """Live; `after` each step, and each attempt of one."""
        steps: tuple[Step, ...] = (
            *((self.append,) * 6),
            *((self.follow,) * 3),
            *((self.flush,) * 3),
            *((self.truncate, self.checkpoint) * 2),
            self.roll,
            self.start_over,
            self.delete,
            self.expire,
            self.maintain,
            self.elsewhere,
            self.look,
            self.restart,
            *((self.compact,) * (3 if self.kit.config.compacts else 0)),
        )
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            for _ in range(self.chance.randint(1, 2)):
                was_taken = await self.took(step)
                if self.is_over:
                    return
                await after()
                if was_taken:
                    break

    async def took(self, step: Step) -> bool:
        """Whether a step was taken; otherwise it was refused, or all is over."""
        self.trace.append(step.__name__)
        self.attempted = {}
        refused: Exception | None = None
        try:
            await step()
        except (DirectoryOfflineError, PowerCutError) as error:
            self.trace.append(repr(error))
            self.is_over = True
            return False
        except DiskFullError as error:
            refused = error
            self.trace.append(f"refused: {error}")
        except StorageError as error:
            self.problems.append(f"{step.__name__}: {error!r}")
            self.is_over = True
            return False
        except OSError as error:
            refused = error
            # Only files that were deleted already may fail unnoticed.
            if step != self.maintain:
                self.problems.append(f"{step.__name__}: {error!r}")
        for offset, record in self.attempted.items():
            if offset < self.log.end_offset:
                self.witness.written[offset] = record
                self.witness.kept.add(offset)
        self.witness.ask(self.log)
        return refused is None

    # --- steps ---------------------------------------------------------------------------

    async def append(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            values = self.values()
            self.attempted.update(enumerate(values, self.log.end_offset))
            producer, producer_id = Producer(), self.chance.randrange(3)
            if producer_id:
                # A new producer epoch each time: what was refused leaves no gap.
                self.producer_epochs[producer_id] += 1
                epoch = self.producer_epochs[producer_id]
                producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=0)
            batch = self.batch(values, BatchOptions(producer=producer))
            self.log.append_as_leader(batch, self.epoch, self.now)
        if self.chance.random() < 0.6:
            await self.log.make_durable(self.log.end_offset)

    async def follow(self) -> None:
        offset, batches = self.log.end_offset, bytearray()
        epoch = max(self.epoch, self.log.last_epoch)
        for _ in range(self.chance.randint(1, 6)):
            values = self.values()
            self.attempted.update(enumerate(values, offset))
            batches += self.batch(values, BatchOptions(base_offset=offset, leader_epoch=epoch))
            offset += len(values)
        self.log.append_as_follower(memoryview(batches), epoch, self.now)
        if self.chance.random() < 0.6:
            await self.log.make_durable(self.log.end_offset)

    async def flush(self) -> None:
        await self.log.flush()

    async def roll(self) -> None:
        self.log.roll(self.now)

    async def truncate(self) -> None:
        """And sync, as a follower does."""
        offset = self.chance.randint(self.log.log_start_offset, self.log.end_offset)
        if self.chance.random() < 0.1:
            offset = max(0, self.log.log_start_offset - 1)
        # It ends where the batch begins; in a compacted log, where the gap before it begins.
        least = 0 if self.kit.config.compacts or offset < self.log.log_start_offset else offset - 2
        self.witness.lowest_end = min(self.witness.lowest_end, least)
        await self.log.truncate_to(offset, self.now)
        self.epoch = max(self.epoch, self.log.last_epoch) + 1
        await self.log.flush()

    async def start_over(self) -> None:
        offset = max(0, self.log.end_offset + self.chance.randint(-10, 30))
        self.witness.lowest_end = 0
        self.witness.highest_start = max(offset, self.witness.highest_start)
        await self.log.truncate_fully_and_start_at(offset, self.now)
        self.epoch += 1

    async def delete(self) -> None:
        start, end = self.log.log_start_offset, self.log.durable_end_offset
        offset = self.chance.randint(min(start, end), end)
        self.witness.highest_start = max(start, offset)
        await self.log.delete_records_before(offset, self.now)

    async def expire(self) -> None:
        retention_bytes = self.chance.choice((0, 500, 1500))
        self.log.configure(replace(self.kit.config, retention_bytes=retention_bytes))
        self.witness.highest_start = self.log.durable_end_offset
        try:
            await self.log.enforce_retention(self.log.durable_end_offset, self.now)
        finally:
            self.log.configure(self.kit.config)

    async def checkpoint(self) -> None:
        await self.directory.checkpoint(self.high_watermarks())

    async def maintain(self) -> None:
        self.kit.clock.time_ms += self.chance.choice((0, 20))
        await self.directory.maintain(self.high_watermarks())

    async def elsewhere(self) -> None:
        self.other.append_as_leader(self.batch(self.values()), 0, self.now)
        await self.other.flush()
        await self.other.delete_records_before(self.other.end_offset, self.now)

    async def look(self) -> None:
        with suppress(OSError):  # of a read after the log was asked where
            records(self.log)
        self.log.offset_for_timestamp(self.now - 50, self.log.end_offset)
        self.log.checks.scrub(self.log.log_start_offset, 10_000)

    async def compact(self) -> None:
        cleaner = LogCleaner(self.directory, self.kit.clock)
        try:
            for _ in range(3):
                if not await cleaner.clean_dirtiest(self.high_watermarks(), CLEANER):
                    break
        finally:
            with undisturbed(self.kit.disk), suppress(StorageError, PowerCutError):
                self.witness.kept = set(records(self.log))

    async def restart(self) -> None:
        """A clean one, or the process dies; a start that fails is repeated."""
        is_clean = self.chance.random() < 0.5
        if is_clean:
            try:
                await self.directory.close(self.high_watermarks(), 1)
            except (DiskFullError, DirectoryOfflineError):
                is_clean = False
        while True:
            before = self.kit.disk
            self.kit.kill()
            self.kit.disk.stepping, self.kit.disk.looking = before.stepping, before.looking
            try:
                self.directory = await self.kit.open()
            except StorageError as error:
                self.trace.append(f"no start: {error}")
            else:
                break
        with undisturbed(self.kit.disk):
            await self.check(self.directory, is_clean=is_clean, is_killed=True)
            await self.directory.mark_in_sync_again(self.kit.orders)
        if self.problems:
            self.is_over = True
            return
        self.log, self.other = self.directory.logs[self.kit.orders], self.directory.logs[OTHER]
        self.epoch = max(self.epoch, self.log.last_epoch) + 1

    # --- what they are made of -----------------------------------------------------------

    @property
    def now(self) -> int:
        return self.kit.clock.now_ms()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {log.partition: log.durable_end_offset for log in (self.log, self.other)}

    def values(self) -> list[Record]:
        values: list[Record] = []
        for _ in range(self.chance.randint(1, 3)):
            self.number += 1
            value = b"%d " % self.number + b"x" * self.chance.choice((5, 30, 100))
            values.append((b"%d" % self.chance.randrange(KEYS), value))
        return values

    def batch(self, values: list[Record], options: BatchOptions | None = None) -> memoryview:
        self.kit.clock.time_ms += 1
        made = [NewRecord(value, key, self.now) for key, value in values]
        return memoryview(build_batch(made, options or BatchOptions()))

    # --- what is found ---------------------------------------------------------------------

    async def check(self, directory: LogDirectory, *, is_clean: bool, is_killed: bool) -> None:
        """Note what is wrong with what the next process has found."""
        partition = self.kit.orders
        if partition not in directory.logs:
            self.problems.append(f"quarantined: {directory.quarantined.get(partition)}")
            return
        log = directory.logs[partition]
        problems: list[str] = []
        (report,) = [one for one in directory.report.partitions if one.partition == partition]
        is_reported = (
            report.verdict is not Verdict.INTACT
            or directory.high_watermark_before_truncation(partition) is not None
        )
        try:
            problems += self.lost(log, is_killed=is_killed)
            check_indexes(log)
        except (AssertionError, StorageError) as error:
            problems.append(f"unreadable: {error!r}")
        else:
            states, folded = last_batches(log._state.producers), producers_by_folding(log)
            # A pass may have taken the end of a producer's last batch.
            is_exact = not self.kit.config.compacts
            if not (
                states.items() >= folded.items() if is_exact else states.keys() >= folded.keys()
            ):
                problems.append("producers are missing")
        if problems:
            self.problems += [
                f"{one} ({'' if is_reported else 'not '}reported)" for one in problems
            ]
        elif is_clean and is_reported:
            self.problems.append(f"in doubt after a clean shutdown: {report}")

    def lost(self, log: PartitionLog, *, is_killed: bool) -> Iterator[str]:
        """What this log lacks, or has that was not written."""
        witness = self.witness
        end = witness.acknowledged_end if is_killed else witness.durable_end
        highest_start = witness.start
        if self.is_over:
            end, highest_start = min(end, witness.lowest_end), witness.highest_start
        start = log.log_start_offset
        if log.end_offset < end:
            yield f"lost: the log ends at {log.end_offset}, promised was {end}"
            return
        if start > highest_start:
            yield f"lost: the log starts at {start}, promised was {highest_start}"
            return
        found = {offset: record for offset, record in records(log).items() if offset >= start}
        promised = {
            offset: witness.written[offset] for offset in sorted(witness.kept) if offset < end
        }
        if any(witness.written.get(offset) != found[offset] for offset in found if offset < end):
            yield "other records than were written"
        if self.kit.config.compacts:
            later = {key for offset, (key, _) in found.items() if offset >= end}
            newest = {key: offset for offset, (key, _) in promised.items() if key not in later}
            needed = set(newest.values())
        else:
            needed = set(promised)
        missing = sorted(one for one in needed - set(found) if one >= max(start, witness.start))
        if missing:
            yield f"lost: {missing}"


def check_indexes(log: PartitionLog) -> None:
    """Records are found by the indexes, as by a process that remembers nothing."""
    found = [offset for offset in records(log) if offset >= log.log_start_offset]
    for offset in found[:: max(1, len(found) // 6)]:
        for segment in log._state.segments:
            segment._boundaries.clear()
        read = read_records(log.read(offset, 1, log.end_offset).read())
        assert offset in [record.offset for record in read]
    if found:
        newest = log.offset_for_timestamp(-3, log.end_offset)
        assert newest is not None
        assert log.offset_for_timestamp(newest.timestamp_ms, log.end_offset) == newest


@contextmanager
def undisturbed(disk: MemoryDisk) -> Iterator[None]:
    """Within it no call fails, and none is counted."""
    hooks, quiet = (disk.stepping, disk.looking), MemoryDisk()
    disk.stepping, disk.looking = quiet.stepping, quiet.looking
    yield
    disk.stepping, disk.looking = hooks


def copied(kit: StorageKit) -> StorageKit:
    """The same machine, which may end in another way."""
    disk = MemoryDisk(copy.deepcopy(kit.disk._root))
    return StorageKit(disk, ManualClock(kit.clock.time_ms), kit.config)


async def check_crashes(life: Life, power_cuts: int) -> None:
    """Kill the broker, or cut the power of its machine."""
    for seed in range(-1, power_cuts):
        kit, is_killed = copied(life.kit), seed < 0
        if is_killed:
            kit.kill()
        else:
            kit.cut_power(seed + life.number)
        directory = await kit.open()
        await life.check(directory, is_clean=False, is_killed=is_killed)
        if life.problems:
            life.problems.append("after a kill" if is_killed else f"after power cut {seed}")
            return
        if is_killed:
            # It goes on: a new leader appends, a clean stop and start find everything.
            log = directory.logs[kit.orders]
            log.append_as_leader(life.batch([(b"k", b"after")]), 1_000, life.now)
            found = records(log)
            await directory.close({}, 1)
            if records(await kit.reopened()) != found:
                life.problems.append("other records after another start")
                return


async def check_shutdown(life: Life) -> None:
    """Close the broker, unless that fails. Its machine may lose its power then."""
    try:
        await life.directory.close(life.high_watermarks(), 1)
    except (DirectoryOfflineError, DiskFullError, PowerCutError):
        return
    life.witness.durable_end = life.log.end_offset
    kit = copied(life.kit)
    kit.cut_power(life.number)
    directory = await kit.open()
    assert directory.report.clean
    await life.check(directory, is_clean=True, is_killed=False)
    if life.problems:
        life.problems.append("after a clean shutdown")


async def live(
    kit: StorageKit, seed: int, fault: Fault, *, is_thorough: bool = False, power_cuts: int = 2
) -> Life:
    """A life with this fault, and its ends. If `is_thorough`, it ends after each step as well."""
    life = Life(kit, seed)
    await life.begin()
    fault.arm(kit.disk)

    async def after() -> None:
        if fault.fired and is_thorough and not life.problems:
            await check_crashes(life, 1)

    await life.run(after)
    if not life.problems:
        await check_crashes(life, power_cuts)
    if not (life.problems or life.is_over):
        await check_shutdown(life)
    return life


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("number", FAILING, ids=errno.errorcode.get)
def test_what_was_refused_does_no_harm_later(
    kits: Callable[[], StorageKit], number: int, config: str
) -> None:
    fired = 0
    for seed in range(SEEDS):
        chance = random.Random(f"{seed} {number} {config}")  # noqa: S311 (not for secrets)
        stops_after = chance.choice((0, 0, 1, 3, 8, 20))
        fault = Fault(chance.randint(1, CALLS), number, chance, stops_after)
        kit = kits()
        kit.config = CONFIGS[config]
        life = kit.run(live(kit, chance.randrange(10**6), fault))
        assert not life.problems, (seed, fault.fired, life.trace)
        fired += bool(fault.fired)
    assert fired > SEEDS / 2
