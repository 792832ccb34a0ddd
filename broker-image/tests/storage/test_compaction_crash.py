"""The power fails, or the process dies, at every single change that compaction makes on disk."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.log import PartitionLog
from chiplog_wire.records.batch import Codec, check_crc, iter_batches
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

SEEDS = 3
KEYS = 4
CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=60,
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=100,
    file_delete_delay_ms=50,
)
SETTINGS = CleanerSettings(dedupe_buffer_bytes=3 * 192, io_max_bytes_per_second=float("inf"))


class Witness:
    """What may be found."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.promised_end = 0

    def check(self, log: PartitionLog) -> None:
        """Every key has its last value; what is there was written there; nothing came back."""
        found = records(log)
        assert log.end_offset >= self.promised_end
        for offset, record in found.items():
            assert self.written[offset] == record, offset
        last = {
            key: (offset, value)
            for offset, (key, value) in sorted(self.written.items())
            if offset < log.end_offset
        }
        for key, (offset, value) in last.items():
            assert offset in found or value is None, (key, offset)


class Script:
    """One life of a log, the same each time."""

    def __init__(self, kit: "StorageKit", witness: Witness) -> None:
        self.kit = kit
        self.witness = witness
        self.number = 0

    async def run(self) -> None:
        directory, log = await self.kit.new_log()
        for codec in (Codec.NONE, Codec.LZ4, Codec.NONE):
            await self.produce(log, 9, codec)
            log.roll(self.now())
            await log.flush()
            await directory.checkpoint({})
            await self.clean(directory, log)
            self.kit.clock.time_ms += 80
            log.remove_expired_files(self.now())
        await self.clean(directory, log)
        await directory.close({}, 7)

    async def produce(self, log: PartitionLog, batches: int, codec: Codec) -> None:
        for _ in range(batches):
            self.number += 1
            values = [self.record(index) for index in range(1 + self.number % 2)]
            for index, record in enumerate(values):
                self.witness.written[log.end_offset + index] = record
            producer = Producer(producer_id=self.number % 3, epoch=0, base_sequence=self.number)
            options = BatchOptions(codec=codec, producer=producer)
            made = [NewRecord(value, key, self.now()) for key, value in values]
            # The sequence numbers of this test have gaps, so it writes as a follower would.
            batch = memoryview(
                build_batch(made, replace(options, base_offset=log.end_offset, leader_epoch=0))
            )
            result = log.append_as_follower(batch, 0, self.now())
            await log.make_durable(result.last_offset + 1)
            self.witness.promised_end = result.last_offset + 1

    def record(self, index: int) -> tuple[bytes, bytes | None]:
        key = b"%d" % ((self.number + index) % KEYS)
        return key, None if self.number % 5 == 0 else b"%d-%d" % (self.number, index)

    async def clean(self, directory: LogDirectory, log: PartitionLog) -> None:
        cleaner = LogCleaner(directory, self.kit.clock)
        for _ in range(20):
            if not await cleaner.clean_dirtiest({log.partition: log.end_offset}, SETTINGS):
                break
            self.witness.check(log)

    def now(self) -> int:
        return self.kit.clock.now_ms()


def records(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    found = {}
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = memoryview(log.read(offset, 1_000, log.end_offset).read())
        assert data, offset
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            check_crc(batch, header)
            for record in read_records(batch, header):
                found[record.offset] = (record.key, record.value)
            offset = header.last_offset + 1
    return found


def test_a_crash_at_every_change(
    kits: "Callable[[], StorageKit]", power_cut: type[Exception]
) -> None:
    whole = kits()
    whole.config = CONFIG
    whole.run(Script(whole, Witness()).run())
    assert whole.disk.operations > 300
    for operation in range(1, whole.disk.operations + 1):
        for seed in range(SEEDS):
            kit, witness = kits(), Witness()
            kit.config = CONFIG
            kit.disk.cut_power_at(operation)
            with pytest.raises(power_cut):
                kit.run(Script(kit, witness).run())
            if seed:
                kit.cut_power(seed * 1_000 + operation)
            else:
                kit.kill()
            kit.run(check_survivor(kit, witness, operation, power_cut))


async def check_survivor(
    kit: "StorageKit", witness: Witness, operation: int, power_cut: type[Exception]
) -> None:
    """It opens, also when opening is interrupted in its turn; and compaction goes on."""
    kit.disk.cut_power_at(1 + operation % 7)
    try:
        await kit.open()
    except power_cut:
        kit.cut_power(operation)
    else:
        kit.kill()
    directory = await kit.open()
    assert not directory.quarantined
    if kit.orders not in directory.logs:
        assert witness.promised_end == 0
        return
    log = directory.logs[kit.orders]
    witness.check(log)
    cleaner = LogCleaner(directory, kit.clock)
    log.roll(kit.clock.now_ms())
    await log.flush()
    for _ in range(20):
        if not await cleaner.clean_dirtiest({log.partition: log.end_offset}, SETTINGS):
            break
    witness.check(log)
    last = {
        key: offset
        for offset, (key, _) in sorted(witness.written.items())
        if offset < log.end_offset
    }
    assert set(records(log)) <= set(last.values())
    await directory.close({}, 1)
    again = await kit.reopened()
    witness.check(again)
