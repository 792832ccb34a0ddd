"""Who may still write when a volume is nearly full."""

import errno
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.ports.disk import DiskUsage
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DiskFullError
from chiplog_broker.storage.free_space import AUTOMATIC, FreeSpace, reserve_of
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.transactions import NO_UNSTABLE_OFFSET
from chiplog_wire.records.batch import set_place
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
MIB = 2**20


@pytest.mark.parametrize(
    ("total_bytes", "setting", "expected_bytes"),
    [
        (100 * 1024 * MIB, AUTOMATIC, 1024 * MIB),
        (10 * 1024 * MIB, AUTOMATIC, 10 * 1024 * MIB // 33),
        (24 * MIB, AUTOMATIC, 4 * MIB),
        (4 * MIB, AUTOMATIC, MIB),
        (24 * MIB, 0, 0),
        (24 * MIB, 7, 7),
    ],
)
def test_how_much_is_kept_free(total_bytes: int, setting: int, expected_bytes: int) -> None:
    assert reserve_of(total_bytes, setting) == expected_bytes


@pytest.fixture
def directory(kit: "StorageKit") -> LogDirectory:
    return kit.run(kit.open())


@pytest.fixture
def log(kit: "StorageKit", directory: LogDirectory, make_batch: "MakeBatch") -> PartitionLog:
    """On a volume with room for 5,000 bytes, of which 3,000 are to stay."""
    log = kit.run(directory.create(kit.orders, kit.topic_id, kit.config))
    used = kit.disk.usage().total_bytes - kit.disk.usage().free_bytes
    kit.disk.capacity_bytes = used + 5_000
    directory.free_space.setting = 3_000
    directory.free_space.refresh()
    return log


def is_short(directory: LogDirectory) -> bool:
    """Now; it changes under the type checker's eyes."""
    return directory.free_space.is_short


def batch_of(make_batch: "MakeBatch", size_bytes: int, offset: int = 0) -> memoryview:
    batch = memoryview(bytearray(make_batch([b"x" * (size_bytes - 71)])))
    set_place(batch, offset, len(batch) - 12, 0)
    return batch


def test_producers_leave_the_reserve_and_followers_half_of_it(
    kit: "StorageKit", directory: LogDirectory, log: PartitionLog, make_batch: "MakeBatch"
) -> None:
    kit.run(log.flush())
    assert not is_short(directory)
    for _ in range(2):
        log.append_as_leader(make_batch([b"x" * 800]), 0, NOW)
    end_offset = log.end_offset
    with pytest.raises(DiskFullError, match="must stay free") as refused:
        log.append_as_leader(make_batch([b"x" * 800]), 0, NOW)
    assert refused.value.kafka_error == "NOT_ENOUGH_REPLICAS"
    assert log.end_offset == end_offset
    assert is_short(directory)
    # What others have taken is copied, and read.
    log.append_as_follower(batch_of(make_batch, 800, end_offset), 0, NOW)
    assert log.end_offset == end_offset + 1
    with pytest.raises(DiskFullError):
        log.append_as_follower(batch_of(make_batch, 1_500, end_offset + 1), 0, NOW)
    assert log.read(0, 10_000, end_offset + 1).size_bytes > 0
    # Its own affairs a broker can write down still.
    kit.run(log.flush())
    kit.run(directory.checkpoint({kit.orders: end_offset}))
    kit.disk.capacity_bytes += 5_000
    log.append_as_leader(make_batch([b"x" * 800]), 0, NOW)
    directory.free_space.refresh()
    directory.free_space.refresh()
    assert not is_short(directory)
    kit.run(directory.close({kit.orders: end_offset}, 1))


def test_transactions_can_end_where_producers_are_refused(
    kit: "StorageKit", log: PartitionLog, make_batch: "MakeBatch"
) -> None:
    """Otherwise their records would stay hidden, and compaction could not make room behind them."""
    kit.run(log.flush())
    producer = Producer(producer_id=1, epoch=0, base_sequence=0)
    options = BatchOptions(producer=producer, transactional=True)
    batch = build_batch([NewRecord(b"x" * 1_880, timestamp_ms=NOW)], options)
    log.append_as_leader(memoryview(batch), 0, NOW)
    assert log.first_unstable_offset == 0
    with pytest.raises(DiskFullError):
        log.append_as_leader(make_batch([b"x" * 80]), 0, NOW)
    log.append_marker(EndMarker(is_commit=True, coordinator_epoch=0), producer, 0, NOW)
    log.stabilize(log.end_offset)
    assert log.first_unstable_offset == NO_UNSTABLE_OFFSET


def test_between_two_measurements_appends_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, looks = MemoryDisk(), 0
    disk.capacity_bytes = 5_000

    def usage() -> DiskUsage:
        nonlocal looks
        looks += 1
        return DiskUsage(5_000, 5_000)

    monkeypatch.setattr(disk, "usage", usage)
    space = FreeSpace(disk)
    space.setting = 3_000
    space.refresh()
    for _ in range(2):
        space.for_producer(800)
        space.taken(800)
    assert looks == 1
    # By its own count there is too little, so it asks; nothing was taken after all.
    space.for_producer(800)
    assert looks == 2
    assert space.free_bytes == 5_000


def test_a_batch_that_alone_is_too_large_shows(
    kit: "StorageKit", directory: LogDirectory, log: PartitionLog, make_batch: "MakeBatch"
) -> None:
    """More than the reserve is free, and still somebody is refused again and again."""
    with pytest.raises(DiskFullError):
        log.append_as_leader(make_batch([b"x" * 3_000]), 0, NOW)
    directory.free_space.refresh()
    assert is_short(directory)
    directory.free_space.refresh()
    assert not is_short(directory)


def test_a_volume_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    space = FreeSpace(disk)
    space.refresh()
    known = space.free_bytes

    def fail() -> DiskUsage:
        raise OSError(5, "no answer")

    monkeypatch.setattr(disk, "usage", fail)
    space.refresh()
    assert space.free_bytes == known


def test_where_room_is_short_files_go_at_once(
    kit: "StorageKit", directory: LogDirectory, log: PartitionLog, make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        log.append_as_leader(make_batch([b"x" * 1_500]), 0, NOW)
        await log.flush()
        log.roll(NOW)
        await log.delete_records_before(1, NOW)
        before = kit.disk.usage().free_bytes
        await directory.maintain({kit.orders: 1})
        assert abs(kit.disk.usage().free_bytes - before) < 100
        with pytest.raises(DiskFullError):
            log.append_as_leader(make_batch([b"x" * 1_500]), 0, NOW)
        await directory.maintain({kit.orders: 1})
        assert kit.disk.usage().free_bytes > before + 1_000
        log.append_as_leader(make_batch([b"x" * 1_500]), 0, NOW)

    kit.run(scenario())


def test_what_cannot_be_flushed_does_not_keep_retention_from_making_room(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        kit.config = LogConfig(retention_ms=1)
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"], timestamp_ms=NOW), 0, NOW)
        log.roll(NOW)
        kit.clock.time_ms = NOW + 10
        kit.disk.fail_next("replace", errno.ENOSPC, "leader-epoch-checkpoint")
        await directory.maintain({kit.orders: 1})
        assert log.log_start_offset == 1
        await log.flush()
        assert log.durable_end_offset == 1

    kit.run(scenario())


def test_what_cannot_be_flushed_does_not_keep_records_from_being_deleted(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The ended segment is to be synced first, with its producers."""

    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        log.roll(NOW)
        kit.disk.fail_next("replace", errno.ENOSPC, "leader-epoch-checkpoint")
        await log.delete_records_before(1, NOW)
        assert (log.log_start_offset, log.segment_count) == (1, 1)
        assert log.durable_end_offset == 0
        await log.flush()
        assert log.durable_end_offset == 1

    kit.run(scenario())
