"""Reading: which batches a fetch gets, and finding records by time."""

from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage import timestamps
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import (
    DamagedLogError,
    OffsetOutOfRangeError,
    RecordsTruncatedError,
)
from chiplog_broker.storage.log import ListOffset, PartitionLog
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.segment import LARGEST_INTERVAL_BYTES, IndexSettings, Segment
from chiplog_wire.records.batch import HEADER_BYTES, Codec, iter_batches, seal
from chiplog_wire.records.scan import RECORDS_PER_STEP
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from chiplog_wire.steps import run_steps

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000


@pytest.fixture
def log(kit: "StorageKit", make_batch: "MakeBatch") -> PartitionLog:
    """Ten batches of two records, 100 bytes each; four batches a segment."""
    kit.config = LogConfig(segment_bytes=400, index_interval_bytes=150)
    _, log = kit.run(kit.new_log())
    for number in range(10):
        values = [b"v" * 12 + b"%d" % number, b"w" * 12 + b"%d" % number]
        batch = make_batch(values, timestamp_ms=NOW + 10 * number)
        assert len(batch) == 101
        log.append_as_leader(batch, number // 4, NOW)
    assert [segment.base_offset for segment in log._state.segments] == [0, 6, 12, 18]
    return log


def offsets(log: PartitionLog, offset: int, max_bytes: int, up_to: int) -> list[int]:
    data = log.read(offset, max_bytes, up_to).read()
    return [header.base_offset for _, header in iter_batches(data)]


def test_a_slice_begins_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    assert offsets(log, 0, 10_000, 20) == [0, 2, 4]
    assert offsets(log, 3, 10_000, 20) == [2, 4]
    assert offsets(log, 4, 10_000, 20) == [4]


def test_a_slice_never_crosses_a_segment(log: PartitionLog) -> None:
    found = log.read(4, 10_000, 20)
    assert (found.size_bytes, found.next_offset) == (101, 6)
    assert offsets(log, found.next_offset, 10_000, 20) == [6, 8, 10]


def test_the_bytes_from_an_offset_on_are_exact_at_segments_and_estimated_within(
    log: PartitionLog,
) -> None:
    assert log.bytes_from(0) == log.bytes_from(-1) == log.size_bytes == 1010
    assert [log.bytes_from(offset) for offset in (6, 12, 18)] == [707, 404, 101]
    assert log.bytes_from(7) == 404 + 303 * 5 // 6
    assert log.bytes_from(20) == log.bytes_from(99) == 0
    every = [log.bytes_from(offset) for offset in range(22)]
    assert every == sorted(every, reverse=True)


@pytest.mark.parametrize(
    ("max_bytes", "batches"), [(303, 3), (302, 2), (202, 2), (201, 1), (101, 1), (100, 1), (0, 1)]
)
def test_max_bytes_and_the_first_batch(log: PartitionLog, max_bytes: int, batches: int) -> None:
    assert offsets(log, 6, max_bytes, 20) == [6, 8, 10][:batches]


def test_without_min_one_a_large_batch_is_not_given(log: PartitionLog) -> None:
    found = log.read(6, 100, 20, min_one=False)
    assert (found.size_bytes, found.next_offset) == (0, 6)
    assert log.read(6, 101, 20, min_one=False).size_bytes == 101


@pytest.mark.parametrize(
    ("up_to", "batches"), [(6, 0), (7, 0), (8, 1), (9, 1), (10, 2), (12, 3), (20, 3), (999, 3)]
)
def test_nothing_at_or_above_the_bound(log: PartitionLog, up_to: int, batches: int) -> None:
    assert offsets(log, 6, 10_000, up_to) == [6, 8, 10][:batches]


def test_the_end_is_empty_and_past_it_is_an_error(log: PartitionLog) -> None:
    found = log.read(20, 10_000, 20)
    assert (found.size_bytes, found.next_offset) == (0, 20)
    for offset in (-1, 21, 2**63 - 1):
        with pytest.raises(OffsetOutOfRangeError) as raised:
            log.read(offset, 10_000, 20)
        assert raised.value.kafka_error == "OFFSET_OUT_OF_RANGE"


def test_reading_into_a_buffer(log: PartitionLog) -> None:
    buffer = memoryview(bytearray(1_000))
    found = log.read(6, 10_000, 20)
    assert found.read_into(buffer) == 303
    assert bytes(buffer[:303]) == found.read()
    assert bytes(buffer[303:]) == bytes(697)


def test_a_reader_that_follows_needs_no_search(kit: "StorageKit", log: PartitionLog) -> None:
    """Where an append or a slice ended is remembered: no index, no walk."""
    log.read(18, 10_000, 20)
    segment = log._state.segments.active
    segment.offset_index.close()
    assert segment._boundaries[20] == segment.size_bytes
    assert log.read(20, 10_000, 20).size_bytes == 0


def test_damage_found_by_reading(kit: "StorageKit", log: PartitionLog) -> None:
    segment = log._state.segments.segment_for(6)
    segment._boundaries.clear()
    kit.disk.content(kit.path("00000000000000000006.log"))[16] = 9
    with pytest.raises(DamagedLogError):
        log.read(8, 10, 20)


# --- by time ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(0, 0), (NOW, 0), (NOW + 1, 2), (NOW + 10, 2), (NOW + 55, 12), (NOW + 90, 18)],
)
def test_the_first_record_not_older(log: PartitionLog, timestamp_ms: int, offset: int) -> None:
    found = log.offset_for_timestamp(timestamp_ms, 20)
    assert found is not None
    assert found.offset == offset
    assert found.timestamp_ms == NOW + 5 * offset
    assert found.leader_epoch == offset // 2 // 4


