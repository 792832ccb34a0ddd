"""One batch as compaction leaves it, read by the plain reader: records, times, the header."""

from collections.abc import Generator, Set
from typing import TypeVar

import pytest

from chiplog_broker.storage.compaction.key_map import KeyMap
from chiplog_broker.storage.compaction.rewrite import RetentionRules, index_batch, rewrite_batch
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import (
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    check_crc,
    read_header,
    stamp_append_time,
)
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.scan import RECORDS_PER_STEP
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

_T = TypeVar("_T")

BASE = 100
NOW = 5_000_000
KEEP_MS = 1_000
MANY = 3 * RECORDS_PER_STEP
Shown = list[tuple[int, int, bytes | None, bytes | None]]


def run(steps: Generator[int, None, _T]) -> tuple[_T, list[int]]:
    """What it returns, and the work it said it did."""
    done: list[int] = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as end:
            result: _T = end.value
            return result, done


def batch_of(*records: NewRecord, codec: Codec = Codec.NONE, producer_id: int = -1) -> memoryview:
    producer = Producer(producer_id=producer_id, epoch=2, base_sequence=7)
    options = BatchOptions(base_offset=BASE, leader_epoch=3, codec=codec, producer=producer)
    return memoryview(build_batch(records, options))


def record(key: bytes, value: bytes | None = b"v", at_ms: int = 1_000) -> NewRecord:
    return NewRecord(value, key, at_ms)


def known(*batches: memoryview, max_bytes: int = 2**20) -> KeyMap:
    keys = KeyMap(max_bytes)
    for batch in batches:
        run(index_batch(keys, batch, read_header(batch), 0))
    return keys


def newer(*keys: bytes) -> memoryview:
    """A batch that takes the place of older records of these keys."""
    made = build_batch([record(key) for key in keys], BatchOptions(base_offset=10_000))
    return memoryview(made)


def survival(
    keys: KeyMap, *, now_ms: int = NOW, remembered_batches: Set[int] = frozenset()
) -> RetentionRules:
    return RetentionRules(
        keys=keys,
        now_ms=now_ms,
        delete_retention_ms=KEEP_MS,
        remembered_batches=remembered_batches,
    )


def rewritten(by: RetentionRules, batch: memoryview, end_offset: int = 10**6) -> Buffer | None:
    return run(rewrite_batch(by, batch, read_header(batch), end_offset))[0]


def shown(batch: Buffer | None) -> tuple[BatchHeader, Shown]:
    assert batch is not None
    view = memoryview(batch)
    header = read_header(view)
    check_crc(view, header)
    assert header.size_bytes == len(view)
    found = [(one.offset, one.timestamp_ms, one.key, one.value) for one in read_records(view)]
    return header, found


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_that_stay_are_as_they_were(codec: Codec) -> None:
    batch = batch_of(
        record(b"a", b"1", 1_000),
        record(b"b", b"2", 1_500),
        record(b"c", b"3", 1_200),
        record(b"d", b"4", 9_000),
        record(b"e", b"5", 1_100),
        codec=codec,
    )
    before = read_header(batch)

    header, found = shown(rewritten(survival(known(batch, newer(b"b", b"d"))), batch))

    assert found == [
        (BASE, 1_000, b"a", b"1"),
        (BASE + 2, 1_200, b"c", b"3"),
        (BASE + 4, 1_100, b"e", b"5"),
    ]
    assert header == before._replace(
        length_bytes=header.length_bytes,
        crc=header.crc,
        max_timestamp_ms=1_200,
        record_count=3,
    )


def test_a_large_batch_is_rewritten_step_by_step() -> None:
    names = [b"%d" % number for number in range(MANY)]
    batch = batch_of(*(record(name, b"v", 1_000 + at) for at, name in enumerate(names)))
    keys = known(batch, newer(*names[1::2]))

    result, done = run(rewrite_batch(survival(keys), batch, read_header(batch), 10**6))

    header, found = shown(result)
    assert [one[0] - BASE for one in found] == list(range(0, MANY, 2))
    assert header.max_timestamp_ms == 1_000 + MANY - 2
    assert done == [RECORDS_PER_STEP] * 3


