"""Compaction of transactions: what stays of aborted ones, and for how long their markers do."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.compaction.key_map import ENTRY_BYTES
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.transactions import NO_UNSTABLE_OFFSET
from chiplog_wire.records.batch import BatchHeader, iter_batches
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

RETENTION_MS = 1_000
CONFIG = LogConfig(
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)


@dataclass
class Bench:
    """A compacted log with transactions."""

    kit: "StorageKit"
    directory: LogDirectory
    log: PartitionLog
    epoch: int = 0

    def put(self, key: bytes, value: bytes, producer_id: int = -1, sequence: int = 0) -> int:
        """One record, of a transaction if it has a producer; its offset."""
        options = BatchOptions()
        if producer_id >= 0:
            producer = Producer(producer_id=producer_id, epoch=self.epoch, base_sequence=sequence)
            options = BatchOptions(producer=producer, transactional=True)
        batch = memoryview(build_batch([NewRecord(value, key, self.now_ms)], options))
        return self.log.append_as_leader(batch, 0, self.now_ms).base_offset

    def end(self, producer_id: int, *, is_commit: bool) -> int:
        """A marker with a raised epoch, as in the second generation; its offset."""
        self.epoch += 1
        producer = Producer(producer_id=producer_id, epoch=self.epoch)
        marker = EndMarker(is_commit, coordinator_epoch=0)
        return self.log.append_marker(marker, producer, 0, self.now_ms).base_offset

    @property
    def now_ms(self) -> int:
        return self.kit.clock.now_ms()

    async def clean(self, max_keys: int = 1_000) -> None:
        """One pass over everything so far; another producer's record gives it something to do."""
        self.put(b"other", b"%d" % self.log.end_offset)
        self.log.roll(self.now_ms)
        await self.log.flush()
        self.log.stabilize(self.log.end_offset)
        cleaner = LogCleaner(self.directory, self.kit.clock)
        settings = CleanerSettings(
            dedupe_buffer_bytes=max_keys * ENTRY_BYTES, io_max_bytes_per_second=float("inf")
        )
        await cleaner.clean_dirtiest({self.log.partition: self.log.end_offset}, settings)

    def batches(self) -> list[tuple[memoryview, BatchHeader]]:
        found, offset = [], 0
        while offset < self.log.end_offset:
            piece = self.log.read(offset, 10_000, self.log.end_offset)
            data = memoryview(piece.read())
            for position, header in iter_batches(data):
                found.append((data[position : position + header.size_bytes], header))
            offset = piece.next_offset
        return found

    def values(self) -> dict[int, bytes | None]:
        """Without the records of `clean`."""
        return {
            record.offset: record.value
            for batch, header in self.batches()
            if not header.is_control
            for record in read_records(batch, header)
            if record.key != b"other"
        }

    def markers(self) -> list[int]:
        """The offsets of the control batches with records."""
        return [one.base_offset for _, one in self.batches() if one.is_control and one.record_count]


async def bench(kit: "StorageKit") -> Bench:
    kit.config = CONFIG
    return Bench(kit, *await kit.new_log())


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_aborted_records_go_and_remove_no_others(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.put(b"a", b"old")
        one.put(b"a", b"aborted", 1)
        one.put(b"b", b"aborted", 1, 1)
        one.end(1, is_commit=False)
        one.put(b"c", b"committed", 1)
        one.end(1, is_commit=True)
        await one.clean()
        assert one.values() == {0: b"old", 4: b"committed"}
        assert one.markers() == [3, 5]

    run(scenario())


def test_nothing_of_an_open_transaction_is_compacted(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.put(b"a", b"1")
        one.put(b"a", b"2")
        one.log.roll(one.now_ms)
        one.put(b"a", b"3", 1)
        one.put(b"a", b"4")
        await one.clean()
        assert one.values() == {1: b"2", 2: b"3", 3: b"4"}
        one.end(1, is_commit=False)
        await one.clean()
        assert one.values() == {3: b"4"}

    run(scenario())


def test_a_marker_stays_for_a_while_after_its_records(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.put(b"a", b"aborted", 1)
        marker = one.end(1, is_commit=False)
        one.put(b"a", b"new", 1)
        last = one.end(1, is_commit=True)
        await one.clean()  # removes the record
        assert one.log.aborted_transactions(0, 10) != []
        await one.clean()  # finds no record before the marker
        assert one.markers() == [marker, last]
        assert one.log.aborted_transactions(0, 10) == []
        kit.clock.time_ms += RETENTION_MS - 1
        await one.clean()
        assert one.markers() == [marker, last]
        kit.clock.time_ms += 1
        await one.clean()
        assert one.markers() == [last]
        assert one.values() == {2: b"new"}

    run(scenario())


def test_the_last_marker_of_a_producer_stays_for_its_epoch(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.put(b"a", b"aborted", 1)
        one.end(1, is_commit=False)
        for _ in range(3):
            await one.clean()
            kit.clock.time_ms += RETENTION_MS
        assert one.markers() == []
        await one.log.flush()
        kit.kill()
        log = await kit.reopened()
        assert [(number, entry.epoch) for number, entry in log.producers() if number == 1] == [
            (1, 1)
        ]
        assert log.first_unstable_offset == NO_UNSTABLE_OFFSET

    run(scenario())


def test_a_restart_after_compaction_knows_no_open_transactions(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for number in range(4):
            one.put(b"a", b"%d" % number, 1)
            one.end(1, is_commit=number % 2 == 0)
        await one.clean()
        for restart in (kit.kill, lambda: kit.cut_power(3)):
            restart()
            for name in kit.disk.names(kit.orders.directory):
                if name.endswith(".snapshot"):
                    kit.disk.remove(kit.path(name))
            log = await kit.reopened()
            log.stabilize(log.end_offset)
            assert log.first_unstable_offset == NO_UNSTABLE_OFFSET
            # The aborted records are gone, so nothing has to be skipped.
            assert log.aborted_transactions(0, 8) == []
            one.log = log
            assert one.values() == {4: b"2"}
            await log.flush()

    run(scenario())


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".log", "none"])
def test_a_power_cut_during_the_swap_loses_no_aborted_transaction(
    kits: "Callable[[], StorageKit]", power_cut: type[Exception], suffix: str
) -> None:
    """Whichever of the new names the disk has kept, before the last one or after it."""

    async def scenario(seed: int) -> None:
        kit = kits()
        one = await bench(kit)
        one.put(b"a", b"old")
        one.put(b"a", b"new")
        one.put(b"b", b"other")
        one.put(b"b", b"aborted", 1)
        one.end(1, is_commit=False)
        expected = one.log.aborted_transactions(0, 5)
        # The next start does not read the segment again: it is below the recovery point.
        one.log.roll(one.now_ms)
        one.put(b"other", b"next")
        await one.log.flush()
        await one.directory.checkpoint({one.log.partition: one.log.end_offset})

        def cut(old: str, new: str) -> None:
            if old.endswith(f"{suffix}.swap"):
                raise power_cut

        kit.disk.renaming = cut
        with nullcontext() if suffix == "none" else pytest.raises(power_cut):
            # The map has no room for the second key: the aborted record stays.
            await one.clean(max_keys=1)
        kit.cut_power(seed)
        log = await kit.reopened()
        assert log.aborted_transactions(0, 5) == expected
        one.log = log
        assert one.values() == {1: b"new", 2: b"other", 3: b"aborted"}

    for seed in range(30):
        run(scenario(seed))