def test_nothing_that_new_or_not_visible_yet(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(NOW + 91, 20) is None
    assert log.offset_for_timestamp(NOW + 90, 18) is None


def test_the_places_that_have_names(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(ListOffset.EARLIEST, 20) == (-1, 0, 0)
    assert log.offset_for_timestamp(ListOffset.LATEST, 20) == (-1, 20, 2)
    assert log.offset_for_timestamp(ListOffset.LATEST, 15) == (-1, 15, 1)
    assert log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 20) == (NOW + 90, 18, 2)


def test_times_that_go_back(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(index_interval_bytes=0)
    _, log = kit.run(kit.new_log())
    for timestamp_ms in (50, 90, 20, 90, 10, 70):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=timestamp_ms), 0, NOW)
    found = [log.offset_for_timestamp(ms, 6) for ms in (0, 51, 90, 91)]
    assert [answer and answer.offset for answer in found] == [0, 1, 1, None]
    newest = log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 6)
    assert newest is not None
    assert newest.offset == 1


@pytest.mark.parametrize(
    ("times", "deleted_before", "expected"),
    [
        pytest.param((90, 20, 40, 30), 1, (40, 2), id="the newest of all was deleted"),
        pytest.param((90, 20, 40, 30), 3, (30, 3), id="only one is left"),
        pytest.param((20, 90, 40, 90), 2, (90, 3), id="an equal one is left"),
        pytest.param((90, 20, 40, 30), 4, None, id="none is left"),
    ],
)
@pytest.mark.parametrize("segment_bytes", [10_000, 200])
def test_the_newest_of_what_was_not_deleted(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    times: tuple[int, ...],
    deleted_before: int,
    expected: tuple[int, int] | None,
    segment_bytes: int,
) -> None:
    """Its segment may still hold a newer one below the log start (KIP-734)."""
    kit.config = LogConfig(segment_bytes=segment_bytes)
    _, log = kit.run(kit.new_log())
    for timestamp_ms in times:
        log.append_as_leader(make_batch([b"x" * 20], timestamp_ms=timestamp_ms), 0, NOW)
    kit.run(log.delete_records_before(deleted_before, NOW))
    found = log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 4)
    assert (found and found[:2]) == expected


def test_the_newest_of_what_is_left_of_a_batch(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    records = [NewRecord(b"x", timestamp_ms=ms) for ms in (90, 10, 50)]
    batch = memoryview(build_batch(records, BatchOptions()))
    _, log = kit.run(kit.new_log())
    log.append_as_leader(batch, 0, NOW)
    log.append_as_leader(make_batch([b"y"], timestamp_ms=30), 0, NOW)
    for before, expected in ((0, (90, 0)), (1, (50, 2)), (3, (30, 3))):
        kit.run(log.delete_records_before(before, NOW))
        found = log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 4)
        assert found is not None
        assert found[:2] == expected


def test_what_a_header_says_of_time_is_never_the_answer(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A client wrote that, too; the records are asked."""
    _, log = kit.run(kit.new_log())
    batch = make_batch([b"x"], timestamp_ms=50)
    batch[35:43] = (2_000).to_bytes(8, "big")
    seal(batch)
    log.append_as_leader(batch, 0, NOW)
    found = log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 1)
    assert found is not None
    assert found[:2] == (50, 0)
    assert log.offset_for_timestamp(1_000, 1) is None


def test_inside_a_compressed_batch(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"a"] * 9, timestamp_ms=NOW, codec=Codec.ZSTD), 0, NOW)
    kit.run(log.delete_records_before(4, NOW))
    found = log.offset_for_timestamp(NOW, 9)
    assert found is not None
    assert found.offset == 4


def test_a_batch_whose_records_cannot_be_read_answers_as_a_whole(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Its checksum is right, so a client sent it so."""
    _, log = kit.run(kit.new_log())
    batch = make_batch([b"a", b"b"], timestamp_ms=NOW)
    batch[HEADER_BYTES] = 0xFF
    seal(batch)
    log.append_as_leader(batch, 0, NOW)
    found = log.offset_for_timestamp(NOW, 2)
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW, 0)


def test_an_empty_log_has_places_but_no_times(kit: "StorageKit") -> None:
    _, log = kit.run(kit.new_log())
    assert log.offset_for_timestamp(ListOffset.LATEST, 0) == (-1, 0, -1)
    assert log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, 0) is None
    assert log.offset_for_timestamp(0, 0) is None


