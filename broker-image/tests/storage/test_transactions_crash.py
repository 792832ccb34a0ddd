"""The power fails, or the process dies, at every single call that changes the disk of a log with
transactions.

After each crash the log must know the same transactions as one whose batches were appended one by
one, so that a consumer with `read_committed` gets all committed records and no aborted ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.compaction.key_map import ENTRY_BYTES
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.transaction_index import AbortedTransaction
from chiplog_broker.storage.transactions import NO_UNSTABLE_OFFSET
from chiplog_wire.records.batch import BatchHeader, check_crc, iter_batches
from chiplog_wire.records.control import EndMarker, read_marker
from chiplog_wire.records.reader import Record, read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

SEEDS = 2
"""Crashes at each change: the first one is a kill, the others are power cuts."""
DELETES = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=10)
COMPACTS = LogConfig(
    segment_bytes=500,
    index_interval_bytes=60,
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=100,
    file_delete_delay_ms=50,
)
SETTINGS = CleanerSettings(
    dedupe_buffer_bytes=5 * ENTRY_BYTES, io_max_bytes_per_second=float("inf")
)
COORDINATOR_EPOCH = 3


class Written(NamedTuple):
    """One offset: a record with its key and value, or a marker."""

    producer_id: int
    """-1 for a record without a transaction."""
    key: bytes = b""
    value: bytes | None = None
    marker: EndMarker | None = None


@dataclass
class Witness:
    """What was written, and what of it must be found."""

    written: list[Written] = field(default_factory=list)
    promised_end: int = 0

    def check(self, log: PartitionLog) -> None:
        """The log knows the transactions of its batches, and shows all that is committed."""
        log.stabilize(log.end_offset)
        assert log.end_offset >= self.promised_end
        found = Transactions()
        for batch, header in batches(log):
            found.apply(batch, header)
        stable_offset = min(log.end_offset, log.first_unstable_offset)
        assert stable_offset == min(log.end_offset, found.first_unstable_offset)
        indexed = log.aborted_transactions(log.log_start_offset, stable_offset)
        # Only the index knows of the beginnings below the log start offset.
        aborted = [one for one in found.aborted if one.first_offset < stable_offset]
        known = {(one.producer_id, one.last_offset) for one in indexed}
        assert known >= {(one.producer_id, one.last_offset) for one in aborted}
        if not log.log_start_offset and not log.config.compacts:
            assert indexed == aborted
        for max_bytes in (150, 100_000):
            assert visible(log, stable_offset, max_bytes) == self.expected(log, stable_offset)

    def expected(self, log: PartitionLog, stable_offset: int) -> dict[int, bytes | None]:
        """What a consumer gets from the log start offset on."""
        pending: dict[int, list[int]] = {}
        counting: list[int] = []
        for offset, one in enumerate(self.written[: log.end_offset]):
            if one.producer_id < 0:
                counting.append(offset)
            elif one.marker is None:
                pending.setdefault(one.producer_id, []).append(offset)
            else:
                ended = pending.pop(one.producer_id, [])
                counting += ended if one.marker.is_commit else []
        counting = [one for one in sorted(counting) if one < stable_offset]
        if log.config.compacts:
            # An older value of a key may be there or not, depending on the passes so far.
            there = {record.offset for record in records(log)}
            last = {self.written[offset].key: offset for offset in counting}
            counting = [one for one in counting if one in there]
            gone = set(last.values()) - set(counting)
            assert not [one for one in gone if self.written[one].value is not None], gone
        return {
            offset: self.written[offset].value
            for offset in counting
            if offset >= log.log_start_offset
        }


@dataclass
class Transactions:
    """The transactions of batches, by the rules alone: without an index or a snapshot."""

    open: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    """Those with records: the batches that compaction has emptied need no entry in the index, and
    a crash while a compacted segment takes its place may lose it."""
    with_records: set[int] = field(default_factory=set)

    def apply(self, batch: memoryview, header: BatchHeader) -> None:
        if header.is_control:
            marker = read_marker(batch, header) if header.record_count else None
            if marker is not None and header.producer_id in self.open:
                first = self.open.pop(header.producer_id)
                if not marker.is_commit and header.producer_id in self.with_records:
                    offset = header.base_offset
                    stable = min([offset + 1, *self.open.values()])
                    self.aborted.append(
                        AbortedTransaction(header.producer_id, first, offset, stable)
                    )
                self.with_records.discard(header.producer_id)
        elif header.is_transactional:
            self.open.setdefault(header.producer_id, header.base_offset)
            if header.record_count:
                self.with_records.add(header.producer_id)

    @property
    def first_unstable_offset(self) -> int:
        return min(self.open.values(), default=NO_UNSTABLE_OFFSET)


def batches(log: PartitionLog) -> list[tuple[memoryview, BatchHeader]]:
    """Every batch from log start to log end."""
    found = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 10_000, log.end_offset)
        data = memoryview(piece.read())
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            check_crc(batch, header)
            found.append((batch, header))
        offset = piece.next_offset
    return found


def records(log: PartitionLog) -> list[Record]:
    """All records, whatever became of their transactions."""
    return [
        record
        for batch, header in batches(log)
        if not header.is_control
        for record in read_records(batch, header)
    ]


def visible(log: PartitionLog, stable_offset: int, max_bytes: int) -> dict[int, bytes | None]:
    """What a consumer with `read_committed` gets, by answers of at most this size. It skips the
    batches of a producer from a transaction's first offset to its abort marker, as Kafka's do."""
    found: dict[int, bytes | None] = {}
    offset = log.log_start_offset
    while offset < stable_offset:
        piece = log.read(offset, max_bytes, stable_offset)
        aborted = log.aborted_transactions(offset, piece.next_offset)
        coming = sorted((one.first_offset, one.producer_id) for one in aborted)
        skipped: set[int] = set()
        data = memoryview(piece.read())
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            while coming and coming[0][0] <= header.last_offset:
                skipped.add(coming.pop(0)[1])
            if header.is_control:
                marker = read_marker(batch, header) if header.record_count else None
                if marker is not None and not marker.is_commit:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                found |= {one.offset: one.value for one in read_records(batch, header)}
        offset = piece.next_offset
    return {one: value for one, value in found.items() if one >= log.log_start_offset}


class Life:
    """The life of a log, the same each time; `witness` knows what was done."""

    def __init__(self, kit: "StorageKit", witness: Witness) -> None:
        self.kit = kit
        self.witness = witness
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.leader_epoch = 0

    async def run(self) -> None:
        directory, log = await self.kit.new_log()
        if log.config.compacts:
            await self.be_compacted(directory, log)
        else:
            await self.be_cut(directory, log)

    async def be_cut(self, directory: LogDirectory, log: PartitionLog) -> None:
        """It is truncated, closed and opened, and loses its oldest records."""
        await self.transactions(log, 1)
        await directory.checkpoint({})
        await self.transactions(log, 1)
        self.put(log, 4)
        self.put(log, 5)
        self.end(log, 5, is_commit=False)
        self.put(log, 5)
        await log.flush()
        # The abort marker of producer 5 is cut off: its transaction is open again.
        offset = log.end_offset - 2
        self.witness.promised_end = offset
        await log.truncate_to(offset, self.now())
        await log.flush()
        del self.witness.written[offset:]
        self.epochs[5], self.sequences[5] = 0, 1
        self.leader_epoch = 1
        self.put(log, 5)
        self.end(log, 5, is_commit=False)
        await directory.close({}, 7)
        log = await self.kit.reopened()
        self.leader_epoch = 2
        self.end(log, 4, is_commit=True)
        await self.transactions(log, 1)
        await log.delete_records_before(log.end_offset // 2, self.now())
        self.kit.clock.time_ms += 100
        log.remove_expired_files(self.now())
        await self.transactions(log, 1)

    async def be_compacted(self, directory: LogDirectory, log: PartitionLog) -> None:
        """It is compacted after each few transactions, until also markers are removed."""
        for _ in range(3):
            await self.transactions(log, 1)
            log.roll(self.now())
            await log.flush()
            await directory.checkpoint({})
            await self.clean(directory, log)
            self.kit.clock.time_ms += 120
            log.remove_expired_files(self.now())
        await self.clean(directory, log)
        await directory.close({}, 7)

    async def transactions(self, log: PartitionLog, rounds: int) -> None:
        """Interleaved transactions, of which some are aborted, and plain records."""
        for number in range(rounds):
            for producer_id in (1, 2, -1, 1, 3):
                self.put(log, producer_id)
            self.end(log, 2, is_commit=number % 2 == 0)
            self.put(log, 2)
            self.end(log, 1, is_commit=number % 2 == 1)
            await self.sync(log)
            self.put(log, -1)
            self.end(log, 3, is_commit=False)
            self.put(log, 1)
            self.end(log, 2, is_commit=False)
            self.end(log, 1, is_commit=True)
            await self.sync(log)

    async def sync(self, log: PartitionLog) -> None:
        await log.make_durable(log.end_offset)
        self.witness.promised_end = log.end_offset

    def put(self, log: PartitionLog, producer_id: int) -> None:
        """One record; of a transaction, if it has a producer."""
        offset, options = log.end_offset, BatchOptions()
        key, value = b"%d" % (offset % 4), b"%d" % offset if offset % 7 else None
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + 1
            epoch = self.epochs.get(producer_id, 0)
            producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
            options = BatchOptions(producer=producer, transactional=True)
        batch = memoryview(build_batch([NewRecord(value, key, self.now())], options))
        self.witness.written.append(Written(producer_id, key, value))
        log.append_as_leader(batch, self.leader_epoch, self.now())

    def end(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
        """A marker with a raised epoch, as in the second generation."""
        self.epochs[producer_id] = epoch = self.epochs.get(producer_id, 0) + 1
        self.sequences[producer_id] = 0
        marker = EndMarker(is_commit, COORDINATOR_EPOCH)
        self.witness.written.append(Written(producer_id, marker=marker))
        producer = Producer(producer_id=producer_id, epoch=epoch)
        log.append_marker(marker, producer, self.leader_epoch, self.now())

    async def clean(self, directory: LogDirectory, log: PartitionLog) -> None:
        log.stabilize(log.end_offset)
        cleaner = LogCleaner(directory, self.kit.clock)
        for _ in range(20):
            if not await cleaner.clean_dirtiest({log.partition: log.end_offset}, SETTINGS):
                break
            self.witness.check(log)

    def now(self) -> int:
        return self.kit.clock.now_ms()


@pytest.mark.parametrize("config", [DELETES, COMPACTS], ids=["deletes", "compacts"])
def test_a_crash_at_every_change(
    kits: "Callable[[], StorageKit]", power_cut: type[Exception], config: LogConfig
) -> None:
    whole, witness = kits(), Witness()
    whole.config = config
    whole.run(Life(whole, witness).run())
    operations = whole.disk.operations
    assert operations > 100
    whole.run(check_survivor(whole, witness))
    for operation in range(1, operations + 1):
        for seed in range(SEEDS):
            kit, witness = kits(), Witness()
            kit.config = config
            kit.disk.cut_power_at(operation)
            with pytest.raises(power_cut):
                kit.run(Life(kit, witness).run())
            if seed:
                kit.cut_power(seed * 1_000 + operation)
            else:
                kit.kill()
            kit.run(check_survivor(kit, witness))


async def check_survivor(kit: "StorageKit", witness: Witness) -> None:
    """It opens and knows its transactions. When they have ended, consumers get everything."""
    directory = await kit.open_again()
    assert not directory.quarantined
    if kit.orders not in directory.logs:
        assert witness.promised_end == 0
        return
    log = directory.logs[kit.orders]
    witness.check(log)
    del witness.written[log.end_offset :]
    life = Life(kit, witness)
    life.leader_epoch = 50
    opened = Transactions()
    for batch, header in batches(log):
        opened.apply(batch, header)
    for producer_id in sorted(opened.open):
        life.epochs[producer_id] = 100
        life.end(log, producer_id, is_commit=producer_id % 2 == 0)
    witness.check(log)
    assert log.first_unstable_offset == NO_UNSTABLE_OFFSET
    if log.config.compacts:
        log.roll(life.now())
        await log.flush()
        await life.clean(directory, log)
    await directory.close({}, 1)
    witness.check(await kit.reopened())
