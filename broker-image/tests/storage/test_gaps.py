"""Where offsets may be missing, as after compaction, and where that is not believed."""

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.partitions.following import Taken
from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.producer_snapshot import decode_snapshot
from chiplog_wire.protocol.messages import EpochEndOffset
from chiplog_wire.records.batch import iter_batches, read_header, set_place
from tests.storage.follower import EPOCH, follower_of

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
RECORDS = 20
CLEANER = CleanerSettings(dedupe_buffer_bytes=24_000, io_max_bytes_per_second=1e9)


async def append(log: PartitionLog, make_batch: "MakeBatch", offsets: list[int]) -> None:
    """A record in a batch of its own at each of these offsets, durable on return."""
    for offset in offsets:
        batch = memoryview(bytearray(make_batch([b"x"])))
        set_place(batch, offset, len(batch) - 12, 1)
        log.append_as_follower(batch, 1, NOW)
    await log.flush()


def positions(kit: "StorageKit", path: str) -> list[int]:
    """Of all batches of a segment."""
    return [position for position, _ in iter_batches(bytes(kit.disk.content(path)))]


# --- what recovery believes -------------------------------------------------------


async def with_gaps(kit: "StorageKit", make_batch: "MakeBatch", *, gap_end_offset: int) -> None:
    """A follower of a compacted log, none of which is checkpointed: every fourth record is missing
    below `gap_end_offset`."""
    kit.config = LogConfig(compacts=True)
    _, log = await kit.new_log()
    if gap_end_offset:
        await log.compaction.allow_gaps(gap_end_offset)
    kept = [offset for offset in range(RECORDS) if offset >= gap_end_offset or offset % 4]
    await append(log, make_batch, kept)


