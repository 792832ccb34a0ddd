"""Reads single records from untrusted bytes.

It is used where speed does not matter, like a lookup by timestamp in one batch, and in tests. For
any bytes the result is records or a `RecordsError`, within the given limits.
"""

from collections.abc import Iterator
from typing import NamedTuple

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import HEADER_BYTES, NO_SEQUENCE, BatchHeader, read_header
from chiplog_wire.records.compression import decompress
from chiplog_wire.records.errors import CorruptBatchError, InvalidRecordError

MAX_INFLATED_BYTES = 32 * 2**20

_VARINT_MAX_BYTES = 5
_VARLONG_MAX_BYTES = 10


class Header(NamedTuple):
    """A key and value in addition to those of the record."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record, with the offset, timestamp and sequence number that follow from its batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def read_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    *,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Iterator[Record]:
    """The records of one batch, in order. The caller checks the checksum."""
    header = header or read_header(batch)
    if header.size_bytes > len(batch):
        raise CorruptBatchError("the batch is cut short")
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    payload = memoryview(decompress(header.codec, packed, max_inflated_bytes))
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(payload, position, header)
        yield record
    if position != len(payload):
        raise InvalidRecordError(f"{len(payload) - position} bytes follow the last record")


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """A signed number of variable length (zigzag, at most 32 bits), and the position after it."""
    return _read_zigzag(buffer, position, _VARINT_MAX_BYTES, 32)


def read_varlong(buffer: memoryview, position: int) -> tuple[int, int]:
    """A signed number of variable length (zigzag, at most 64 bits), and the position after it."""
    return _read_zigzag(buffer, position, _VARLONG_MAX_BYTES, 64)


def _read_zigzag(buffer: memoryview, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
    """A number of at most `max_bytes` bytes and `bits` bits, and the position after it."""
    value = shift = 0
    for index in range(position, position + max_bytes):
        if index >= len(buffer):
            raise InvalidRecordError("a varint is cut short")
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise InvalidRecordError(f"a varint of more than {bits} bits")


def _read_record(payload: memoryview, position: int, header: BatchHeader) -> tuple[Record, int]:
    """The record at `position`, and the position after it. Raises `InvalidRecordError`."""
    size_bytes, start = read_varint(payload, position)
    end = start + size_bytes
    if size_bytes < 0 or end > len(payload):
        raise InvalidRecordError(f"a record of {size_bytes} bytes does not fit into its batch")
    body = payload[start:end]
    if not body:
        raise InvalidRecordError("an empty record")
    body_position = 1  # the attributes byte has no meaning yet
    timestamp_delta_ms, body_position = read_varlong(body, body_position)
    offset_delta, body_position = read_varint(body, body_position)
    key, body_position = _read_bytes(body, body_position)
    value, body_position = _read_bytes(body, body_position)
    headers, body_position = _read_headers(body, body_position)
    if body_position != len(body):
        raise InvalidRecordError(f"{len(body) - body_position} bytes too many in a record")
    record = Record(
        offset=header.base_offset + offset_delta,
        timestamp_ms=header.max_timestamp_ms
        if header.is_log_append_time
        else header.base_timestamp_ms + timestamp_delta_ms,
        key=key,
        value=value,
        headers=headers,
        sequence=_sequence(header, offset_delta),
    )
    return record, end


def _sequence(header: BatchHeader, offset_delta: int) -> int:
    """The sequence number of a record. After 2^31 - 1 comes 0."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return (header.base_sequence + offset_delta) & 0x7FFF_FFFF


def _read_bytes(body: memoryview, position: int) -> tuple[bytes | None, int]:
    """Bytes or null, and the position after them. Raises `InvalidRecordError`."""
    length, position = read_varint(body, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(body):
        raise InvalidRecordError(f"a field of {length} bytes does not fit into its record")
    return bytes(body[position:end]), end


def _read_headers(body: memoryview, position: int) -> tuple[tuple[Header, ...], int]:
    """The headers of a record, and the position after them. Raises `InvalidRecordError`."""
    count, position = read_varint(body, position)
    # Each header has at least two bytes, so a count that cannot be right is refused here.
    if count < 0 or 2 * count > len(body) - position:
        raise InvalidRecordError(f"{count} headers do not fit their record")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(body, position)
        if key is None:
            raise InvalidRecordError("a header without a key")
        value, position = _read_bytes(body, position)
        try:
            headers.append(Header(key.decode(), value))
        except UnicodeDecodeError:
            raise InvalidRecordError("a header's key is not UTF-8") from None
    return tuple(headers), position
