"""Creates batches: for internal topics, and for tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Codec,
    seal,
)
from chiplog_wire.records.compression import compress, decompress
from chiplog_wire.records.reader import MAX_INFLATED_BYTES, Header


@dataclass(frozen=True, slots=True)
class NewRecord:
    """The fields of a new record; its offset follows from its position."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = NO_TIMESTAMP
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The idempotent producer of a batch, by which the log recognizes a batch that is sent
    again."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NOT_IDEMPOTENT = Producer()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The fields of a new batch that do not follow from its records."""

    base_offset: int = 0
    leader_epoch: int = -1
    codec: Codec = Codec.NONE
    producer: Producer = NOT_IDEMPOTENT
    transactional: bool = False
    control: bool = False


DEFAULT_OPTIONS = BatchOptions()


def build_batch(records: Iterable[NewRecord], options: BatchOptions = DEFAULT_OPTIONS) -> bytearray:
    """A batch of these records, with length and checksum. Raises `ValueError` without records."""
    items = list(records)
    if not items:
        raise ValueError("a batch holds at least one record")
    base_timestamp_ms = items[0].timestamp_ms
    payload = bytearray()
    for index, record in enumerate(items):
        body = _encode_record(record, index, record.timestamp_ms - base_timestamp_ms)
        payload += encode_varint(len(body))
        payload += body
    attributes = options.codec.value
    if options.transactional:
        attributes |= TRANSACTIONAL_MASK
    if options.control:
        attributes |= CONTROL_MASK
    header = BatchHeader(
        base_offset=options.base_offset,
        length_bytes=0,
        leader_epoch=options.leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(items) - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in items),
        producer_id=options.producer.producer_id,
        producer_epoch=options.producer.epoch,
        base_sequence=options.producer.base_sequence,
        record_count=len(items),
    )
    return _assemble(header, compress(options.codec, payload))


def recompress(
    batch: memoryview,
    header: BatchHeader,
    codec: Codec,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> bytearray:
    """A batch of the same records, compressed by another codec (`compression.type`)."""
    packed = batch[HEADER_BYTES : header.size_bytes]
    payload = decompress(header.codec, packed, max_inflated_bytes)
    attributes = header.attributes & ~CODEC_MASK | codec.value
    return _assemble(header._replace(attributes=attributes), compress(codec, payload))


def pack_batch(header: BatchHeader, payload: Buffer) -> bytearray:
    """A complete batch of uncompressed records: they are compressed with the codec of the
    header."""
    return _assemble(header, compress(header.codec, payload))


def encode_varint(value: int) -> bytes:
    """A signed number of variable length: in zigzag encoding, seven bits per byte, low ones
    first."""
    rest = (value << 1) ^ (value >> 63)
    output = bytearray()
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
    return bytes(output)


def _assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """A batch of a header and compressed records, with the right length and checksum."""
    batch = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(batch, 0, *header)
    batch[HEADER_BYTES:] = payload
    seal(memoryview(batch))
    return batch


def _encode_record(record: NewRecord, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    """A record without its size, which comes before it. Its first byte, the attributes, is 0."""
    parts = [
        b"\0",
        encode_varint(timestamp_delta_ms),
        encode_varint(offset_delta),
        _encode_bytes(record.key),
        _encode_bytes(record.value),
        encode_varint(len(record.headers)),
    ]
    for header in record.headers:
        parts.append(_encode_bytes(header.key.encode()))
        parts.append(_encode_bytes(header.value))
    return b"".join(parts)


def _encode_bytes(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value
