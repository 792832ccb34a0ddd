"""The power fails at every single call that changes the disk, one run for each.

A script does everything a log can do. After each cut the log must open, hold everything
that was reported durable and not taken back since, hold nothing that was never written,
and be as consistent as if nothing had happened.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.producers import ProducerStates
from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

SEEDS = 4
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=10)


@dataclass
class Witness:
    """Remembers what the log promised."""

    written: dict[int, set[bytes]] = field(default_factory=dict)
    promised_end: int = 0
    promised_start: int = 0
    highest_start: int = 0
    emptied_to: int | None = None

    def will_truncate(self, offset: int) -> None:
        self.promised_end = min(self.promised_end, offset)

    def check(self, log: PartitionLog) -> None:
        values = dict(all_records(log))
        assert log.end_offset >= self.promised_end
        assert log.log_start_offset <= max(self.highest_start, self.emptied_to or 0)
        if self.emptied_to is None:
            assert log.log_start_offset >= self.promised_start
        assert list(values) == list(range(log.log_start_offset, log.end_offset))
        for offset, value in values.items():
            assert value in self.written[offset], offset


def all_records(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Every record from log start to log end; each batch is checked on the way."""
    found = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 10_000, log.end_offset).read()
        assert data
        for position, header in iter_batches(data):
            batch = memoryview(data)[position : position + header.size_bytes]
            check_crc(batch, header)
            assert header.leader_epoch == log.epoch_at(
                max(header.base_offset, log.log_start_offset)
            )
            for record in read_records(batch, header):
                if record.offset >= log.log_start_offset:
                    assert record.value is not None
                    found.append((record.offset, record.value))
            offset = header.last_offset + 1
    return found


def producers_by_folding(log: PartitionLog) -> dict[int, tuple[int, int]]:
    states = ProducerStates()
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 10_000, log.end_offset).read()
        for _, header in iter_batches(data):
            states.record(header, header.base_offset)
            offset = header.last_offset + 1
    return last_batches(states)


def last_batches(states: ProducerStates) -> dict[int, tuple[int, int]]:
    return {
        producer_id: (entry.batches[-1].last_sequence, entry.batches[-1].last_offset)
        for producer_id, entry in states
        if entry.batches
    }


class Script:
    """One life of a log, the same each time."""

    def __init__(self, kit: "StorageKit", make_batch: "MakeBatch", witness: Witness) -> None:
        self.kit = kit
        self.make_batch = make_batch
        self.witness = witness
        self.epoch = 0
        self.sequence = 0
        self.number = 0

    async def run(self) -> None:
        directory, log = await self.kit.new_log()
        await self.produce(log, 9)
        await directory.checkpoint({})
        await self.produce(log, 7)
        await log.delete_records_before(self.deleting(4), self.now())
        await self.produce(log, 3)
        self.epoch = 1
        self.witness.will_truncate(8)  # the batch that holds 10 begins at 8
        await log.truncate_to(10, self.now())
        self.epoch = 2
        await self.produce(log, 8)
        self.later()
        log.remove_expired_files(self.now())
        await directory.checkpoint({})
        await self.expire(log)
        await self.produce(log, 4)
        await directory.close({}, 7)
        log = await self.kit.reopened()
        self.epoch = 3
        await self.produce(log, 6)
        self.witness.will_truncate(0)
        self.witness.emptied_to = 100
        await log.truncate_fully_and_start_at(100, self.now())
        await self.produce(log, 5)
        self.witness.promised_start = self.witness.highest_start = 100
        self.witness.emptied_to = None

    async def produce(self, log: PartitionLog, batches: int) -> None:
        for _ in range(batches):
            self.number += 1
            values = [b"%d-%d" % (self.number, index) for index in range(1 + self.number % 3)]
            batch = self.batch(values)
            for index, value in enumerate(values):
                self.witness.written.setdefault(log.end_offset + index, set()).add(value)
            result = log.append_as_leader(batch, self.epoch, self.now())
            if self.number % 2:
                await log.make_durable(result.last_offset + 1)
                if log.config.durability is Durability.FSYNC:
                    self.witness.promised_end = result.last_offset + 1

    def batch(self, values: list[bytes]) -> memoryview:
        if self.number % 4 == 0:
            return self.make_batch(values, timestamp_ms=self.now())
        producer = Producer(producer_id=9, epoch=self.epoch, base_sequence=0)
        if self.epoch == getattr(self, "producer_epoch", None):
            producer = replace(producer, base_sequence=self.sequence)
        else:
            self.sequence = 0
        self.producer_epoch = self.epoch
        self.sequence += len(values)
        return self.make_batch(values, timestamp_ms=self.now(), producer=producer)

    async def expire(self, log: PartitionLog) -> None:
        log.configure(replace(log.config, retention_bytes=900))
        self.witness.highest_start = log.end_offset
        await log.enforce_retention(log.durable_end_offset, self.now())
        self.witness.promised_start = log.log_start_offset

    def deleting(self, offset: int) -> int:
        self.witness.highest_start = offset
        return offset

    def now(self) -> int:
        return self.kit.clock.now_ms()

    def later(self) -> None:
        self.kit.clock.time_ms += 100


@pytest.mark.parametrize("durability", list(Durability))
def test_power_cut_at_every_change(
    kits: "Callable[[], StorageKit]",
    make_batch: "MakeBatch",
    power_cut: type[Exception],
    durability: Durability,
) -> None:
    config = replace(SMALL, durability=durability)
    whole = kits()
    whole.config = config
    whole.run(Script(whole, make_batch, Witness()).run())
    assert whole.disk.operations > 100
    for operation in range(1, whole.disk.operations + 1):
        for seed in range(SEEDS):
            kit, witness = kits(), Witness()
            kit.config = config
            kit.disk.cut_power_at(operation)
            with pytest.raises(power_cut):
                kit.run(Script(kit, make_batch, witness).run())
            kit.cut_power(seed * 1_000 + operation)
            kit.run(check_survivor(kit, make_batch, witness))


def test_kill_at_every_change(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    """The process dies, the page cache stays: every record that was appended is there."""
    operation = 0
    while True:
        operation += 1
        kit, witness = kits(), Witness()
        kit.config = SMALL
        kit.disk.cut_power_at(operation)
        try:
            kit.run(Script(kit, make_batch, witness).run())
        except power_cut:
            kit.kill()
            kit.run(check_survivor(kit, make_batch, witness))
        else:
            break


async def check_survivor(kit: "StorageKit", make_batch: "MakeBatch", witness: Witness) -> None:
    directory = await kit.open()
    assert not directory.quarantined
    if kit.orders not in directory.logs:
        assert witness.promised_end == 0
        return
    log = directory.logs[kit.orders]
    witness.check(log)
    assert log.durable_end_offset == log.end_offset
    assert last_batches(log._state.producers).items() >= producers_by_folding(log).items()
    # And it goes on: a new leader appends, a clean stop and start find everything.
    result = log.append_as_leader(make_batch([b"after"]), 50, kit.clock.now_ms())
    records = all_records(log)
    assert records[-1] == (result.base_offset, b"after")
    await directory.close({}, 1)
    assert all_records(await kit.reopened()) == records
