"""Finds the keys of many records quickly, without creating an object for each record.

Compaction reads every record of a log twice, so this must be fast: it returns plain tuples, and
does not read values and headers. Invalid bytes raise `InvalidRecordError`, as in `reader`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import HEADER_BYTES, BatchHeader, Codec
from chiplog_wire.records.compression import decompress
from chiplog_wire.records.errors import DecompressionError, InvalidRecordError
from chiplog_wire.records.reader import MAX_INFLATED_BYTES
from chiplog_wire.steps import Steps, run_steps

ScannedRecord: TypeAlias = tuple[int, int, int, int, Any, bool]
"""Offset delta, where the record begins and ends in the payload, timestamp delta in milliseconds,
key or None, whether it is a tombstone. Keys are slices of the payload: bytes of bytes."""

RECORDS_PER_STEP: Final = 400
"""About half a millisecond of work."""

QUICK_RECORDS: Final = 2_000
QUICK_BYTES: Final = 256 * 2**10
"""The limits of records and bytes that are checked without a pause."""


class TakesLong(Exception):  # noqa: N818 - no error: the caller does the work in steps
    """The work would take longer than one slice, and was not done."""


def payload_of(batch: memoryview, header: BatchHeader) -> bytes:
    """The decompressed records of a complete batch. Raises `RecordsError`."""
    packed = batch[HEADER_BYTES : header.size_bytes]
    return bytes(decompress(header.codec, packed, MAX_INFLATED_BYTES))


def scan_payload(payload: Buffer, count: int) -> Iterator[list[ScannedRecord]]:
    """The `count` records of a decompressed payload, a few hundred at a time.

    Raises `InvalidRecordError`, also if bytes are left after them.
    """
    position = 0
    while count > 0:
        records, position = scan_records(payload, position, min(count, RECORDS_PER_STEP))
        count -= RECORDS_PER_STEP
        yield records
    if position != len(payload):
        raise InvalidRecordError(f"{len(payload) - position} bytes follow the last record")


def scan_records(  # noqa: C901, PLR0912 (hot: a call per number would double the time)
    payload: Buffer, position: int, count: int
) -> tuple[list[ScannedRecord], int]:
    """The next `count` records of a payload, and the position after them.

    Signed numbers are in zigzag encoding: twice the value, and odd for a negative one.
    """
    found: list[ScannedRecord] = []
    try:
        for _ in range(count):
            start = position
            # Variable-length numbers are read in place: they have one or two bytes nearly always.
            size = payload[position]
            if size < 0x80:
                position += 1
            elif payload[position + 1] < 0x80:
                size = size & 0x7F | payload[position + 1] << 7
                position += 2
            else:
                size, position = read_raw_varint(payload, position)
            if size & 1 or not size:  # negative or 0
                raise InvalidRecordError("a record without a size")
            end = position + (size >> 1)
            # Skips the attributes byte, which has no meaning yet.
            timestamp_delta = payload[position + 1]
            if timestamp_delta < 0x80:
                position += 2
            elif payload[position + 2] < 0x80:
                timestamp_delta = timestamp_delta & 0x7F | payload[position + 2] << 7
                position += 3
            else:
                timestamp_delta, position = read_raw_varint(payload, position + 1)
            offset_delta = payload[position]
            if offset_delta < 0x80:
                position += 1
            else:
                offset_delta, position = read_raw_varint(payload, position)
            key_length = payload[position]
            if key_length < 0x80:
                position += 1
            else:
                key_length, position = read_raw_varint(payload, position)
            if key_length & 1:  # -1: no key
                key = None
            else:
                key_start, position = position, position + (key_length >> 1)
                key = payload[key_start:position]
            if position >= end or offset_delta & 1:
                raise InvalidRecordError("a record whose parts do not fit")
            timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
            # A negative length of the value means null: a tombstone.
            found.append(
                (offset_delta >> 1, start, end, timestamp_delta, key, payload[position] & 1 == 1)
            )
            position = end
    except IndexError:
        raise InvalidRecordError("a record is cut short") from None
    if position > len(payload):
        raise InvalidRecordError("a record does not fit its batch")
    return found, position


def check_keys_quickly(batch: memoryview, header: BatchHeader) -> None:
    """Check that every record of a batch has a key, as compaction requires.

    Raises `TakesLong` if the batch is large: then call `check_keys`, which works in steps.
    """
    packed = batch[HEADER_BYTES : header.size_bytes]
    if header.record_count > QUICK_RECORDS or len(packed) > QUICK_BYTES:
        raise TakesLong
    try:
        payload = decompress(header.codec, packed, QUICK_BYTES)
    except DecompressionError:
        raise TakesLong from None  # it may be valid but too large
    run_steps(_check(bytes(payload), header.record_count))


def check_keys(batch: memoryview, header: BatchHeader) -> Steps[None]:
    """Check that every record of a batch has a key, in steps, for batches of any size.

    The first step may yield a function to call in another thread, which decompresses the batch.
    Raises `RecordsError`.
    """
    payload: Buffer = batch[HEADER_BYTES : header.size_bytes]
    if header.codec is Codec.NONE:
        payload = bytes(payload)
    else:
        payload = yield partial(decompress, header.codec, payload, MAX_INFLATED_BYTES)
    yield from _check(payload, header.record_count)


def _check(payload: Buffer, count: int) -> Steps[None]:
    """Check that the records have keys and successive offsets. Raises `InvalidRecordError`."""
    expected = 0
    for records in scan_payload(payload, count):
        for offset_delta, _, _, _, key, _ in records:
            if offset_delta != expected:
                raise InvalidRecordError(f"record {expected} has offset delta {offset_delta}")
            if key is None:
                raise InvalidRecordError("a compacted topic accepts no record without a key")
            expected += 1
        yield None


def attributes_and_rest(payload: bytes, start: int) -> tuple[bytes, int]:
    """The attributes of the record at `start`, and the position after its timestamp delta."""
    _, position = read_raw_varint(payload, start)
    _, rest = read_raw_varint(payload, position + 1)
    return payload[position : position + 1], rest


def read_raw_varint(payload: Buffer, position: int) -> tuple[int, int]:
    """A number of variable length, still in zigzag encoding, and the position after it."""
    value = shift = 0
    for index in range(position, position + 10):
        byte = payload[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise InvalidRecordError("a variable-length number without an end")