def test_the_newest_record_may_stand_in_an_earlier_step() -> None:
    names = [b"%d" % number for number in range(MANY)]
    times = [9_000] + [1_000] * (MANY - 1)
    batch = batch_of(*map(record, names, [b"v"] * MANY, times))
    header, _ = shown(rewritten(survival(known(batch, newer(names[1]))), batch))
    assert (header.max_timestamp_ms, header.record_count) == (9_000, MANY - 1)


def test_of_a_batch_stamped_by_the_broker_the_time_stays() -> None:
    batch = batch_of(record(b"a", at_ms=1_000), record(b"b", at_ms=2_000))
    stamp_append_time(batch, 7_000)
    header, _ = shown(rewritten(survival(known(batch, newer(b"b"))), batch))
    assert (header.max_timestamp_ms, header.is_log_append_time) == (7_000, True)


def test_a_batch_of_which_nothing_goes_is_the_very_same() -> None:
    batch = batch_of(record(b"a"), record(b"b"))
    assert rewritten(survival(known(batch)), batch) is batch
    assert rewritten(survival(KeyMap(2**20)), batch) is batch
    only = batch_of(record(b"a"))
    # Up to the last offset that is known, and that one, too.
    replaced = known(only)
    replaced._offsets[b"a"] = BASE + 1
    assert replaced.latest_offset == BASE
    assert rewritten(survival(replaced), only) is None
    replaced.latest_offset = BASE - 1
    assert rewritten(survival(replaced), only) is only


def test_tombstones_get_a_horizon_and_all_times_stay() -> None:
    batch = batch_of(
        record(b"a", b"1", 1_000), record(b"b", None, 3_000), record(b"c", b"3", 2_000)
    )

    once = rewritten(survival(known(batch)), batch)

    header, found = shown(once)
    assert header.delete_horizon_ms == NOW + KEEP_MS
    assert (header.max_timestamp_ms, header.record_count) == (3_000, 3)
    assert found == [
        (BASE, 1_000, b"a", b"1"),
        (BASE + 1, 3_000, b"b", None),
        (BASE + 2, 2_000, b"c", b"3"),
    ]
    # It is given once, and the tombstone goes with it and not a millisecond before.
    assert once is not None
    again = memoryview(once)
    for now_ms, expected in ((NOW + KEEP_MS - 1, 3), (NOW + KEEP_MS, 2)):
        kept = survival(known(again), now_ms=now_ms)
        assert shown(rewritten(kept, again))[0].record_count == expected
    assert rewritten(survival(known(again)), again) is again


def test_with_a_horizon_the_newest_time_is_of_what_stays() -> None:
    batch = batch_of(
        record(b"a", b"1", 1_000), record(b"b", None, 3_000), record(b"c", b"3", 9_000)
    )
    header, found = shown(rewritten(survival(known(batch, newer(b"c"))), batch))
    assert (header.delete_horizon_ms, header.max_timestamp_ms) == (NOW + KEEP_MS, 3_000)
    assert [one[1] for one in found] == [1_000, 3_000]


