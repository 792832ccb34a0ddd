"""The batch header: reading it, iterating over batches, and changing and checking it in place.

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4
    | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4
    | record count 4 | records ...

The CRC32C covers everything after itself. Base offset and leader epoch come before it, so a broker
can set both without changing the checksum. For the same reason the checksum does not protect them:
readers of a log must compare them with the neighbouring batches.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.errors import CorruptBatchError, UnsupportedCompressionError

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_OVERHEAD_BYTES = 12
"""The bytes that the length field does not count: base offset and the length itself."""

CRC_START = 21
"""First byte that the checksum covers."""

MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1
MAX_OFFSET = 2**63 - 1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40
"""Compaction kept tombstones in this batch: the base timestamp is the time from which they may be
removed (KIP-534)."""

_PLACE = Struct(">qii")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_LENGTH_AT = 8
_CRC_AT = 17
ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class Codec(IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The 61 bytes of the header. A tuple, because one is created for every produced batch."""

    base_offset: int
    length_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the batch, including its header."""
        return self.length_bytes + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record. After 2^31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec(self) -> Codec:
        """The codec of the records. Raises `UnsupportedCompressionError`."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise UnsupportedCompressionError(
                f"codec {self.attributes & CODEC_MASK} is not defined"
            ) from None

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the batch's tombstones may be removed (KIP-534); None if it is not
        set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def newest_record_ms(self) -> int:
        """The largest timestamp of its records; -1 if compaction has removed all of them."""
        return self.max_timestamp_ms if self.record_count else NO_TIMESTAMP

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Only its magic is checked, and that its length is at least that of
    a header. Raises `CorruptBatchError`."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatchError(f"{len(buffer) - position} bytes are too few for a batch header")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC or header.length_bytes < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise CorruptBatchError(
            f"no batch at byte {position}: magic {header.magic}, length {header.length_bytes}"
        )
    return header


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch. Raises `CorruptBatchError` for bytes that are no complete
    batch."""
    position, end = 0, len(buffer)
    while position < end:
        header = read_header(buffer, position)
        next_position = position + header.size_bytes
        if next_position > end:
            raise CorruptBatchError(f"the batch at byte {position} ends past the buffer")
        yield position, header
        position = next_position


def checked_headers(batches: memoryview) -> list[BatchHeader]:
    """The headers of consecutive batches, which must be complete and have the right checksums.
    Raises `CorruptBatchError`.

    A loop of its own, because a follower needs it for every batch: three calls per batch are saved.
    """
    unpack, make = HEADER.unpack_from, BatchHeader._make
    headers = []
    position, end = 0, len(batches)
    while position < end:
        if end - position < HEADER_BYTES:
            read_header(batches, position)  # raises an error
        header = make(unpack(batches, position))
        next_position = position + header.length_bytes + LENGTH_OVERHEAD_BYTES
        if header.magic != MAGIC or next_position < position + HEADER_BYTES:
            read_header(batches, position)  # raises an error
        if next_position > end:
            raise CorruptBatchError(f"the batch at byte {position} ends past the buffer")
        if crc32c(batches[position + CRC_START : next_position]) != header.crc:
            check_crc(batches[position:next_position], header)
        headers.append(header)
        position = next_position
    return headers


def check_crc(batch: memoryview, header: BatchHeader) -> None:
    """Verify the checksum of one complete batch. Raises `CorruptBatchError`."""
    computed = crc32c(batch[CRC_START : header.size_bytes])
    if computed != header.crc:
        raise CorruptBatchError(f"CRC is {computed:#010x}, the header says {header.crc:#010x}")


def set_place(batch: memoryview, base_offset: int, length_bytes: int, leader_epoch: int) -> None:
    """Set the batch's offset and leader epoch; the checksum covers neither.

    The length between them is written again unchanged: one call is faster than two.
    """
    _PLACE.pack_into(batch, 0, base_offset, length_bytes, leader_epoch)


def stamp_append_time(batch: memoryview, now_ms: int) -> None:
    """`LogAppendTime`: set the timestamp of all records to `now_ms`, by two header fields."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_MASK)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    seal(batch)


def seal(batch: memoryview) -> None:
    """Set length and checksum of a batch that fills the whole buffer."""
    _LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - LENGTH_OVERHEAD_BYTES)
    _CRC.pack_into(batch, _CRC_AT, crc32c(batch[CRC_START:]))