def lying(timestamp_ms: int, claims_ms: int, count: int = 1) -> memoryview:
    """A batch of records of one time whose header claims a later one."""
    batch = build_batch([NewRecord(b"x", timestamp_ms=timestamp_ms)] * count)
    batch[35:43] = claims_ms.to_bytes(8, "big")
    seal(memoryview(batch))
    return memoryview(batch)


def test_a_search_reads_a_limited_number_of_records_whatever_the_headers_say(
    kit: "StorageKit", make_batch: "MakeBatch", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It then answers where it has come to: too early is safe, too late would lose records."""
    monkeypatch.setattr(timestamps, "MAX_RECORDS", 3_000)
    opened: list[int] = []
    _, log = kit.run(kit.new_log())
    read_batch = log.checks.read_batch

    def counted(segment: Segment, position: int, size_bytes: int, offset: int) -> bytes:
        opened.append(offset)
        return read_batch(segment, position, size_bytes, offset)

    monkeypatch.setattr(LogChecks, "read_batch", lambda _, *given: counted(*given))
    for _ in range(10):
        log.append_as_leader(lying(50, 2_000, count=900), 0, NOW)
    log.append_as_leader(make_batch([b"x"], timestamp_ms=1_500), 0, NOW)
    found = log.offset_for_timestamp(1_000, log.end_offset)
    assert found is not None
    assert opened == [0, 900, 1_800]
    assert (found.timestamp_ms, found.offset) == (2_000, 2_699)


def test_not_all_of_many_wrong_headers_are_read(
    kit: "StorageKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a batch costs, too, be it ever so small."""
    monkeypatch.setattr(timestamps, "MAX_RECORDS", 1_010)
    _, log = kit.run(kit.new_log())
    for _ in range(50):
        log.append_as_leader(lying(50, 2_000), 0, NOW)
    found = log.offset_for_timestamp(1_000, 50)
    assert found is not None
    assert found.offset == 9


def test_records_that_inflate_to_too_much_are_not_inspected(
    kit: "StorageKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestamps, "MAX_INFLATED_BYTES", 10_000)
    _, log = kit.run(kit.new_log())
    records = [NewRecord(b"x" * 100, timestamp_ms=NOW + number) for number in range(200)]
    batch = build_batch(records, BatchOptions(codec=Codec.ZSTD))
    log.append_as_leader(memoryview(batch), 0, NOW)
    assert log.offset_for_timestamp(NOW + 150, 200) == (NOW + 199, 0, 0)


def test_a_search_stops_for_others_between_few_headers_and_few_records(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"], timestamp_ms=90), 0, NOW)
    for _ in range(1_000):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=50), 0, NOW)
    log.append_as_leader(lying(50, 100, count=2_000), 0, NOW)
    steps = list(log.find_timestamp(95, log.end_offset))
    assert len(steps) == 1_000 // timestamps.HEADERS_PER_STEP + 2_000 // RECORDS_PER_STEP


def test_a_search_begins_again_where_the_log_was_cut(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"], timestamp_ms=90), 0, NOW)
    for _ in range(1_000):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=50), 0, NOW)
    log.append_as_leader(make_batch([b"x"], timestamp_ms=95), 0, NOW)
    steps = log.find_timestamp(95, log.end_offset)
    next(steps)
    kit.run(log.truncate_to(600, NOW))
    log.append_as_leader(make_batch([b"x"], timestamp_ms=99), 0, NOW)
    assert run_steps(steps) == (99, 600, 0)


@pytest.fixture
def with_a_lie(kit: "StorageKit", make_batch: "MakeBatch") -> PartitionLog:
    """A search for 90 opens the first of three segments in vain, and finds it in the second."""
    kit.config = LogConfig(segment_bytes=100)
    _, log = kit.run(kit.new_log())
    log.append_as_leader(lying(50, 100), 0, NOW)
    for timestamp_ms in (90, 95):
        log.append_as_leader(make_batch([b"x" * 20], timestamp_ms=timestamp_ms), 0, NOW)
    return log


def test_a_search_in_a_segment_that_went_begins_again(
    with_a_lie: PartitionLog, kit: "StorageKit"
) -> None:
    steps = with_a_lie.find_timestamp(90, 3)
    next(steps)
    kit.run(with_a_lie.delete_records_before(2, NOW))
    assert run_steps(steps) == (95, 2, 0)


def test_a_search_in_a_log_that_never_rests_gives_up(with_a_lie: PartitionLog) -> None:
    def search() -> None:
        for _ in with_a_lie.find_timestamp(90, 3):
            with_a_lie._state.cut_count += 1

    with pytest.raises(RecordsTruncatedError):
        search()


@pytest.mark.parametrize("interval_bytes", [2**30, 4096])
def test_an_index_is_never_so_sparse_that_reads_take_long(interval_bytes: int) -> None:
    settings = IndexSettings.of(interval_bytes, 2**20)
    assert settings.interval_bytes == min(interval_bytes, LARGEST_INTERVAL_BYTES)
