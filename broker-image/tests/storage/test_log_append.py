"""Appending: offsets, epochs, duplicates, rolling, and what a failed write leaves."""

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.errors import (
    DirectoryOfflineError,
    DiskFullError,
    FencedLeaderEpochError,
    LogClosedError,
    UnexpectedEpochError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_wire.records.batch import Codec, iter_batches, read_header, seal, set_place
from chiplog_wire.records.errors import BatchTooLargeError, CorruptBatchError, RecordsError
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.validate import TimestampType
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000


def values_in(log: PartitionLog) -> list[bytes | None]:
    found = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 10**6, log.end_offset)
        data = piece.read()
        for position, header in iter_batches(data):
            found += [record.value for record in read_records(data[position:], header)]
        offset = piece.next_offset
    return found


def test_offsets_continue_from_batch_to_batch(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    first = log.append_as_leader(make_batch([b"a", b"b"]), 0, NOW)
    second = log.append_as_leader(make_batch([b"c"]), 0, NOW)
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert log.end_offset == 3
    assert values_in(log) == [b"a", b"b", b"c"]


def test_the_batch_carries_offset_and_epoch(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"a"]), 3, NOW)
    log.append_as_leader(make_batch([b"b"]), 5, NOW)
    headers = [header for _, header in iter_batches(log.read(0, 1000, 2).read())]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 3), (1, 5)]
    assert log.last_epoch == 5
    assert log.end_offset_for_epoch(3) == (3, 1)


def test_a_read_only_buffer_is_copied(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"a"]), 0, NOW)
    batch = bytes(make_batch([b"b"]))
    log.append_as_leader(memoryview(batch), 0, NOW)
    assert read_header(batch).base_offset == 0
    assert values_in(log) == [b"a", b"b"]


