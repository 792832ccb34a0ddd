"""Finds the keys of many records quickly, without creating an object for each record.

Compaction reads every record of a log twice, so this is the only hot reader of single records. It
returns plain tuples, and does not read values and headers. Like `reader` it trusts no byte: invalid
bytes raise `InvalidRecordError`.
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

RECORDS_A_STEP: Final = 400
"""About half a millisecond of work."""

QUICK_RECORDS: Final = 2_000
QUICK_BYTES: Final = 256 * 2**10
"""The limits of records and bytes that are checked without a pause."""


class TakesLong(Exception):  # noqa: N818 - no error: somebody else has to do it
    """The work takes longer than one slice."""


def payload_of(batch: memoryview, header: BatchHeader) -> bytes:
    """The decompressed records of a complete batch. Raises `RecordsError`."""
    packed = batch[HEADER_BYTES : header.size_bytes]
    return bytes(decompress(header.codec, packed, MAX_INFLATED_BYTES))


def scan_payload(payload: Buffer, count: int) -> Iterator[list[ScannedRecord]]:
    """All records of a payload, a few hundred at a time; they must fill it."""
    at = 0
    while count > 0:
        records, at = scan_records(payload, at, min(count, RECORDS_A_STEP))
        count -= RECORDS_A_STEP
        yield records
    if at != len(payload):
        raise InvalidRecordError(f"{len(payload) - at} bytes follow the last record")


def scan_records(  # noqa: C901, PLR0912 (hot: a call per number would double the time)
    payload: Buffer, at: int, count: int
) -> tuple[list[ScannedRecord], int]:
    """The next `count` records of a payload, and the position after them."""
    found: list[ScannedRecord] = []
    try:
        for _ in range(count):
            start = at
            # Variable-length numbers are read in place: they have one or two bytes nearly always.
            size = payload[at]
            if size < 0x80:
                at += 1
            elif payload[at + 1] < 0x80:
                size = size & 0x7F | payload[at + 1] << 7
                at += 2
            else:
                size, at = read_raw_varint(payload, at)
            if size & 1 or not size:
                raise InvalidRecordError("a record without a size")
            end = at + (size >> 1)
            time = payload[at + 1]  # skips the attributes byte, which has no meaning yet
            if time < 0x80:
                at += 2
            elif payload[at + 2] < 0x80:
                time = time & 0x7F | payload[at + 2] << 7
                at += 3
            else:
                time, at = read_raw_varint(payload, at + 1)
            delta = payload[at]
            if delta < 0x80:
                at += 1
            else:
                delta, at = read_raw_varint(payload, at)
            length = payload[at]
            if length < 0x80:
                at += 1
            else:
                length, at = read_raw_varint(payload, at)
            if length & 1:
                key = None
            else:
                key_at, at = at, at + (length >> 1)
                key = payload[key_at:at]
            if at >= end or delta & 1:
                raise InvalidRecordError("a record whose parts do not fit")
            time = (time >> 1) ^ -(time & 1)
            found.append((delta >> 1, start, end, time, key, payload[at] & 1 == 1))
            at = end
    except IndexError:
        raise InvalidRecordError("a record is cut short") from None
    if at > len(payload):
        raise InvalidRecordError("a record does not fit its batch")
    return found, at


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
    """The same for any batch, in steps."""
    payload: Buffer = batch[HEADER_BYTES : header.size_bytes]
    if header.codec is Codec.NONE:
        payload = bytes(payload)
    else:
        payload = yield partial(decompress, header.codec, payload, MAX_INFLATED_BYTES)
    yield from _check(payload, header.record_count)


def _check(payload: Buffer, count: int) -> Steps[None]:
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
    _, at = read_raw_varint(payload, start)
    _, rest = read_raw_varint(payload, at + 1)
    return payload[at : at + 1], rest


def read_raw_varint(payload: Buffer, at: int) -> tuple[int, int]:
    """A variable-length number, and the position after it. The caller decodes the zigzag
    encoding."""
    value = shift = 0
    for index in range(at, at + 10):
        byte = payload[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise InvalidRecordError("a variable-length number without an end")