@pytest.mark.parametrize("gap_end_offset", [0, 8])
@pytest.mark.parametrize("bit", [5, 9, 40])
def test_a_last_batch_is_not_believed_to_be_further_behind(
    kit: "StorageKit", make_batch: "MakeBatch", gap_end_offset: int, bit: int
) -> None:
    """No checksum covers its base offset. The log would seem longer than all others."""
    kit.run(with_gaps(kit, make_batch, gap_end_offset=gap_end_offset))
    path = kit.path(f"{0:020d}.log")
    kit.disk.flip_bit(path, positions(kit, path)[-1] + 7 - bit // 8, bit % 8)
    kit.kill()

    directory = kit.run(kit.open())

    assert directory.logs[kit.orders].end_offset == RECORDS - 1
    assert directory.high_watermark_before_truncation(kit.orders) is not None


@pytest.mark.parametrize(
    ("bit", "batch", "what"),
    [
        (2, 0, "offset 2 comes after offset 5, so offsets 0 to 4 "),
        (3, 0, "offset 2 comes after offset 9, so offsets 0 to 8 "),
        (4, 0, "offset 2 comes after offset 17, so offsets 0 to 16 "),
        (3, 1, "offset 3 comes after offset 10, so offsets 2 to 9 "),
    ],
)
def test_where_a_gap_is_possible_a_wrong_base_offset_is_damage(
    kit: "StorageKit", make_batch: "MakeBatch", bit: int, batch: int, what: str
) -> None:
    """One batch seems to follow a gap and the next to precede it: it is unknown which is wrong."""
    kit.run(with_gaps(kit, make_batch, gap_end_offset=RECORDS - 2))
    path = kit.path(f"{0:020d}.log")
    kit.disk.flip_bit(path, positions(kit, path)[batch] + 7, bit)
    kit.kill()

    directory = kit.run(kit.open())

    assert f"{what}may not be missing at all" in directory.quarantined[kit.orders]


def test_where_no_gap_came_before_a_log_ends_before_a_base_offset_that_is_too_low(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(with_gaps(kit, make_batch, gap_end_offset=0))
    path = kit.path(f"{0:020d}.log")
    kit.disk.flip_bit(path, positions(kit, path)[12] + 7, 3)
    kit.kill()

    directory = kit.run(kit.open())

    assert directory.logs[kit.orders].end_offset == 12
    assert directory.high_watermark_before_truncation(kit.orders) is not None


@pytest.mark.parametrize(("which", "bit"), [(0, 3), (1, 1)])
def test_a_batch_in_the_wrong_place_across_segments_is_damage(
    kit: "StorageKit", make_batch: "MakeBatch", which: int, bit: int
) -> None:
    """The last batch of a segment seems to lie behind the first one of the next."""

    async def begin() -> str:
        _, log = await kit.new_log()
        await log.compaction.allow_gaps(RECORDS)
        for number in range(RECORDS):
            log.append_as_leader(make_batch([b"%02d" % number]), 1, NOW)
            await log.make_durable(log.end_offset)
        assert log.segment_count > which + 1
        return log._state.segments.as_list()[which].log_path

    kit.config = LogConfig(segment_bytes=500)
    path = kit.run(begin())
    last_batch = positions(kit, path)[-1]
    base_offset = read_header(kit.disk.content(path), last_batch).base_offset
    assert base_offset | 1 << bit > base_offset
    kit.disk.flip_bit(path, last_batch + 7, bit)
    kit.kill()

    assert "may not be missing at all" in kit.run(kit.open()).quarantined[kit.orders]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_gaps_of_which_only_their_existence_is_known(
    kit: "StorageKit", make_batch: "MakeBatch", is_damaged: bool
) -> None:
    """As with the files of an earlier version, and with one of ours that cannot be read."""
    kit.run(with_gaps(kit, make_batch, gap_end_offset=8))
    kit.kill()
    if is_damaged:
        kit.run(kit.disk.replace("gap-end-checkpoint", b"\0\0\0"))
    else:
        kit.disk.remove("gap-end-checkpoint")

    log = kit.run(kit.open()).logs[kit.orders]
    assert (log.end_offset, log.gap_end_offset) == (RECORDS, RECORDS)

    kit.kill()
    assert kit.run(kit.open()).logs[kit.orders].gap_end_offset == RECORDS


CHECKPOINT = "recovery-point-offset-checkpoint"


async def shut_down_with_an_older_checkpoint(
    kit: "StorageKit", make_batch: "MakeBatch", older: list[int], later: list[int]
) -> None:
    """A follower of a compacted log, with a record at each of these offsets. The checkpoint is a
    copy from before the later ones."""
    kit.config = LogConfig(compacts=True)
    directory, log = await kit.new_log()
    await append(log, make_batch, older)
    await directory.checkpoint({kit.orders: log.end_offset})
    copy = bytes(kit.disk.content(CHECKPOINT))
    await log.compaction.allow_gaps(16)
    await append(log, make_batch, later)
    await directory.close({kit.orders: log.end_offset}, broker_epoch=1)
    kit.disk.content(CHECKPOINT)[:] = copy


@pytest.mark.parametrize(
    ("later", "end_offset"),
    [([6, 7, 9, 10, 11, 13, 16, 17], 18), ([9, 10, 16], 17), ([6, 12], 13), ([9], 10)],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_gaps_above_an_older_copy_of_the_recovery_point(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    later: list[int],
    end_offset: int,
    *,
    is_known: bool,
) -> None:
    """After a clean shutdown. `is_known`: whether it is known where the log may have gaps."""
    kit.run(shut_down_with_an_older_checkpoint(kit, make_batch, [0, 1, 2, 3, 4], later))
    if not is_known:
        kit.disk.remove("gap-end-checkpoint")
    kit.kill()

    directory = kit.run(kit.open())

    assert directory.logs[kit.orders].end_offset == end_offset
    assert directory.high_watermark_before_truncation(kit.orders) is None


def test_above_an_older_copy_of_the_recovery_point_all_is_checked(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """After a clean shutdown, with one record below it."""
    kit.run(shut_down_with_an_older_checkpoint(kit, make_batch, [0], [1, 2, 3]))
    path = kit.path(f"{0:020d}.log")
    kit.disk.flip_bit(path, positions(kit, path)[2] + 65, 0)
    kit.kill()

    assert "although the last shutdown was clean" in kit.run(kit.open()).quarantined[kit.orders]


def test_the_producers_as_of_an_older_copy_of_the_recovery_point_are_stored(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """With the records above it, which go to a new file."""
    kit.run(shut_down_with_an_older_checkpoint(kit, make_batch, [0, 1, 2, 3, 4], [5, 6, 7]))
    kit.kill()
    kit.run(kit.open())
    stored = bytes(kit.disk.content(kit.path(f"{5:020d}.snapshot")))
    assert decode_snapshot(stored).producers == []


@pytest.mark.parametrize(("later", "is_believed"), [([9, 10], True), ([9], False)])
def test_a_gap_across_an_older_copy_of_the_recovery_point(
    kit: "StorageKit", make_batch: "MakeBatch", later: list[int], *, is_believed: bool
) -> None:
    """If only the last batch follows it, its base offset may have been changed: the log may have
    ended at the recovery point."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        await append(log, make_batch, [0, 1, 2, 3, 4])
        await directory.checkpoint({kit.orders: 5})
        copy = bytes(kit.disk.content(CHECKPOINT))
        await log.truncate_to(3, NOW)
        await log.compaction.allow_gaps(9)
        await append(log, make_batch, later)
        await directory.close({kit.orders: 0}, broker_epoch=1)
        kit.disk.content(CHECKPOINT)[:] = copy

    kit.config = LogConfig(compacts=True)
    kit.run(scenario())
    path = kit.path(f"{0:020d}.log")
    stored = bytes(kit.disk.content(path))
    kit.kill()

    directory = kit.run(kit.open())

    if is_believed:
        assert directory.logs[kit.orders].end_offset == 11
    else:
        assert "offset 9, but 3 was expected" in directory.quarantined[kit.orders]
        (past,) = directory.damage_history
        assert (past.file, past.offset) == (path, 3)
        assert kit.disk.content(path) == stored


# --- the gap end is durable before a gap is --------------------------------------


def test_a_gap_is_appended_only_once_its_end_could_be_written(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The value in memory is not the one on the disk."""

    async def scenario() -> None:
        _, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            await one.give(one.batch(0, b"a"))
            for _ in range(2):
                kit.disk.fail_next("replace", errno.ENOSPC, "gap-end-checkpoint")
                assert await one.give(one.batch(3, b"d"), may_have_gaps=True) is Taken.FAILED
            assert log.end_offset == 1
            assert await one.give(one.batch(3, b"d"), may_have_gaps=True) is Taken.PROGRESS
            assert (await one.position()).offset == 4

    kit.run(scenario())
    kit.cut_power(1)
    assert kit.run(kit.reopened()).end_offset == 4


def test_a_follower_waits_for_the_gap_end_that_a_pass_is_writing(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            await one.give(one.batch(0, b"a"))
            await one.position()
            may_write = asyncio.Event()

            async def device(path: str) -> None:
                if "gap-end" in path:
                    await may_write.wait()

            kit.disk.device = device
            a_pass = asyncio.create_task(log.compaction.allow_gaps(9))
            await asyncio.sleep(0.01)
            answer = asyncio.create_task(one.give(one.batch(3, b"d"), may_have_gaps=True))
            await asyncio.sleep(0.01)
            assert log.end_offset == 1
            may_write.set()
            await a_pass
            assert await answer is Taken.PROGRESS

    kit.run(scenario())


# --- truncation, and what the last batch may not do -------------------------------


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("offset", [60, 65])
def test_truncation_to_the_batch_after_the_last_gap(
    kit: "StorageKit", make_batch: "MakeBatch", offset: int, *, is_clean: bool
) -> None:
    """The log ends before the gap then: a start could not distinguish it from lost records."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            await one.give(one.batch(0, *[b"a"] * 50))
            await one.give(one.batch(60, *[b"b"] * 10), may_have_gaps=True)
            await one.give(one.batch(70, *[b"b"] * 10), may_have_gaps=True)
            await one.position()
            await directory.checkpoint({kit.orders: 20})
            await log.truncate_to(offset, NOW)
            assert log.end_offset == 50
            if is_clean:
                await directory.close({kit.orders: 20}, broker_epoch=1)
            await log.flush()

    kit.run(scenario())
    kit.kill()
    assert kit.run(kit.reopened()).end_offset == 50


def test_nothing_is_appended_before_a_truncation_is_durable(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """After a power cut, an old batch behind a new one would look like a wrong base offset."""

    async def scenario() -> None:
        _, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            await one.give(one.batch(0, b"a", epoch=4))
            await one.give(one.batch(3, b"b", epoch=5), may_have_gaps=True)
            await one.begin(EPOCH + 1)
            diverging = EpochEndOffset(4, 1)
            assert await one.give(diverging_epoch=diverging) is Taken.PROGRESS
            assert not log._state.segments.active.unsynced

    kit.run(scenario())


@pytest.mark.parametrize("bit", range(8))
def test_a_follower_that_caught_up_is_not_longer_than_it_was(
    kit: "StorageKit", make_batch: "MakeBatch", bit: int
) -> None:
    """Not even where the leader's high watermark lies behind a gap."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            for base_offset, count in ((0, 50), (60, 30), (90, 10)):
                records = one.batch(base_offset, *[b"a"] * count)
                await one.give(records, high_watermark=100, may_have_gaps=True)
            await one.position()
            await directory.checkpoint({kit.orders: 100})

    kit.run(scenario())
    kit.kill()
    path = kit.path(f"{0:020d}.log")
    kit.disk.flip_bit(path, positions(kit, path)[-1] + 7, bit)
    directory = kit.run(kit.open())
    log = directory.logs.get(kit.orders)
    assert log is None or log.end_offset <= 100


# --- logs of others, and files that are gone --------------------------------------


async def a_log_with_a_gap(kit: "StorageKit", make_batch: "MakeBatch", count: int) -> None:
    """Several partitions that end at 10; offset 4 is missing in each."""
    directory = await kit.open()
    for number in range(count):
        partition = kit.orders._replace(partition=number)
        log = await directory.create(partition, kit.topic_id, kit.config)
        await log.compaction.allow_gaps(8)
        await append(log, make_batch, [number for number in range(10) if number != 4])
    await directory.close({}, broker_epoch=1)


async def read_all(directory: LogDirectory) -> dict[int, int]:
    """The end offsets, by partition. Raises `DamagedLogError` for a gap that is not believed."""
    for log in directory.logs.values():
        log.read(0, 100_000, log.end_offset).read()
    return {one.partition: log.end_offset for one, log in directory.logs.items()}


def test_an_earlier_version_compacted_further(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """It runs again after a rollback, and does not know the file of gap ends."""

    async def earlier_version() -> None:
        log = await kit.reopened()
        checkpoints = log._state.env.checkpoints
        content = bytes(kit.disk.content("gap-end-checkpoint"))
        await log.compaction.allow_gaps(28)
        await append(log, make_batch, [*range(10, 20), 28, 29])
        await checkpoints.cleaner_offsets.put(kit.orders, 28)
        await kit.disk.replace("gap-end-checkpoint", content)

    async def now() -> None:
        assert await read_all(await kit.open()) == {0: 30}

    kit.run(a_log_with_a_gap(kit, make_batch, 1))
    kit.run(earlier_version())
    kit.kill()
    kit.run(now())


def test_a_follower_of_apache_kafka(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """It fetched from a compacted leader and never compacted by itself: nothing says so."""

    async def now() -> None:
        directory = await kit.open()
        cleaner = LogCleaner(directory, kit.clock)
        await cleaner.clean_dirtiest({kit.orders: 10}, CLEANER)
        assert await read_all(directory) == {0: 10}

    kit.config = LogConfig(compacts=True)
    kit.run(a_log_with_a_gap(kit, make_batch, 1))
    kit.kill()
    for name in ("gap-end-checkpoint", "cleaner-offset-checkpoint"):
        kit.disk.remove(name)
    kit.run(now())


def test_a_new_compacted_topic_has_no_gaps(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """Also before the first of all is noted: the file is there since the first start."""

    async def begin() -> None:
        _, log = await kit.new_log()
        await append(log, make_batch, [0, 1, 2])

    kit.config = LogConfig(compacts=True)
    kit.run(begin())
    kit.disk.flip_bit(kit.path(f"{0:020d}.log"), 7, 5)
    kit.kill()
    assert kit.run(kit.reopened()).end_offset == 0


@pytest.mark.parametrize("damaged", ["cleaner-offset-checkpoint", "gap-end-checkpoint"])
def test_a_start_that_is_killed_while_it_finds_out_where_gaps_are(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    power_cut: type[Exception],
    damaged: str,
) -> None:
    """The next one knows as little, so it believes as much."""

    async def again() -> dict[int, int]:
        return await read_all(await kit.open_again())

    kit.run(a_log_with_a_gap(kit, make_batch, 3))
    kit.kill()
    kit.disk.remove(".kafka_cleanshutdown")
    kit.disk.remove("gap-end-checkpoint")
    kit.run(kit.disk.replace(damaged, b"\0\0\0"))
    before = kit.disk
    kills = 0
    for operation in range(1, 60):
        kit.disk = before.copy()
        kit.disk.cut_power_at(operation)
        try:
            kit.run(kit.open())
        except power_cut:
            kit.kill()
            kills += 1
            assert kit.run(again()) == {0: 10, 1: 10, 2: 10}, operation
    assert kills > 5
