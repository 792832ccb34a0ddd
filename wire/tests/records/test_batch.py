"""The batch header: layout, patching, checksums."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.records.batch import (
    HEADER_BYTES,
    MAX_SEQUENCE,
    BatchHeader,
    Codec,
    check_crc,
    iter_batches,
    read_header,
    seal,
    set_place,
    stamp_append_time,
)
from chiplog_wire.records.errors import CorruptBatchError, UnsupportedCompressionError
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch


def some_batch(count: int = 3, **options: object) -> memoryview:
    records = [
        NewRecord(b"value %d" % number, timestamp_ms=1_000 + number) for number in range(count)
    ]
    return memoryview(build_batch(records, BatchOptions(**options)))  # type: ignore[arg-type]


def test_every_field_lies_where_kafka_puts_it() -> None:
    batch = some_batch(
        base_offset=7,
        leader_epoch=5,
        codec=Codec.NONE,
        producer=Producer(producer_id=11, epoch=2, base_sequence=9),
        transactional=True,
    )
    assert HEADER_BYTES == 61
    assert struct.unpack_from(">q", batch, 0) == (7,)
    assert struct.unpack_from(">i", batch, 8) == (len(batch) - 12,)
    assert struct.unpack_from(">i", batch, 12) == (5,)
    assert batch[16] == 2
    assert struct.unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    assert struct.unpack_from(">h", batch, 21) == (0x10,)
    assert struct.unpack_from(">i", batch, 23) == (2,)
    assert struct.unpack_from(">qq", batch, 27) == (1_000, 1_002)
    assert struct.unpack_from(">qhi", batch, 43) == (11, 2, 9)
    assert struct.unpack_from(">i", batch, 57) == (3,)


def test_header_says_what_the_bytes_say() -> None:
    header = read_header(some_batch(base_offset=40, codec=Codec.ZSTD, control=True))
    assert header.base_offset == 40
    assert header.last_offset == 42
    assert header.codec is Codec.ZSTD
    assert header.is_control
    assert not header.is_transactional
    assert not header.is_log_append_time


def test_offset_and_epoch_can_be_set_without_touching_the_checksum() -> None:
    batch = some_batch()
    before = read_header(batch)
    set_place(batch, 1234, before.length_bytes, 17)
    after = read_header(batch)
    check_crc(batch, after)
    assert after == before._replace(base_offset=1234, leader_epoch=17)


def test_append_time_replaces_every_timestamp() -> None:
    batch = some_batch()
    stamp_append_time(batch, 99_000)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.is_log_append_time
    assert {record.timestamp_ms for record in read_records(batch)} == {99_000}


@pytest.mark.parametrize("byte", range(17, 80))
def test_every_flipped_bit_behind_the_magic_is_found(byte: int) -> None:
    batch = some_batch()
    batch[byte] ^= 0x10
    with pytest.raises(CorruptBatchError):
        check_crc(batch, read_header(batch))


def test_unknown_codec_has_no_name() -> None:
    batch = some_batch()
    batch[22] |= 5
    seal(batch)
    with pytest.raises(UnsupportedCompressionError):
        _ = read_header(batch).codec


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(5, 3, 8), (MAX_SEQUENCE, 0, MAX_SEQUENCE), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 4, 2)],
)
def test_sequences_wrap_to_zero(base: int, delta: int, last: int) -> None:
    header = read_header(some_batch())
    assert header._replace(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_batches_are_found_one_behind_the_other() -> None:
    first, second = some_batch(2), some_batch(5)
    found = list(iter_batches(bytes(first) + bytes(second)))
    assert [(position, header.record_count) for position, header in found] == [
        (0, 2),
        (len(first), 5),
    ]


@given(st.integers(1, 200))
def test_a_cut_batch_is_an_error(missing_bytes: int) -> None:
    data = bytes(some_batch()) + bytes(some_batch())
    cut = data[: max(1, len(data) - missing_bytes)]
    if len(cut) == len(data) // 2:
        return
    with pytest.raises(CorruptBatchError):
        list(iter_batches(cut))


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_ends(data: bytes) -> None:
    try:
        for position, header in iter_batches(data):
            assert position + header.size_bytes <= len(data)
    except CorruptBatchError:
        pass


def test_a_length_that_does_not_move_on_is_refused() -> None:
    header = BatchHeader(0, -12, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    data = struct.pack(">qiibIhiqqqhii", *header)
    with pytest.raises(CorruptBatchError):
        list(iter_batches(data))
