"""Truncation, deletion and retention: what goes, what stays, what is durable first."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import (
    DamagedLogError,
    DirectoryOfflineError,
    DiskFullError,
    LogClosedError,
    NoDescriptorError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordsTruncatedError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)
from chiplog_wire.records.batch import check_crc, iter_batches, read_header, set_place
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, file_delete_delay_ms=1_000)


async def filled(
    kit: "StorageKit", make_batch: "MakeBatch", batches: int = 10
) -> tuple[LogDirectory, PartitionLog]:
    """Batches of two records, an epoch for every four, three batches a segment."""
    kit.config = SMALL
    directory, log = await kit.new_log()
    for number in range(batches):
        producer = Producer(producer_id=5, epoch=0, base_sequence=2 * number)
        values = [b"%020d" % number, b""]
        batch = make_batch(values, timestamp_ms=NOW + number, producer=producer)
        log.append_as_leader(batch, number // 4, NOW)
    await log.make_durable(log.end_offset)
    return directory, log


def sent(make_batch: "MakeBatch", number: int) -> memoryview:
    producer = Producer(producer_id=5, epoch=0, base_sequence=2 * number)
    return make_batch([b"%020d" % number, b""], timestamp_ms=NOW + number, producer=producer)


@pytest.mark.parametrize("offset", range(1, 21))
def test_truncating_anywhere(kit: "StorageKit", make_batch: "MakeBatch", offset: int) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.truncate_to(offset, NOW)
        batches = offset // 2
        assert log.end_offset == batches * 2
        check_all(log)
        assert log.durable_end_offset == log.end_offset
        assert log.last_epoch == ((batches - 1) // 4 if batches else -1)
        # The last batch that is left is known again, the next one is new.
        if batches:
            assert log.append_as_leader(sent(make_batch, batches - 1), 9, NOW).duplicate
        result = log.append_as_leader(sent(make_batch, batches), 9, NOW)
        assert (result.base_offset, result.duplicate) == (batches * 2, False)
        newest = log.offset_for_timestamp(NOW + batches, log.end_offset)
        assert newest is not None
        assert newest.offset == batches * 2
        assert log.offset_for_timestamp(NOW + batches + 1, log.end_offset) is None
        # Other sizes from here on, so that an index entry that was kept would mislead.
        for number in range(8):
            log.append_as_leader(make_batch([b"x" * number]), 9, NOW)
            check_all(log)

    kit.run(scenario())


def check_all(log: PartitionLog) -> None:
    """Every offset is found by searching, and every segment's time index says what is there."""
    for segment in log._state.segments:
        segment._boundaries.clear()
    for offset in range(log.log_start_offset, log.end_offset):
        data = log.read(offset, 1, log.end_offset).read()
        header = read_header(data)
        assert header.base_offset <= offset <= header.last_offset
        check_crc(memoryview(data), header)
    for segment in log._state.segments:
        newest = max(
            (header.max_timestamp_ms for _, header in iter_batches(segment.log.read(0, 10**6))),
            default=-1,
        )
        assert segment.max_timestamp_ms == newest
        noted = [segment.time_index.entry(at) for at in range(len(segment.time_index))]
        assert all(entry[1] + segment.base_offset < segment.end_offset for entry in noted)


def test_truncating_at_the_end_drops_an_epoch_that_wrote_nothing(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch, 3)
        log.begin_epoch(8)
        assert log.last_epoch == 8
        await log.truncate_to(log.end_offset, NOW)
        assert (log.last_epoch, log.end_offset) == (0, 6)
        await log.truncate_to(100, NOW)
        assert log.end_offset == 6

    kit.run(scenario())


