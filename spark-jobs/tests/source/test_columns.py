"""Batches become columns; what is damaged is told by its place."""

from uuid import UUID

import pytest

from chiplog_spark.source.columns import (
    BATCH_COLUMNS,
    CHUNK_BYTES,
    RECORD_COLUMNS,
    Chunk,
    Unread,
    chunks_of,
    digest,
    microseconds,
)
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.errors import DamagedBatch
from chiplog_spark.wire.facts import Place, RawBatch, batches_in
from chiplog_spark.wire.verdicts import behind
from chiplog_wire.records.batch import Codec, read_header, seal
from chiplog_wire.records.reader import Header
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

AT = Place("orders", UUID(int=1), 2, 5)


def made(
    *values: bytes, base: int = 0, codec: Codec = Codec.NONE, control: bool = False
) -> bytearray:
    records = [
        NewRecord(value, b"k", 1_000 + at, (Header("h", value),)) for at, value in enumerate(values)
    ]
    options = BatchOptions(base_offset=base, leader_epoch=4, codec=codec, control=control)
    return build_batch(records, options)


def raw(data: bytes | bytearray) -> RawBatch:
    (one,) = batches_in(memoryview(data), AT, 0)
    return one


def rows(split: Split, *found: RawBatch | Unread, batches: bool = False) -> list[dict[str, object]]:
    chunks = list(chunks_of(iter(found), split, batches=batches, with_payload=True))
    return [dict(zip(one.columns, row, strict=True)) for one in chunks for row in rows_in(one)]


def rows_in(chunk: Chunk) -> list[tuple[object, ...]]:
    assert {len(values) for values in chunk.columns.values()} == {chunk.rows}
    return list(zip(*chunk.columns.values(), strict=True))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_a_batch_that_are_the_splits(codec: Codec) -> None:
    split = Split(AT, 11, 13, begins_range=False)
    found = rows(split, raw(made(b"a", b"b", b"c", b"d", base=10, codec=codec)))
    assert [(row["offset"], row["value"]) for row in found] == [(11, b"b"), (12, b"c")]
    first = found[0]
    assert tuple(first) == RECORD_COLUMNS
    assert (first["topic"], first["partition"], first["key"]) == ("orders", 2, b"k")
    assert (first["timestamp"], first["timestampType"]) == (1_001_000, 0)
    assert first["headers"] == [("h", b"b")]
    assert (first["leaderEpoch"], first["batchBaseOffset"]) == (4, 10)


def test_control_batches_hold_no_records() -> None:
    batch = made(b"a", control=True)
    assert rows(Split(AT, 0, 9, begins_range=True), raw(batch)) == []
    (row,) = rows(Split(AT, 0, 9, begins_range=True), raw(batch), batches=True)
    assert row["recordsCount"] == 1


def test_a_wrong_checksum_is_an_error_among_records_and_a_row_among_batches() -> None:
    batch = made(b"abc", base=7)
    whole = raw(bytes(batch))
    batch[-3] ^= 1
    split = Split(AT, 0, 9, begins_range=True)
    with pytest.raises(DamagedBatch, match=r"orders-2: broker 5 .* offset 7 .*CRC"):
        rows(split, raw(batch))
    (bad,), (good,) = (rows(split, one, batches=True) for one in (raw(batch), whole))
    assert tuple(good) == BATCH_COLUMNS
    assert good["storedCrc"] == good["computedCrc"] == bad["storedCrc"] != bad["computedCrc"]
    assert (good["baseOffset"], good["lastOffset"], good["leaderEpoch"]) == (7, 7, 4)
    assert (good["replica"], good["sizeBytes"], good["recordsCount"]) == (5, len(batch), 1)
    assert good["payload"] == bytes(whole.data)
    assert good["error"] is bad["error"] is None
    assert good["digest"] != bad["digest"]


@pytest.mark.parametrize("at", [7, 15, 21, 40, 70])
def test_a_digest_sees_every_byte_that_replicas_share(at: int) -> None:
    batch = made(b"abcdefgh" * 9)
    before = digest(read_header(batch), memoryview(batch))
    batch[at] ^= 1
    assert digest(read_header(batch), memoryview(batch)) != before


def test_a_damaged_payload_with_a_right_checksum_is_reported_too() -> None:
    batch = made(b"abc" * 50, codec=Codec.ZSTD)
    batch[61:70] = bytes(9)
    seal(memoryview(batch))
    with pytest.raises(DamagedBatch, match="orders-2"):
        rows(Split(AT, 0, 9, begins_range=True), raw(batch))


def test_what_could_not_be_read_is_a_row_with_the_reason() -> None:
    unread = Unread(4, 8, behind(5, 4, "orders", 2))
    (row,) = rows(Split(AT, 0, 9, begins_range=True), unread, batches=True)
    assert (row["topic"], row["partition"], row["replica"]) == ("orders", 2, 5)
    assert (row["baseOffset"], row["lastOffset"]) == (4, 8)
    assert str(row["error"]).startswith("ReplicaBehind: orders-2: broker 5 does not have offset")
    assert {row[name] for name in BATCH_COLUMNS[5:-1]} == {None}


def test_chunks_are_bounded() -> None:
    values = [bytes(CHUNK_BYTES // 3)] * 8
    found = (raw(made(value, base=at)) for at, value in enumerate(values))
    chunks = list(chunks_of(found, Split(AT, 0, 99, begins_range=True), batches=False))
    assert [one.rows for one in chunks] == [2, 2, 2, 2]  # the value is there twice
    assert sum(one.size_bytes for one in chunks) >= sum(map(len, values))


def test_a_part_of_a_batch_at_the_end_is_left_out() -> None:
    first, second = made(b"a"), made(b"b", base=1)
    for cut in range(1, len(second)):
        (one,) = batches_in(memoryview(first + second[:cut]), AT, 0)
        assert bytes(one.data) == bytes(first)


@pytest.mark.parametrize(("at", "value"), [(16, 1), (8, 0xFF), (11, 3)])
def test_bytes_that_are_no_batch_are_reported_by_the_offset_that_belongs_there(
    at: int, value: int
) -> None:
    second = made(b"b", base=1)
    if at == 11:
        second[8:12] = bytes(4)
    second[at] = value
    found = batches_in(memoryview(made(b"a") + second + bytes(200)), AT, 0)
    assert next(found).last_offset == 0
    with pytest.raises(DamagedBatch, match="offset 1 "):
        list(found)


@pytest.mark.parametrize("millis", [-1, 0, 2**63 - 1, -(2**63)])
def test_timestamps_fit_where_they_go(millis: int) -> None:
    assert -(2**63) <= microseconds(millis) < 2**63
    if abs(millis) < 2**50:
        assert microseconds(millis) == millis * 1000
