"""Single records: what was written is read; what is garbage is a typed error."""

from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_wire.records.batch import HEADER, HEADER_BYTES, Codec, read_header, seal
from chiplog_wire.records.errors import InvalidRecordError, RecordsError
from chiplog_wire.records.reader import Header, read_records, read_varint, read_varlong
from chiplog_wire.records.writer import (
    BatchOptions,
    NewRecord,
    Producer,
    build_batch,
    encode_varint,
    recompress,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
maybe_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.builds(Header, texts, maybe_bytes), max_size=3).map(tuple)
new_records = st.builds(NewRecord, maybe_bytes, maybe_bytes, st.integers(0, 2**50), headers)


@given(records=st.lists(new_records, min_size=1, max_size=8), codec=st.sampled_from(list(Codec)))
def test_what_was_written_is_read(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, BatchOptions(base_offset=100, codec=codec))
    read = list(read_records(batch))
    assert [record.offset for record in read] == list(range(100, 100 + len(records)))
    assert [(r.value, r.key, r.timestamp_ms, r.headers) for r in read] == [
        (r.value, r.key, r.timestamp_ms, tuple(r.headers)) for r in records
    ]


@given(records=st.lists(new_records, min_size=1, max_size=5), codec=st.sampled_from(list(Codec)))
def test_recompressing_keeps_the_records(records: list[NewRecord], codec: Codec) -> None:
    batch = memoryview(build_batch(records, BatchOptions(codec=Codec.GZIP)))
    other = recompress(batch, read_header(batch), codec)
    assert read_header(other).codec is codec
    assert list(read_records(other)) == list(read_records(batch))


def test_sequences_count_on_and_wrap() -> None:
    producer = Producer(producer_id=1, epoch=0, base_sequence=2**31 - 2)
    batch = build_batch([NewRecord(b"")] * 4, BatchOptions(producer=producer))
    assert [record.sequence for record in read_records(batch)] == [2**31 - 2, 2**31 - 1, 0, 1]


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(memoryview(encoded), 0) == (value, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varlong(memoryview(encoded), 0) == (value, len(encoded))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff" * 5, b"\xff\xff\xff\xff\x7f", b"\x80" * 20 + b"\x01"]
)
def test_varints_that_are_none(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_varint(memoryview(data), 0)


def batch_of(payload: bytes, count: int = 1) -> bytearray:
    """A sealed batch around any payload."""
    header = read_header(build_batch([NewRecord(b"")]))
    batch = bytearray(HEADER_BYTES) + payload
    HEADER.pack_into(
        batch, 0, *header._replace(record_count=count, last_offset_delta=max(count - 1, 0))
    )
    seal(memoryview(batch))
    return batch


def test_a_count_that_promises_too_much() -> None:
    with pytest.raises(InvalidRecordError):
        list(read_records(batch_of(b"", 2**31 - 1)))


def test_bytes_behind_the_last_record() -> None:
    batch = build_batch([NewRecord(b"a"), NewRecord(b"b")])
    header = read_header(batch)._replace(record_count=1)
    with pytest.raises(InvalidRecordError):
        list(read_records(batch, header))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(1),
        b"\0\0\0\x01\x01" + encode_varint(1_000_000),  # a million headers
        b"\0\0\0\x01\x01" + encode_varint(-1),
        b"\0\0\0" + encode_varint(50) + b"short",
        b"\0\0\0\x01\x01\x02\x01\x01",  # a header without a key
        b"\0\0\0\x01\x01\x02\x02\xff\x01",  # a header's key that is not UTF-8
        b"\0\0\0\x01\x01\0rest",
    ],
)
def test_records_that_are_none(body: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        list(read_records(batch_of(encode_varint(len(body)) + body)))


@settings(max_examples=300, deadline=None)
@given(payload=st.binary(max_size=100), count=st.integers(0, 5), codec=st.integers(0, 7))
def test_any_payload_ends_in_records_or_a_typed_error(
    payload: bytes, count: int, codec: int
) -> None:
    batch = batch_of(payload, count)
    batch[22] = codec
    with suppress(RecordsError):
        assert len(list(islice(read_records(batch, max_inflated_bytes=10_000), 10))) <= 5


@settings(max_examples=200, deadline=None)
@given(data=st.data(), codec=st.sampled_from(list(Codec)))
def test_mutated_batches_end_in_records_or_a_typed_error(data: st.DataObject, codec: Codec) -> None:
    records = [NewRecord(b"value", b"key", 5, (Header("h", b"v"),))] * 3
    batch = build_batch(records, BatchOptions(codec=codec))
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(57, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    with suppress(RecordsError):
        for record in islice(read_records(batch, max_inflated_bytes=100_000), 100):
            assert record.offset >= -(2**31)