def test_truncating_into_the_batch_of_the_log_start(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.delete_records_before(9, NOW)
        await log.truncate_to(9, NOW)
        assert (log.log_start_offset, log.end_offset) == (9, 9)
        log.append_as_leader(make_batch([b"next"]), 9, NOW)
        check_all(log)
        await log.flush()

    kit.run(scenario())
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (9, 10)
    check_all(log)


def test_truncating_below_the_log_start(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.delete_records_before(12, NOW)
        await log.truncate_to(8, NOW)
        assert (log.log_start_offset, log.end_offset, log.segment_count) == (8, 8, 1)

    kit.run(scenario())


@pytest.mark.parametrize("start", [6, 8, 12, 20])
def test_truncating_to_the_log_start_forgets_no_producer(
    kit: "StorageKit", make_batch: "MakeBatch", start: int
) -> None:
    """Retention may have removed all that a new leader has: its retries are known all the same."""

    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.delete_records_before(start, NOW)
        for again in range(2):
            log.append_as_leader(make_batch([b"never acknowledged"]), 9 + again, NOW)
            await log.truncate_to(start, NOW)
            assert (log.log_start_offset, log.end_offset) == (start, start)
            check_all(log)
            assert log.append_as_leader(sent(make_batch, start // 2 - 1), 12, NOW).duplicate
            with pytest.raises(OutOfOrderSequenceError):
                log.append_as_leader(sent(make_batch, start // 2 + 1), 12, NOW)
        await log.flush()

    async def reopened() -> None:
        log = await kit.reopened()
        assert (log.log_start_offset, log.end_offset) == (start, start)
        assert log.append_as_leader(sent(make_batch, start // 2 - 1), 12, NOW).duplicate
        assert log.append_as_leader(sent(make_batch, start // 2), 12, NOW).base_offset == start

    kit.run(scenario())
    before = kit.disk
    for seed in range(5):
        kit.disk = before.after_power_cut(seed)
        kit.run(reopened())


def test_truncation_takes_back_what_was_waited_for(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch, 3)
        log.append_as_leader(sent(make_batch, 3), 1, NOW)
        gate = asyncio.Event()
        waiting = asyncio.create_task(log.make_durable(8))
        await asyncio.sleep(0)
        await log.truncate_to(6, NOW)
        gate.set()
        with pytest.raises(RecordsTruncatedError):
            await waiting
        assert log.durable_end_offset <= 6
        await log.flush()
        assert log.durable_end_offset == 6

    kit.run(scenario())


def test_nobody_appends_while_a_truncation_waits(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await directory.checkpoint({})
        truncation = asyncio.create_task(log.truncate_to(4, NOW))
        await asyncio.sleep(0)
        assert not log.is_writable
        assert log.recovery_point == 4
        with pytest.raises(RuntimeError):
            log.append_as_leader(sent(make_batch, 10), 9, NOW)
        assert log.read(0, 1_000, 20).size_bytes, "reads go on"
        await truncation
        assert log.is_writable

    kit.run(scenario())


@pytest.mark.parametrize("slow_file", [".log", ".snapshot"])
def test_a_sync_under_way_does_not_vouch_for_what_was_cut(
    kit: "StorageKit", make_batch: "MakeBatch", slow_file: str
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch, 2)
        for number in range(2, 6):
            log.append_as_leader(sent(make_batch, number), 0, NOW)
        gate, reached = asyncio.Event(), asyncio.Event()

        async def device(path: str) -> None:
            if path.endswith(slow_file):
                reached.set()
                await gate.wait()

        kit.disk.device = device
        flushing = asyncio.create_task(log.flush())
        await reached.wait()
        await log.truncate_to(4, NOW)
        for _ in range(6):
            log.append_as_leader(make_batch([b"other"]), 3, NOW)
        gate.set()
        await flushing
        assert log.durable_end_offset == 4
        assert not [name for name in kit.disk.names("orders-0") if name.endswith(".snapshot")]

    kit.run(scenario())


def test_a_snapshot_of_what_was_cut_is_not_used_later(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await log.truncate_to(8, NOW)
        log.configure(LogConfig())  # no new segment, so no newer snapshot
        for _ in range(15):
            log.append_as_leader(make_batch([b"y"]), 9, NOW)
        await log.flush()
        await directory.checkpoint({})

    kit.run(scenario())
    kit.kill()
    log = kit.run(kit.reopened())
    # The producer's batches 4 to 9 are gone: its fifth is new, its tenth is out of order.
    assert not log.append_as_leader(sent(make_batch, 4), 9, NOW).duplicate
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(make_batch, 9), 9, NOW)


def test_starting_over(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.truncate_fully_and_start_at(500, NOW)
        assert (log.log_start_offset, log.end_offset, log.durable_end_offset) == (500, 500, 500)
        assert (log.last_epoch, log.segment_count, log.producer_count) == (-1, 1, 0)
        assert log.append_as_leader(sent(make_batch, 3), 9, NOW).base_offset == 500
        await log.truncate_fully_and_start_at(20, NOW)
        assert (log.log_start_offset, log.end_offset) == (20, 20)

    kit.run(scenario())
    kit.cut_power(1)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (20, 20)


def test_deleting_records(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        assert await log.delete_records_before(13, NOW) == 13
        assert await log.delete_records_before(7, NOW) == 13
        assert log._state.segments.first.base_offset == 12
        assert log.epoch_at(13) == 1
        with pytest.raises(OffsetOutOfRangeError):
            log.read(12, 1_000, 20)
        assert log.read(13, 1_000, 20).size_bytes
        with pytest.raises(OffsetOutOfRangeError):
            await log.delete_records_before(21, NOW)
        assert await log.delete_records_before(20, NOW) == 20

    kit.run(scenario())
    kit.cut_power(1)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (20, 20)


def test_what_is_deleted_already_is_not_deleted_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A client may ask again. A segment that has ended meanwhile waits for retention."""

    async def scenario() -> None:
        _, log = await filled(kit, make_batch, 3)
        await log.delete_records_before(6, NOW)
        log.roll(NOW)
        await log.flush()
        before = kit.disk.names("orders-0")
        assert await log.delete_records_before(6, NOW) == 6
        assert kit.disk.names("orders-0") == before
        assert await log.enforce_retention(6, NOW) == 1

    kit.run(scenario())


def test_deleting_a_part_of_a_segment_leaves_no_names_to_sync(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a", b"b"]), 0, NOW)
        await log.flush()
        await log.delete_records_before(1, NOW)
        kit.disk.fail_next("sync_directory", errno.EIO, "orders-0")
        log.append_as_leader(make_batch([b"c"]), 0, NOW)
        await log.make_durable(3)

    kit.run(scenario())


async def begun_behind(
    kit: "StorageKit", log: PartitionLog, *waiting: Coroutine[Any, Any, Any]
) -> list[Any]:
    """What becomes of these where each waits its turn behind the deletion of one record."""
    gate = asyncio.Event()

    async def device(_: str) -> None:
        await gate.wait()

    kit.disk.device = device
    tasks = [asyncio.create_task(log.delete_records_before(log.log_start_offset + 1, NOW))]
    await asyncio.sleep(0)
    for one in waiting:
        tasks.append(asyncio.create_task(one))
        await asyncio.sleep(0)
    gate.set()
    _, *results = await asyncio.gather(*tasks, return_exceptions=True)
    return results


def test_retention_that_waited_while_the_log_was_stopped_takes_nothing(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        log.append_as_leader(sent(make_batch, 10), 9, NOW)
        log.configure(replace(SMALL, retention_bytes=0))
        files = kit.disk.names("orders-0")
        results = await begun_behind(kit, log, log.stop(), log.enforce_retention(20, NOW))
        assert results == [None, 0]
        assert (log.log_start_offset, log.segment_count) == (1, 4)
        assert kit.disk.names("orders-0") == files
        assert directory.health.failure is None

    kit.run(scenario())


def test_a_cut_that_waited_begins_with_the_log_start_as_it_is_then(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        results = await begun_behind(
            kit, log, log.delete_records_before(13, NOW), log.truncate_to(4, NOW)
        )
        assert results == [13, None]
        assert (log.log_start_offset, log.end_offset) == (4, 4)

    kit.run(scenario())


def test_a_deletion_that_waited_is_judged_by_the_log_as_it_is_then(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        cut, deleted = await begun_behind(
            kit, log, log.truncate_to(4, NOW), log.delete_records_before(13, NOW)
        )
        assert cut is None
        assert isinstance(deleted, OffsetOutOfRangeError)
        assert (log.log_start_offset, log.end_offset) == (1, 4)
        stopped, deleted = await begun_behind(
            kit, log, log.stop(), log.delete_records_before(3, NOW)
        )
        assert stopped is None
        assert isinstance(deleted, LogClosedError)
        assert log.log_start_offset == 2

    kit.run(scenario())


def test_deleted_segments_go_in_two_steps(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        found = log.read(0, 1_000, 20)
        before = found.read()
        await log.delete_records_before(6, NOW)
        names = kit.disk.names("orders-0")
        assert "00000000000000000000.log.deleted" in names
        assert "00000000000000000000.timeindex.deleted" in names
        assert found.read() == before, "a read under way can finish"
        assert log.remove_expired_files(NOW + 999) == 0
        assert log.remove_expired_files(NOW + 1_000) == 1
        assert not [name for name in kit.disk.names("orders-0") if name.endswith(".deleted")]
        await log.delete_records_before(12, NOW)
        snapshots = [name for name in kit.disk.names("orders-0") if name.endswith(".snapshot")]
        assert snapshots == ["00000000000000000012.snapshot", "00000000000000000018.snapshot"]

    kit.run(scenario())


# --- retention -------------------------------------------------------------------------------


def test_retention_by_time(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        log.configure(replace(SMALL, retention_ms=1_000))
        # Segments of three batches end with records of NOW + 2, + 5, + 8, + 9.
        assert await log.enforce_retention(20, NOW + 1_002) == 0
        assert await log.enforce_retention(20, NOW + 1_003) == 1
        assert log.log_start_offset == 6
        assert await log.enforce_retention(20, NOW + 1_009) == 2
        assert await log.enforce_retention(20, NOW + 1_010) == 1
        assert (log.log_start_offset, log.end_offset, log.size_bytes) == (20, 20, 0)
        assert log.append_as_leader(sent(make_batch, 10), 9, NOW).base_offset == 20

    kit.run(scenario())


def test_offsets_are_not_used_again_after_everything_expired(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        log.configure(replace(SMALL, retention_ms=0))
        await log.enforce_retention(20, NOW + 10**6)
        await log.flush()

    kit.run(scenario())
    kit.cut_power(3)
    log = kit.run(kit.reopened())
    assert log.append_as_leader(make_batch([b"x"]), 9, NOW).base_offset == 20


def test_retention_by_size(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        segment_bytes = log._state.segments.first.size_bytes
        log.configure(replace(SMALL, retention_bytes=log.size_bytes - segment_bytes + 1))
        assert await log.enforce_retention(20, NOW) == 0
        log.configure(replace(SMALL, retention_bytes=log.size_bytes - segment_bytes))
        assert await log.enforce_retention(20, NOW) == 1

    kit.run(scenario())


def test_retention_forever(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        log.configure(replace(SMALL, retention_ms=-1, retention_bytes=-1))
        assert await log.enforce_retention(20, NOW + 10**12) == 0

    kit.run(scenario())


@pytest.mark.parametrize("high_watermark", range(0, 21, 3))
def test_retention_stops_at_the_high_watermark(
    kit: "StorageKit", make_batch: "MakeBatch", high_watermark: int
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        log.configure(replace(SMALL, retention_ms=0))
        await log.enforce_retention(high_watermark, NOW + 10**6)
        assert log.log_start_offset == high_watermark // 6 * 6

    kit.run(scenario())


def test_records_without_a_time_are_as_old_as_we_know_them(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        kit.config = replace(SMALL, retention_ms=1_000)
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"], timestamp_ms=-1), 0, NOW)
        assert await log.enforce_retention(1, NOW + 1_000) == 0
        assert await log.enforce_retention(1, NOW + 1_001) == 1

    kit.run(scenario())


def test_a_truncation_is_known_to_the_next_start(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Else it would miss as durable and as replicated what was taken away."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await log.flush()
        await log.compaction.allow_gaps(12)
        await log.compaction.compacted_up_to(12, log.compaction.cut_count)
        await directory.checkpoint({kit.orders: 20})
        await log.truncate_to(8, NOW)
        kit.kill()
        again = await kit.open()
        assert not again.quarantined
        assert again.logs[kit.orders].end_offset == 8
        assert again.logs[kit.orders].compaction.cleaner_offset == 8
        assert again.high_watermark(kit.orders) == 8


def test_what_was_cut_off_goes_after_the_delay(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        for cut in (log.truncate_to(4, NOW), log.truncate_fully_and_start_at(30, NOW)):
            segments = log.segment_count
            await cut
            gone = segments - log.segment_count + (log.log_start_offset == 30)
            assert log.remove_expired_files(NOW + 999) == 0
            assert log.remove_expired_files(NOW + 1_000) == gone
            assert gone > 0

    kit.run(scenario())


def test_every_cut_is_reported_from_the_one_before(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A compaction that began before a cut must not put its segments in."""

    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        assert log._state.truncating_to is None
        counts = [log._state.cut_count]
        for offset in (18, 16):
            await log.truncate_to(offset, NOW)
            counts.append(log._state.cut_count)
        await log.truncate_to(log.end_offset, NOW)
        assert log._state.cut_count == counts[-1], "nothing was cut"
        await log.truncate_fully_and_start_at(30, NOW)
        counts.append(log._state.cut_count)
        await log.truncate_fully_and_start_at(40, NOW)
        counts.append(log._state.cut_count)
        assert len(set(counts)) == 5

    kit.run(scenario())


def test_the_log_start_in_the_middle_of_the_batch_that_is_cut(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        for _ in range(4):
            log.append_as_leader(make_batch([b"a", b"b", b"c"]), 0, NOW)
        await log.delete_records_before(7, NOW)
        await log.truncate_to(8, NOW)
        assert (log.log_start_offset, log.end_offset) == (7, 7)
        log.append_as_leader(make_batch([b"d"]), 0, NOW)
        await log.flush()

    kit.run(scenario())
    kit.cut_power(1)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (7, 8)


def test_checkpoints_say_so_before_records_go(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await directory.checkpoint({kit.orders: 18})
        checkpoints = log._state.env.checkpoints
        assert checkpoints.recovery_points.get(kit.orders) == 20
        await log.truncate_to(12, NOW)
        assert checkpoints.recovery_points.get(kit.orders) == 12
        assert checkpoints.high_watermarks.get(kit.orders) == 12
        starting = asyncio.create_task(log.truncate_fully_and_start_at(500, NOW))
        await asyncio.sleep(0)
        assert log.recovery_point == 0, "what lies above counts as gone already"
        await starting
        assert checkpoints.log_starts.get(kit.orders) == 500
        assert checkpoints.recovery_points.get(kit.orders) == 0

    kit.run(scenario())


def test_a_segment_that_was_cut_off_does_not_come_back_by_name(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """What is written after the truncation is durable only once the old names are gone."""

    async def scenario() -> None:
        kit.config = SMALL
        directory, log = await kit.new_log()
        for number in range(10):
            log.append_as_leader(sent(make_batch, number), 0, NOW)
        await log.make_durable(20)
        await log.truncate_to(8, NOW)
        log.configure(LogConfig())  # no new segment, so nothing else is done to the directory
        for number in range(4, 10):
            log.append_as_leader(sent(make_batch, number), 0, NOW)
        await log.make_durable(20)
        await directory.checkpoint({})
        before = kit.disk
        for seed in range(10):
            kit.disk = before.after_power_cut(seed)
            again = await kit.reopened()
            assert (again.segment_count, again.end_offset) == (2, 20)


def test_deleting_to_the_end_keeps_the_newest_segment(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.delete_records_before(20, NOW)
        assert (log.segment_count, log._state.segments.first.base_offset) == (1, 18)
        assert log.append_as_leader(sent(make_batch, 10), 9, NOW).base_offset == 20

    kit.run(scenario())


def test_what_a_cut_leaves_waits_for_its_sync_from_then_on(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.truncate_to(8, NOW + 5)
        assert log._state.sync.unsynced_since_ms == NOW + 5

    kit.run(scenario())


def test_producers_of_an_empty_log_begin_where_it_begins(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        await log.truncate_fully_and_start_at(500, NOW)
        assert log._state.producers.end_offset == 500
        log.append_as_leader(sent(make_batch, 3), 9, NOW)
        assert log.producer_count == 1

    kit.run(scenario())


@pytest.mark.parametrize("cut", ["truncate", "start over", "delete"])
def test_an_error_of_the_disk_ends_the_directory_and_is_named(
    kit: "StorageKit", make_batch: "MakeBatch", cut: str
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        kit.disk.fail_next("rename", errno.EIO, ".log")
        cuts: dict[str, Callable[[], Awaitable[object]]] = {
            "truncate": lambda: log.truncate_to(4, NOW),
            "start over": lambda: log.truncate_fully_and_start_at(500, NOW),
            "delete": lambda: log.delete_records_before(12, NOW),
        }
        with pytest.raises(DirectoryOfflineError):
            await cuts[cut]()
        assert log._state.health.failure is not None
        assert log._state.health.failure.errno == errno.EIO

    kit.run(scenario())


@pytest.mark.parametrize(
    "gap_end_offset", [pytest.param(10, id="known-exactly"), pytest.param(12, id="known-roughly")]
)
@pytest.mark.parametrize(
    ("offset", "end_offset"), [(1, 0), (2, 2), (5, 2), (9, 2), (10, 2), (11, 2), (12, 12)]
)
def test_cutting_in_a_gap_and_behind_it(
    kit: "StorageKit", make_batch: "MakeBatch", offset: int, end_offset: int, gap_end_offset: int
) -> None:
    """As compaction leaves one: offsets 2 to 9 are gone."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        await log.compaction.allow_gaps(gap_end_offset)
        for base_offset in (0, 10, 12):
            batch = make_batch([b"a", b"b"])
            set_place(batch, base_offset, read_header(batch).length_bytes, 0)
            log.append_as_follower(batch, 0, NOW)
        await log.flush()
        await log.truncate_to(offset, NOW)
        assert log.end_offset == end_offset
        await log.flush()
        await directory.checkpoint({})
        kit.kill()
        log = await kit.reopened()
        assert log.end_offset == end_offset
        await log.truncate_to(1, NOW)
        assert log.end_offset == 0

    kit.run(scenario())


def test_damage_that_a_cut_comes_upon_is_noted(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        segment = log._state.segments.segment_for(9)
        position = segment.position_of(8)
        segment._boundaries.clear()
        kit.disk.damage(kit.path(f"{6:020d}.log"), position, bytes(8))
        with pytest.raises(DamagedLogError):
            await log.truncate_to(9, NOW)
        assert not log.is_writable or log._state.damage is not None

    kit.run(scenario())


def test_damage_that_a_cut_comes_upon_is_named_by_its_own_segment(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Without snapshots, who wrote what is left is read from the first segment on."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        for base_offset in (6, 12, 18):
            kit.disk.remove(kit.path(f"{base_offset:020d}.snapshot"))
        first = kit.path(f"{0:020d}.log")
        position = log._state.segments.first.position_of(2)
        kit.disk.damage(first, position + 16, bytes(1))
        with pytest.raises(DamagedLogError, match=first) as raised:
            await log.truncate_to(9, NOW)
        assert (raised.value.file, raised.value.offset) == (first, 2)
        assert directory.health.failure is None

    kit.run(scenario())


def test_an_index_that_a_cut_cannot_go_by_is_damage(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The place of the cut is known without it, but not what is before it."""

    async def scenario() -> None:
        kit.config = LogConfig(index_interval_bytes=1)
        _, log = await kit.new_log()
        for number in range(5):
            log.append_as_leader(make_batch([b"%d" % number]), 0, NOW)
        log._state.segments.first.offset_index.flush()
        kit.disk.damage(kit.path(f"{0:020d}.index"), 8, (1).to_bytes(4, "big"))
        with pytest.raises(DamagedLogError) as raised:
            await log.truncate_to(3, NOW)
        assert raised.value.file == kit.path(f"{0:020d}.log")
        assert not log.is_writable

    kit.run(scenario())


def test_a_cut_says_nothing_new_of_gaps_and_of_an_end_that_was_cut(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """An entry of 0 is not the same as none: it lets gaps pass, and keeps from being elected."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await log.truncate_to(1, NOW)
        await log.truncate_fully_and_start_at(0, NOW)
        assert log.gap_end_offset == 0
        assert directory.high_watermark_before_truncation(kit.orders) is None

    kit.run(scenario())


def test_without_descriptors_starting_over_leaves_all_as_it_is(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """They may run out after the checkpoints were written."""

    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.disk, "open", refuse)
            with pytest.raises(NoDescriptorError):
                await log.truncate_fully_and_start_at(500, NOW)
        assert (log.log_start_offset, log.end_offset) == (0, 20)
        check_all(log)
        await log.truncate_fully_and_start_at(500, NOW)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    kit.run(scenario())


async def filled_and_other(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> tuple[LogDirectory, PartitionLog, PartitionLog]:
    """Another log with one record, whose offsets are in the same checkpoints."""
    directory, log = await filled(kit, make_batch)
    other = await directory.create(TopicPartition("other", 0), kit.topic_id, kit.config)
    other.append_as_leader(make_batch([b"x"]), 0, NOW)
    await other.flush()
    return directory, log, other


def test_starting_over_that_was_refused_does_not_happen_at_the_next_start(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Neither the descriptors nor the room may be missing half-way."""

    async def scenario() -> None:
        _, log, other = await filled_and_other(kit, make_batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.disk, "open", refuse)
            with pytest.raises(NoDescriptorError):
                await log.truncate_fully_and_start_at(500, NOW)
        kit.disk.fail_next("replace", errno.ENOSPC, LOG_START_OFFSETS)
        with pytest.raises(DiskFullError):
            await log.truncate_fully_and_start_at(500, NOW)
        await other.delete_records_before(1, NOW)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    kit.run(scenario())
    kit.kill()
    again = kit.run(kit.reopened())
    assert (again.log_start_offset, again.end_offset) == (0, 20)
    check_all(again)


def test_deleting_records_that_was_refused_does_not_happen_at_the_next_start(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The log start offsets of all logs are in one file."""

    async def scenario() -> None:
        directory, log, other = await filled_and_other(kit, make_batch)
        kit.disk.fail_next("replace", errno.ENOSPC, LOG_START_OFFSETS)
        with pytest.raises(DiskFullError):
            await log.delete_records_before(9, NOW)
        await other.delete_records_before(1, NOW)
        await directory.close({}, 1)

    kit.run(scenario())
    again = kit.run(kit.reopened())
    assert (again.log_start_offset, again.end_offset) == (0, 20)


@pytest.mark.parametrize("checkpoint", [RECOVERY_POINTS, HIGH_WATERMARKS])
def test_a_truncation_that_is_tried_again_lowers_the_checkpoints(
    kit: "StorageKit", make_batch: "MakeBatch", checkpoint: str
) -> None:
    """They were lowered in memory only."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await directory.checkpoint({kit.orders: 20})
        kit.disk.fail_next("replace", errno.ENOSPC, checkpoint)
        with pytest.raises(DiskFullError):
            await log.truncate_to(8, NOW)
        await log.truncate_to(8, NOW)
        await log.flush()

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open())
    assert not directory.quarantined
    assert directory.logs[kit.orders].end_offset == 8
    assert directory.high_watermark_before_truncation(kit.orders) is None


def test_a_truncation_that_cannot_read_snapshots_leaves_all_as_it_is(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.disk, "open", lambda path, **given: refuse(path, given))
            with pytest.raises(NoDescriptorError):
                await log.truncate_to(8, NOW)
        assert log.end_offset == 20
        check_all(log)
        await log.truncate_to(8, NOW)
        assert log.end_offset == 8

    opens = kit.disk.open

    def refuse(path: str, given: dict[str, bool]) -> object:
        if path.endswith(".snapshot"):
            raise OSError(errno.EMFILE, "too many open files")
        return opens(path, **given)

    kit.run(scenario())


def test_a_log_that_starts_over_without_descriptors_is_flushed_when_its_time_has_come(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await filled(kit, make_batch)
        log.configure(replace(SMALL, flush_ms=1_000))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.disk, "sync_directory", refuse)
            with pytest.raises(NoDescriptorError):
                await log.truncate_fully_and_start_at(500, NOW)
        assert [log.flush_is_due(NOW + waited_ms) for waited_ms in (999, 1_000)] == [False, True]

    async def refuse(_path: str) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    kit.run(scenario())


def test_no_snapshot_outlives_starting_over(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"]), 0, NOW)
        log.roll(NOW)
        await log.flush()
        assert kit.disk.exists(kit.path(f"{1:020d}.snapshot"))
        await log.truncate_fully_and_start_at(500, NOW)
        assert not [name for name in kit.disk.names("orders-0") if name.endswith(".snapshot")]

    kit.run(scenario())


def test_a_long_log_is_read_again_without_holding_others_up(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Nothing is waited for either: the others have their turn, and it goes on."""

    async def scenario() -> None:
        _, log = await kit.new_log()
        for _ in range(4_100):
            log.append_as_leader(make_batch([b"a"]), 0, NOW)
        turns, is_over = 0, asyncio.Event()

        async def other() -> None:
            nonlocal turns
            while not is_over.is_set():
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await log.truncate_to(4_099, NOW)
        is_over.set()
        await beside
        assert turns >= 2
        assert kit.clock.time_ms == NOW

    kit.run(scenario())


def test_a_truncation_waits_for_a_lower_recovery_point_that_is_being_written(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A checkpoint meanwhile wrote the same, and was refused as well."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await directory.checkpoint({})
        gates = [asyncio.Event(), asyncio.Event()]
        writes = iter(gates)

        async def device(path: str) -> None:
            gate = next(writes, None) if path == RECOVERY_POINTS else None
            if gate is not None:
                await gate.wait()

        kit.disk.device = device
        for _ in gates:
            kit.disk.fail_next("replace", errno.ENOSPC, RECOVERY_POINTS)
        truncation = asyncio.create_task(log.truncate_to(8, NOW))
        await asyncio.sleep(0.01)
        checkpoint = asyncio.create_task(directory.checkpoint({}))
        await asyncio.sleep(0.01)
        gates[0].set()
        with pytest.raises(DiskFullError):
            await truncation
        again = asyncio.create_task(log.truncate_to(8, NOW))
        await asyncio.sleep(0.01)
        gates[1].set()
        with pytest.raises(DiskFullError):
            await checkpoint
        with suppress(DiskFullError):
            await again
        await log.truncate_to(8, NOW)
        await log.flush()

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open_again())
    assert not directory.quarantined


def test_a_truncation_waits_for_a_lower_high_watermark_that_is_being_written(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """`Partition.truncate_to` lowers it before the log does, and it may have to wait there."""

    async def scenario() -> None:
        directory, log = await filled(kit, make_batch)
        await directory.checkpoint({kit.orders: 20})
        gate = asyncio.Event()

        async def device(path: str) -> None:
            if path == HIGH_WATERMARKS:
                await gate.wait()

        kit.disk.device = device
        kit.disk.fail_next("replace", errno.ENOSPC, HIGH_WATERMARKS)
        checkpoint = asyncio.create_task(directory.checkpoint({kit.orders: 8}))
        await asyncio.sleep(0.01)
        truncation = asyncio.create_task(log.truncate_to(8, NOW))
        await asyncio.sleep(0.01)
        gate.set()
        with pytest.raises(DiskFullError):
            await checkpoint
        await truncation
        await log.flush()

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open_again())
    assert directory.high_watermark(kit.orders) == 8
    assert directory.high_watermark_before_truncation(kit.orders) is None


def test_a_high_watermark_that_was_refused_is_still_known(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Elections compare the highest one that any live broker knows."""

    async def scenario() -> None:
        directory, _ = await filled(kit, make_batch)
        await directory.checkpoint({kit.orders: 4})
        kit.disk.fail_next("replace", errno.ENOSPC, HIGH_WATERMARKS)
        with pytest.raises(DiskFullError):
            await directory.checkpoint({kit.orders: 20})
        assert directory.high_watermark(kit.orders) == 20

    kit.run(scenario())