def test_an_old_epoch_is_fenced(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.begin_epoch(4)
    with pytest.raises(FencedLeaderEpochError):
        log.append_as_leader(make_batch([b"a"]), 3, NOW)
    assert log.end_offset == 0


def test_a_duplicate_gets_its_first_offsets(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    batches = [
        bytes(make_batch([b"x"] * 2, producer=Producer(producer_id=1, epoch=0, base_sequence=n)))
        for n in (0, 2, 4)
    ]
    for batch in batches:
        log.append_as_leader(memoryview(batch), 0, NOW)
    again = log.append_as_leader(memoryview(batches[1]), 0, NOW)
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (2, 3)
    assert log.end_offset == 6


def test_a_refused_batch_leaves_nothing(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    batch = make_batch([b"a"])
    batch[65] ^= 1
    with pytest.raises(RecordsError):
        log.append_as_leader(batch, 0, NOW)
    assert (log.end_offset, log.size_bytes) == (0, 0)


def test_append_time(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    _, log = kit.run(kit.new_log())
    producer = Producer(producer_id=1, epoch=0, base_sequence=0)
    batch = bytes(make_batch([b"a"], timestamp_ms=5, producer=producer))
    first = log.append_as_leader(memoryview(batch), 0, NOW)
    assert first.log_append_time_ms == NOW
    data = log.read(0, 1000, 1).read()
    assert [record.timestamp_ms for record in read_records(data)] == [NOW]
    again = log.append_as_leader(memoryview(batch), 0, NOW + 50)
    assert (again.duplicate, again.log_append_time_ms) == (True, NOW)


def test_compression_type_of_the_topic(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(compression_type=Codec.LZ4)
    _, log = kit.run(kit.new_log())
    for codec in Codec:
        log.append_as_leader(make_batch([b"x" * 300], codec=codec), 0, NOW)
    headers = [header for _, header in iter_batches(log.read(0, 10**6, 5).read())]
    assert {header.codec for header in headers} == {Codec.LZ4}
    assert values_in(log) == [b"x" * 300] * 5


def test_a_batch_that_grows_too_large(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(compression_type=Codec.NONE, max_message_bytes=500)
    _, log = kit.run(kit.new_log())
    with pytest.raises(BatchTooLargeError):
        log.append_as_leader(make_batch([b"x" * 5_000], codec=Codec.GZIP), 0, NOW)


# --- rolling ---------------------------------------------------------------------------------


def test_rolls_by_size(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    size_bytes = len(make_batch([b"x" * 100]))
    kit.config = LogConfig(segment_bytes=3 * size_bytes)
    _, log = kit.run(kit.new_log())
    for _ in range(7):
        log.append_as_leader(make_batch([b"x" * 100]), 0, NOW)
    assert log.segment_count == 3


def test_rolls_by_record_time(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """Kafka compares with the first batch's timestamp; the wall clock has no say."""
    kit.config = LogConfig(segment_ms=1_000)
    _, log = kit.run(kit.new_log())
    for timestamp_ms in (NOW, NOW + 1_000, NOW - 5_000, NOW + 1_001):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=timestamp_ms), 0, NOW)
    assert [segment.base_offset for segment in log._state.segments] == [0, 3]


def test_rolls_by_our_clock_without_timestamps(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(segment_ms=1_000)
    _, log = kit.run(kit.new_log())
    for now_ms in (NOW, NOW + 1_000, NOW + 1_001):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=-1), 0, now_ms)
    assert [segment.base_offset for segment in log._state.segments] == [0, 2]


def test_rolls_with_jitter(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(segment_ms=1_000, segment_jitter_ms=1_000)
    _, log = kit.run(kit.new_log())
    assert 0 < log._roller._roll_ms <= 1_000
    seen = set()
    for _ in range(5):
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        log.roll(NOW)
        seen.add(log._roller._roll_ms)
    assert len(seen) == 5


def test_rolls_when_an_index_is_full(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(index_interval_bytes=0, segment_index_bytes=8 * 4)
    _, log = kit.run(kit.new_log())
    for number in range(12):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=NOW + number), 0, NOW)
    assert log.segment_count > 2
    for segment in log._state.segments:
        assert len(segment.offset_index) <= 4


def test_rolls_before_a_relative_offset_overflows(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"]), 0, NOW)
    log._state.end_offset = 2**31  # as if that many had been appended
    log.append_as_leader(make_batch([b"y"]), 0, NOW)
    assert [segment.base_offset for segment in log._state.segments] == [0, 2**31]


@pytest.mark.parametrize("end", ["clean", "kill", *range(20)])
def test_a_segment_that_could_not_be_created_leaves_no_file(
    kit: "StorageKit", make_batch: "MakeBatch", end: str | int
) -> None:
    """A smaller batch still fits into the old segment, which then ends behind such a file."""
    size_bytes = len(make_batch([b"x" * 100]))
    kit.config = LogConfig(segment_bytes=3 * size_bytes)
    directory, log = kit.run(kit.new_log())
    for value in (b"x" * 100, b"y" * 100):
        log.append_as_leader(make_batch([value]), 0, NOW)
    kit.disk.fail_next("truncate", errno.ENOSPC, f"{2:020}.log")
    with pytest.raises(DiskFullError):
        log.append_as_leader(make_batch([b"z" * 200]), 0, NOW)
    log.append_as_leader(make_batch([b"small"]), 0, NOW)
    kit.run(log.flush())
    for value in (b"z" * 200, b"last"):
        log.append_as_leader(make_batch([value]), 0, NOW)
    assert [segment.base_offset for segment in log._state.segments] == [0, 3]
    kit.run(log.flush())
    if end == "clean":
        kit.run(directory.close({}, 1))
    elif end == "kill":
        kit.kill()
    else:
        kit.cut_power(int(end))
    assert kit.run(kit.reopened()).end_offset == 5


def test_a_file_that_can_neither_be_created_nor_removed_takes_the_directory_offline(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"]), 0, NOW)
    kit.disk.fail_next("truncate", errno.ENOSPC, f"{1:020}.log")
    kit.disk.fail_next("remove", errno.EIO, f"{1:020}.log")
    with pytest.raises(DirectoryOfflineError):
        log.roll(NOW)
    with pytest.raises(DirectoryOfflineError):
        log.append_as_leader(make_batch([b"y"]), 0, NOW)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_an_append_reads_nothing_once_its_batch_is_written(
    kit: "StorageKit", make_batch: "MakeBatch", number: int
) -> None:
    """An index entry is due, and the files of the indexes cannot be opened or read."""
    kit.config = LogConfig(index_interval_bytes=0)
    directory, log = kit.run(kit.new_log())
    for timestamp_ms in (1, 2, 3):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=timestamp_ms), 0, NOW)
    kit.run(directory.close({}, 1))
    log = kit.run(kit.reopened())

    def refuse(_: str, path: str) -> None:
        if path.endswith("index"):
            raise OSError(number, "refused", path)

    kit.disk.looking = refuse
    for timestamp_ms in (4, 5, 6):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=timestamp_ms), 0, NOW)
    kit.run(log.flush())
    assert (log.end_offset, log.durable_end_offset) == (6, 6)


def test_an_empty_segment_is_not_rolled(kit: "StorageKit") -> None:
    _, log = kit.run(kit.new_log())
    log.roll(NOW)
    assert log.segment_count == 1


def test_settings_change_at_run_time(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.configure(replace(log.config, max_message_bytes=80))
    with pytest.raises(BatchTooLargeError):
        log.append_as_leader(make_batch([b"x" * 100]), 0, NOW)


# --- replication -----------------------------------------------------------------------------


def test_a_follower_holds_the_leaders_bytes(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(segment_bytes=500, index_interval_bytes=100)
    _, leader = kit.run(kit.new_log())
    for number in range(20):
        producer = Producer(producer_id=3, epoch=0, base_sequence=number)
        leader.append_as_leader(
            make_batch([b"value %d" % number], producer=producer), number // 6, NOW
        )
    other = type(kit)(type(kit.disk)(), kit.clock, kit.config)
    _, follower = other.run(other.new_log())
    while follower.end_offset < leader.end_offset:
        data = leader.read(follower.end_offset, 350, leader.end_offset).read()
        result = follower.append_as_follower(memoryview(data), 3, NOW)
        assert result.last_offset == follower.end_offset - 1
    assert values_in(follower) == values_in(leader)
    assert follower._state.epochs.entries == leader._state.epochs.entries
    assert follower.segment_count == leader.segment_count
    again = make_batch([b"value 19"], producer=Producer(producer_id=3, epoch=0, base_sequence=19))
    assert follower.append_as_leader(again, 9, NOW).duplicate


def test_a_follower_refuses_what_does_not_continue(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    good, gap, old, torn = (make_batch([b"x"]) for _ in range(4))
    for batch, offset, epoch in ((good, 0, 4), (gap, 2, 4), (old, 1, 3), (torn, 1, 4)):
        set_place(batch, offset, read_header(batch).length_bytes, epoch)
    log.append_as_follower(good, 4, NOW)
    with pytest.raises(UnexpectedOffsetError) as raised:
        log.append_as_follower(gap, 4, NOW)
    assert raised.value.found_offset == 2
    with pytest.raises(UnexpectedEpochError):
        log.append_as_follower(old, 4, NOW)
    torn[66] ^= 1
    with pytest.raises(CorruptBatchError):
        log.append_as_follower(torn, 4, NOW)
    with pytest.raises(CorruptBatchError):
        log.append_as_follower(good[:-1], 4, NOW)
    assert log.end_offset == 1
    assert log.append_as_follower(memoryview(b""), 4, NOW).last_offset == 0


def test_a_follower_refuses_records_of_a_leadership_after_its_leaders(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A leader that was deposed and cut back while its answer waited to be sent (KAFKA-18723)."""
    _, log = kit.run(kit.new_log())
    present, later = make_batch([b"a"]), make_batch([b"b"])
    set_place(present, 0, read_header(present).length_bytes, 4)
    set_place(later, 1, read_header(later).length_bytes, 5)
    both = memoryview(bytes(present) + bytes(later))
    with pytest.raises(UnexpectedEpochError):
        log.append_as_follower(both, 4, NOW)
    assert (log.end_offset, log.last_epoch) == (0, -1)
    assert log.append_as_follower(both, 5, NOW).last_offset == 1
    assert log.last_epoch == 5


def test_nothing_of_a_bad_fetch_is_written(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    first, second = make_batch([b"a"]), make_batch([b"b"])
    set_place(second, 5, read_header(second).length_bytes, 0)
    with pytest.raises(UnexpectedOffsetError):
        log.append_as_follower(memoryview(bytes(first) + bytes(second)), 0, NOW)
    assert (log.end_offset, log.size_bytes) == (0, 0)


# --- failing disks ---------------------------------------------------------------------------


def test_a_full_disk_leaves_the_log_as_it_was(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(segment_bytes=300)
    _, log = kit.run(kit.new_log())
    producer = Producer(producer_id=1, epoch=0, base_sequence=0)
    log.append_as_leader(make_batch([b"a"], producer=producer), 0, NOW)
    kit.disk.capacity_bytes = kit.disk.usage().total_bytes - kit.disk.usage().free_bytes + 50
    following = Producer(producer_id=1, epoch=0, base_sequence=1)
    for _ in range(3):
        with pytest.raises(DiskFullError):
            log.append_as_leader(make_batch([b"b" * 100], producer=following), 0, NOW)
    assert log.end_offset == 1
    kit.disk.capacity_bytes = 2**40
    log.append_as_leader(make_batch([b"b" * 100], producer=following), 0, NOW)
    assert values_in(log) == [b"a", b"b" * 100]


@pytest.mark.parametrize("operation", ["write_at", "open"])
def test_a_full_disk_while_rolling(
    kit: "StorageKit", make_batch: "MakeBatch", operation: str
) -> None:
    kit.config = LogConfig(segment_bytes=200, index_interval_bytes=0)
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"a"]), 0, NOW)
    log.append_as_leader(make_batch([b"b"]), 0, NOW)
    kit.disk.fail_next(operation, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.append_as_leader(make_batch([b"c" * 50]), 0, NOW)
    assert log.end_offset == 2
    log.append_as_leader(make_batch([b"c" * 50]), 0, NOW)
    assert values_in(log) == [b"a", b"b", b"c" * 50]
    kit.kill()
    assert values_in(kit.run(kit.reopened())) == [b"a", b"b", b"c" * 50]


def test_any_other_error_takes_the_directory_offline(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    told = kit.events.failures
    log.append_as_leader(make_batch([b"a"]), 0, NOW)
    kit.disk.fail_next("append", errno.EIO)
    with pytest.raises(DirectoryOfflineError):
        log.append_as_leader(make_batch([b"b"]), 0, NOW)
    with pytest.raises(DirectoryOfflineError):
        log.append_as_leader(make_batch([b"b"]), 0, NOW)
    assert [error.errno for error in told] == [errno.EIO]
    assert values_in(log) == [b"a"], "reads go on"


# --- durability ------------------------------------------------------------------------------


def test_one_sync_serves_many(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        for _ in range(50):
            log.append_as_leader(make_batch([b"a"]), 0, NOW)
        before = kit.disk.syncs
        await log.make_durable(1)
        # The bytes, and the epoch history, which is new.
        assert kit.disk.syncs - before == 2
        await log.make_durable(50)
        assert kit.disk.syncs - before == 2
        assert log.durable_end_offset == log.countable_end_offset == 50

    kit.run(scenario())


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("operation", "path"),
    [("sync", ".log"), ("sync_directory", ""), ("replace_sync", "leader-epoch")],
)
def test_a_failed_sync_is_never_repeated(
    kit: "StorageKit", make_batch: "MakeBatch", operation: str, path: str, number: int
) -> None:
    """Whatever its number: a device that has no room has dropped what it was to write."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"]), 0, NOW)
        log.roll(NOW)
        kit.disk.fail_next(operation, number, path)
        with pytest.raises(DirectoryOfflineError):
            await log.make_durable(1)
        before = kit.disk.syncs
        with pytest.raises(DirectoryOfflineError):
            await log.make_durable(1)
        with pytest.raises(DirectoryOfflineError):
            await directory.checkpoint({})
        assert kit.disk.syncs == before
        assert log.durable_end_offset == 0

    kit.run(scenario())


def test_page_cache_counts_once_the_epoch_is_saved(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.config = LogConfig(durability=Durability.PAGE_CACHE)

    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"]), 7, NOW)
        assert log.countable_end_offset == 0
        await log.make_durable(1)
        saved = bytes(kit.disk.content(kit.path("leader-epoch-checkpoint")))
        assert saved == b"0\n1\n7 0\n"
        assert log.countable_end_offset == 1
        before = kit.disk.syncs
        log.append_as_leader(make_batch([b"b"]), 7, NOW)
        await log.make_durable(2)
        assert kit.disk.syncs == before
        assert (log.countable_end_offset, log.durable_end_offset) == (2, 0)

    kit.run(scenario())


def test_flush_messages_and_flush_ms(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(durability=Durability.PAGE_CACHE, flush_messages=3, flush_ms=100)

    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"]), 0, NOW)
        await log.make_durable(1)
        assert not log.flush_is_due(NOW + 99)
        assert log.flush_is_due(NOW + 100)
        log.append_as_leader(make_batch([b"b", b"c"]), 0, NOW)
        assert log.flush_is_due(NOW)
        await log.make_durable(3)
        assert log.durable_end_offset == 3
        assert not log.flush_is_due(NOW + 10_000)

    kit.run(scenario())


def test_a_finished_segment_requests_a_flush(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(durability=Durability.PAGE_CACHE, segment_bytes=200)

    async def scenario() -> None:
        directory, log = await kit.new_log()
        for _ in range(4):
            log.append_as_leader(make_batch([b"a" * 30]), 0, NOW)
        assert log.segment_count == 4 // 2
        assert log.flush_is_due(NOW)
        await directory.flush_due()
        assert log.durable_end_offset == 4

    kit.run(scenario())


def test_a_full_disk_while_syncing_can_be_tried_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"]), 0, NOW)
        kit.disk.fail_next("replace", errno.ENOSPC, "leader-epoch")
        with pytest.raises(DiskFullError):
            await log.make_durable(1)
        assert log.durable_end_offset == 0
        await log.make_durable(1)
        assert log.durable_end_offset == 1

    kit.run(scenario())


def test_a_closed_log_refuses_everything(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        await directory.close({}, 1)
        with pytest.raises(LogClosedError):
            log.append_as_leader(make_batch([b"a"]), 0, NOW)
        with pytest.raises(LogClosedError):
            await log.make_durable(0)
        with pytest.raises(LogClosedError):
            log.read(0, 1, 1)
        assert not log.is_writable

    kit.run(scenario())


def test_a_batch_changed_after_sealing_is_refused(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    batch = make_batch([b"a"])
    batch[21:23] = b"\x00\x20"
    seal(batch)
    with pytest.raises(RecordsError):
        log.append_as_leader(batch, 0, NOW)