def test_a_tombstone_among_many_records_is_seen_in_any_step() -> None:
    names = [b"%d" % number for number in range(MANY)]
    for place in (0, MANY // 2, MANY - 1):
        values: list[bytes | None] = [b"v"] * MANY
        values[place] = None
        batch = batch_of(*map(record, names, values))
        result, done = run(rewrite_batch(survival(known(batch)), batch, read_header(batch), 10**6))
        header, found = shown(result)
        assert header.delete_horizon_ms == NOW + KEEP_MS
        assert [one[3] for one in found] == values
        assert sum(done) == 2 * MANY, "counted and written"


def test_a_batch_that_is_not_known_to_its_end_gets_no_horizon() -> None:
    batch = batch_of(record(b"a", None), record(b"b"))
    keys = known(batch)
    keys.latest_offset = BASE
    assert rewritten(survival(keys), batch) is batch


@pytest.mark.parametrize("producer_id", [0, 1, 5])
def test_the_newest_batch_of_a_producer_stays_without_records(producer_id: int) -> None:
    batch = batch_of(record(b"a", None), record(b"b"), codec=Codec.GZIP, producer_id=producer_id)
    stamp_append_time(batch, 7_000)
    before = read_header(batch)
    keys = known(batch, newer(b"a", b"b"))

    assert rewritten(survival(keys, remembered_batches={BASE + 5}), batch) is None
    newest = survival(keys, remembered_batches={BASE + 1})
    empty = rewritten(newest, batch)

    header, found = shown(empty)
    assert found == []
    assert header == before._replace(
        length_bytes=header.length_bytes,
        crc=header.crc,
        attributes=before.attributes & ~Codec.GZIP,
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    assert empty is not None
    assert len(empty) == HEADER_BYTES
    # It stays as it is as long as it is the newest, and goes when it is not.
    view = memoryview(empty)
    assert rewritten(newest, view) is view
    assert rewritten(survival(keys), view) is None


def test_an_empty_batch_has_no_horizon() -> None:
    batch = batch_of(record(b"a", None), producer_id=5)
    with_horizon = rewritten(survival(known(batch)), batch)
    assert with_horizon is not None
    view = memoryview(with_horizon)
    assert read_header(view).attributes & DELETE_HORIZON_MASK
    by = survival(known(view, newer(b"a")), remembered_batches={BASE})
    assert read_header(memoryview(rewritten(by, view) or b"")).delete_horizon_ms is None


def test_the_last_batch_before_the_end_keeps_the_next_offset() -> None:
    batch = batch_of(record(b"a"), record(b"b"))
    by = survival(known(batch, newer(b"a", b"b")))
    for end_offset in (BASE + 1, BASE + 3):
        assert rewritten(by, batch, end_offset) is None
    empty = rewritten(by, batch, BASE + 2)
    assert empty is not None
    view = memoryview(empty)
    assert rewritten(by, view, BASE + 2) is view
    assert rewritten(by, view, BASE + 3) is None


def test_what_cannot_be_read_stays_and_takes_the_place_of_nothing() -> None:
    older = batch_of(record(b"a"), record(b"b"))
    cut = memoryview(bytearray(newer(b"a", b"b")))
    cut[HEADER_BYTES] = 0xFF
    keys = known(older, cut)
    assert keys.latest_offset == 10_001
    assert rewritten(survival(keys), older) is older
    assert rewritten(survival(keys), cut) is cut


@pytest.mark.parametrize("count", [3, 20_000, 20_001])
def test_keys_are_noted_from_an_offset_on_however_large_the_batch(count: int) -> None:
    batch = batch_of(*(record(b"%d" % number, b"") for number in range(count)))
    keys = KeyMap(2**24)
    _, done = run(index_batch(keys, batch, read_header(batch), BASE + 2))
    assert len(keys) == count - 2
    assert keys.latest_offset == BASE + count - 1
    steps = -(-count // RECORDS_PER_STEP)
    assert done[:steps] == [RECORDS_PER_STEP] * (steps - 1) + [
        count - RECORDS_PER_STEP * (steps - 1)
    ]
    assert done[steps:] == [one // 4 for one in done[:steps]]


def test_where_there_is_no_room_for_a_key_it_ends_before_it() -> None:
    batch = batch_of(record(b"a"), record(b"b"), record(b"c"))
    keys = known(batch, max_bytes=2 * 192)
    assert keys.is_full
    assert keys.latest_offset == BASE + 1
