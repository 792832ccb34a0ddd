"""Nothing damaged is given out: by a read, by a look for a time, or unnoticed by the scrub."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.checking import History, check_batches
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DamagedLogError, LogClosedError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.storage.scrub import Pace
from chiplog_wire.records.errors import DamagedBatchError

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
SEALED, ACTIVE = "00000000000000000006.log", "00000000000000000018.log"
BATCH_BYTES = 101


@pytest.fixture
def directory(kit: "StorageKit") -> LogDirectory:
    kit.config = LogConfig(segment_bytes=400, index_interval_bytes=150)
    return kit.run(kit.open())


@pytest.fixture
def log(kit: "StorageKit", directory: LogDirectory, make_batch: "MakeBatch") -> PartitionLog:
    """Ten batches of two records, durable; three batches a segment, in three epochs."""
    return kit.run(filled(kit, directory, make_batch))


async def filled(
    kit: "StorageKit", directory: LogDirectory, make_batch: "MakeBatch"
) -> PartitionLog:
    log = await directory.create(kit.orders, kit.topic_id, kit.config)
    for number in range(10):
        values = [b"v" * 12 + b"%d" % number, b"w" * 12 + b"%d" % number]
        log.append_as_leader(make_batch(values, timestamp_ms=NOW + 10 * number), number // 4, NOW)
    await log.flush()
    return log


def flips(first: int, last: int) -> Iterator[tuple[int, int]]:
    return ((byte, bit) for byte in range(first, last) for bit in (0, 7))


def test_no_bit_of_a_batch_changes_unnoticed(kit: "StorageKit", log: PartitionLog) -> None:
    """Every byte, the ones outside the checksum too."""
    data = bytearray(kit.disk.content(kit.path(SEALED)))
    history = History(log._state.epochs.span_at, 0)
    assert check_batches(memoryview(data), 6, history) == (3 * BATCH_BYTES, 12)
    for byte, bit in flips(0, len(data)):
        data[byte] ^= 1 << bit
        with pytest.raises(DamagedBatchError) as found:
            check_batches(memoryview(data), 6, history)
        data[byte] ^= 1 << bit
        # What lies outside of the checksum may only show at the batch after it.
        assert found.value.position <= byte


def test_a_batch_cut_off_is_left_for_later_only_where_more_follows(
    kit: "StorageKit", log: PartitionLog
) -> None:
    data = memoryview(kit.disk.content(kit.path(SEALED)))[:250]
    history = History(log._state.epochs.span_at, 0)
    assert check_batches(data, 6, history, more_follows=True) == (2 * BATCH_BYTES, 10)
    with pytest.raises(DamagedBatchError):
        check_batches(data, 6, history)


def test_after_a_compaction_batches_may_begin_later(kit: "StorageKit", log: PartitionLog) -> None:
    data = bytes(kit.disk.content(kit.path(SEALED)))
    thinned = memoryview(data[:BATCH_BYTES] + data[2 * BATCH_BYTES :])
    history = History(log._state.epochs.span_at, 0, gap_end_offset=10)
    assert check_batches(thinned, 6, history).next_offset == 12
    with pytest.raises(
        DamagedBatchError, match="the batch has offsets 10 to 11, but 8 was expected"
    ):
        check_batches(thinned, 6, History(log._state.epochs.span_at, 0))
    bounded = History(log._state.epochs.span_at, 0, gap_end_offset=10, end_offset=11)
    with pytest.raises(
        DamagedBatchError, match="the batch has offsets 10 to 11, but 8 was expected"
    ):
        check_batches(thinned, 6, bounded)
    backwards = memoryview(data[BATCH_BYTES:] + data[:BATCH_BYTES])
    with pytest.raises(DamagedBatchError):
        check_batches(backwards, 8, history)


@pytest.mark.parametrize(
    ("name", "base", "position"), [(SEALED, 6, 0), (SEALED, 6, 1), (ACTIVE, 18, 0)]
)
def test_a_read_never_gives_out_what_is_damaged(
    kit: "StorageKit",
    directory: LogDirectory,
    log: PartitionLog,
    name: str,
    base: int,
    position: int,
) -> None:
    told = kit.events.damaged
    kit.disk.flip_bit(kit.path(name), position * BATCH_BYTES + 70, 3)
    offset = base + 2 * position
    assert log.read(0, 10_000, 20).size_bytes == 3 * BATCH_BYTES
    with pytest.raises(DamagedLogError, match="CRC") as found:
        log.read(base, 10_000, 20)
    assert (found.value.file, found.value.offset) == (kit.path(name), offset)
    assert f"at byte {position * BATCH_BYTES}, offset {offset}" in str(found.value)
    # It is over with the log: nothing is read, nothing is added, and it was told once.
    for _ in range(2):
        with pytest.raises(DamagedLogError):
            log.read(0, 10_000, 20)
    with pytest.raises(DamagedLogError):
        log.append_as_leader(memoryview(b""), 3, NOW)
    assert not log.is_writable
    assert told == [(kit.orders, log.damage)]


def test_a_batch_after_the_requested_offsets_is_not_read(
    kit: "StorageKit", log: PartitionLog
) -> None:
    kit.disk.flip_bit(kit.path(SEALED), BATCH_BYTES + 70, 3)
    assert log.read(6, BATCH_BYTES, 20).size_bytes == BATCH_BYTES


@pytest.mark.parametrize(
    ("left_bytes", "offset"),
    [(280, 10), (2 * BATCH_BYTES, 10), (2 * BATCH_BYTES + 3, 10), (150, 8), (0, 6)],
)
def test_a_file_that_lost_its_end(
    kit: "StorageKit", log: PartitionLog, left_bytes: int, offset: int
) -> None:
    """Told is the first offset that is missing, not the one at which the read began."""
    del kit.disk.content(kit.path(SEALED))[left_bytes:]
    with pytest.raises(DamagedLogError) as found:
        log.read(6, 10_000, 20)
    assert (found.value.file, found.value.offset) == (kit.path(SEALED), offset)
    assert found.value.is_cut


def test_a_file_that_lost_its_end_and_is_changed_before_it(
    kit: "StorageKit", log: PartitionLog
) -> None:
    del kit.disk.content(kit.path(SEALED))[280:]
    kit.disk.flip_bit(kit.path(SEALED), BATCH_BYTES + 70, 3)
    with pytest.raises(DamagedLogError) as found:
        log.read(6, 10_000, 20)
    assert (found.value.offset, found.value.is_cut) == (8, False)


@pytest.mark.parametrize(
    ("offset", "max_bytes", "is_in_it"),
    [(6, 10_000, True), (9, 10_000, True), (6, BATCH_BYTES + 50, False), (11, 10_000, False)],
)
def test_the_first_damaged_batch_is_named_whatever_read_finds_it(
    kits: "Callable[[], StorageKit]",
    make_batch: "MakeBatch",
    offset: int,
    max_bytes: int,
    *,
    is_in_it: bool,
) -> None:
    """Also by who steps over its header, or begins within it."""
    for byte in range(BATCH_BYTES, 2 * BATCH_BYTES):
        kit = kits()
        kit.config = LogConfig(segment_bytes=400, index_interval_bytes=150)
        log = kit.run(filled(kit, kit.run(kit.open()), make_batch))
        # What it remembers of appends would keep it from looking.
        for segment in log._state.segments.as_list():
            segment._boundaries.clear()
        kit.disk.flip_bit(kit.path(SEALED), byte, 6)
        with suppress(DamagedLogError):
            log.read(offset, max_bytes, 20)
        if log.damage is None:
            assert not is_in_it, f"byte {byte} was changed, and the batch was given out"
            continue
        where = log.damage.file, log.damage.offset, log.damage.is_cut
        assert where == (kit.path(SEALED), 8, False), byte


def test_under_fsync_what_was_not_on_the_disk_is_not_checked(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"]), 0, NOW)
    kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
    assert log.read(0, 10_000, 1).size_bytes > 0
    log.configure(LogConfig(durability=Durability.PAGE_CACHE))
    with pytest.raises(DamagedLogError):
        log.read(0, 10_000, 1)


def test_a_batch_larger_than_a_chunk_is_checked_whole(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.configure(LogConfig(max_message_bytes=10 * 2**20))
        for size in (10, 3 * 2**20, 10):
            log.append_as_leader(make_batch([b"x" * size]), 0, NOW)
        await log.flush()
        size_bytes = log.size_bytes
        assert log.read(0, 2**30, 3).size_bytes == size_bytes
        assert log.checks.scrub(0, 2**30) == (size_bytes, 3)
        kit.disk.flip_bit(kit.path("00000000000000000000.log"), size_bytes // 2, 0)
        with pytest.raises(DamagedLogError) as found:
            log.read(0, 2**30, 3)
        assert found.value.offset == 1

    kit.run(scenario())


@pytest.mark.parametrize("wanted", ["time", "newest"])
def test_a_lookup_by_time_finds_damage(kit: "StorageKit", log: PartitionLog, wanted: str) -> None:
    name, timestamp = (SEALED, NOW + 45) if wanted == "time" else (ACTIVE, -3)
    at = (2 * BATCH_BYTES if wanted == "time" else 0) + 70
    kit.disk.flip_bit(kit.path(name), at, 3)
    with pytest.raises(DamagedLogError) as found:
        log.offset_for_timestamp(timestamp, 20)
    assert found.value.file == kit.path(name)


def test_a_cut_in_what_is_damaged(kit: "StorageKit", log: PartitionLog) -> None:
    kit.disk.flip_bit(kit.path(ACTIVE), 16, 0)
    with pytest.raises(DamagedLogError):
        kit.run(log.truncate_to(19, NOW))


# -- the scrub


def test_a_scrub_reads_all_that_is_durable(
    kit: "StorageKit", log: PartitionLog, make_batch: "MakeBatch"
) -> None:
    log.append_as_leader(make_batch([b"not durable"]), 2, NOW)
    kit.disk.flip_bit(kit.path(ACTIVE), BATCH_BYTES + 70, 0)
    offset, read_bytes, steps = 0, 0, []
    while True:
        size_bytes, following = log.checks.scrub(offset, 150)
        read_bytes += size_bytes
        if following is None:
            break
        steps.append(following)
        offset = following
    assert read_bytes == 10 * BATCH_BYTES
    assert steps == [4, 6, 10, 12, 16, 18, 20]


def test_a_scrub_continues_after_a_truncation(kit: "StorageKit", log: PartitionLog) -> None:
    kit.run(log.truncate_to(7, NOW))
    assert log.checks.scrub(16, 1000) == (0, None)
    assert log.checks.scrub(4, 1000) == (BATCH_BYTES, 6)
    assert log.checks.scrub(6, 1000) == (0, None)
    kit.run(log.stop())
    with pytest.raises(LogClosedError):
        log.checks.scrub(0, 1000)


def scrubbed(kit: "StorageKit", directory: LogDirectory, seconds: int, pace: Pace) -> None:
    async def scenario() -> None:
        for _ in range(seconds):
            kit.clock.time_ms += 1000
            await directory.scrubber.advance(pace)

    kit.run(scenario())


def test_everything_is_read_within_the_interval(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def prepared() -> LogDirectory:
        directory = await kit.open()
        for number in range(3):
            name = TopicPartition("orders", number)
            log = await directory.create(name, kit.topic_id, LogConfig(segment_bytes=20_000))
            for _ in range(100):
                log.append_as_leader(make_batch([b"x" * 930]), 0, NOW)
            await log.flush()
        return directory

    directory = kit.run(prepared())
    scrubbed(kit, directory, 101, Pace(100, 10**9))
    assert directory.scrubber.rounds == 1
    assert 300_000 <= directory.scrubber.scrubbed_bytes < 330_000
    # Never faster than it may be.
    before = directory.scrubber.scrubbed_bytes
    scrubbed(kit, directory, 10, Pace(1, 2_000))
    assert 18_000 <= directory.scrubber.scrubbed_bytes - before <= 22_000
    told = kit.events.damaged
    kit.disk.flip_bit("orders-1/00000000000000000080.log", 70, 0)
    scrubbed(kit, directory, 200, Pace(100, 10**9))
    damage = directory.logs[TopicPartition("orders", 1)].damage
    assert damage is not None
    assert told == [(TopicPartition("orders", 1), damage)]
    assert directory.scrubber.rounds >= 2


def test_where_there_is_nothing_to_read_nothing_is_owed(kit: "StorageKit") -> None:
    directory = kit.run(kit.open())
    scrubbed(kit, directory, 5, Pace(1, 10**9))
    assert directory.scrubber.scrubbed_bytes == 0


# -- what the directory does about it


def test_a_directory_closes_in_order_beside_a_damaged_log(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch"
) -> None:
    """Of the others the mark of a clean end says the truth, of this one its own mark."""
    kit = kits()
    other = TopicPartition("orders", 1)

    async def scenario() -> None:
        directory, log = await kit.new_log()
        second = await directory.create(other, kit.topic_id, LogConfig())
        for one in (log, second):
            one.append_as_leader(make_batch([b"x"]), 0, NOW)
            await one.flush()
        kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
        with pytest.raises(DamagedLogError):
            log.read(0, 1000, 1)
        await directory.close({}, 4)

    kit.run(scenario())
    kit.cut_power()
    directory = asyncio.run(kit.open())
    assert directory.report.clean
    assert list(directory.quarantined) == [kit.orders]
    assert directory.logs[other].end_offset == 1
    asyncio.run(directory.close({}, 5))
    kit.kill()
    directory = asyncio.run(kit.open())
    assert directory.report.clean
    assert directory.report.broker_epoch == 5
    mark = directory.damage.get(kit.orders)
    assert mark is not None
    assert (mark.file, mark.offset) == (kit.path("00000000000000000000.log"), 0)
    (past,) = directory.damage_history
    assert (past.partition, past.topic_id) == (kit.orders, kit.topic_id)
    assert (past.file, past.offset, past.repaired_ms) == (mark.file, mark.offset, None)


def test_of_several_damaged_copies_the_last_is_kept(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, _ = await kit.new_log()
        kept, found_at = [], []
        for _ in range(3):
            kit.clock.time_ms += 5
            found_at.append(kit.clock.time_ms)
            log = directory.logs[kit.orders]
            log.append_as_leader(make_batch([b"x"]), 0, NOW)
            await log.flush()
            kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
            with pytest.raises(DamagedLogError) as found:
                log.read(0, 1000, 1)
            await directory.quarantine_damaged(kit.orders, found.value)
            kept.append(await directory.set_aside(kit.orders))
            await directory.create(kit.orders, kit.topic_id, LogConfig())
            assert directory.is_refetching(kit.orders)
        aside = {name for name in kit.disk.names("") if name.endswith("-stray")}
        assert aside == set(kept)
        kit.clock.time_ms += 5
        await directory.mark_undamaged(kit.orders)
        assert [(one.found_ms, one.repaired_ms) for one in directory.damage_history] == [
            (found_ms, kit.clock.time_ms) for found_ms in reversed(found_at)
        ]
        assert [name for name in kit.disk.names("") if name.endswith("-stray")] == kept[-1:]

    kit.run(scenario())
