"""Checks produced batches by the rules of Apache Kafka's broker.

There must be one batch of magic 2 per partition, complete and unchanged, at relative offset 0, with
the correct number of records, and without flags that only brokers set. Everything is checked by the
header: the records are not read, so a client can only mislead its own readers.

One rule is stricter than Kafka's: unused attribute bits are refused instead of stored, because a
later format may use them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from crc32c import crc32c

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Codec,
)
from chiplog_wire.records.errors import (
    BatchExceedsSegmentError,
    BatchTooLargeError,
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCompressionError,
)


class TimestampType(Enum):
    """Which clock sets the timestamps of records (`message.timestamp.type`)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLimits:
    """The limits of one topic, from its configuration."""

    max_message_bytes: int
    segment_bytes: int
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int


# Looking up an enum's member by name takes longer than reading the whole header.
_CREATE_TIME = TimestampType.CREATE_TIME
_CLIENT_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_MASK
_HIGHEST_CODEC = max(Codec)


def validate_produced(batch: Buffer, limits: ProduceLimits, now_ms: int) -> BatchHeader:
    """Check the only batch in the buffer and return its header. Raises a `RecordsError` with the
    error that Kafka would return."""
    size_bytes = len(batch)
    if size_bytes < HEADER_BYTES:
        _refuse_fragment(size_bytes)
    header = BatchHeader._make(HEADER.unpack_from(batch))
    if header.magic != MAGIC or header.length_bytes != size_bytes - LENGTH_OVERHEAD_BYTES:
        _refuse_framing(header, size_bytes)
    if size_bytes > limits.max_message_bytes or size_bytes > limits.segment_bytes:
        _refuse_size(size_bytes, limits)
    if crc32c(memoryview(batch)[CRC_START:]) != header.crc:
        raise CorruptBatchError(f"CRC of the batch is not {header.crc:#010x}")
    if header.base_offset or header.record_count != header.last_offset_delta + 1:
        _refuse_offsets(header)
    if header.record_count < 1:
        raise InvalidRecordError(f"a batch of {header.record_count} records")
    if header.attributes and (
        header.attributes & ~_CLIENT_ATTRIBUTES
        or header.attributes & CODEC_MASK > _HIGHEST_CODEC
        or header.attributes & TRANSACTIONAL_MASK
    ):
        _check_attributes(header, limits)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordError(
            f"producer {header.producer_id} sent epoch {header.producer_epoch}, "
            f"sequence {header.base_sequence}"
        )
    if limits.timestamp_type is _CREATE_TIME:
        _check_timestamps(header, limits, now_ms)
    return header


def _refuse_fragment(size_bytes: int) -> NoReturn:
    """Raise the error for a buffer that is too small for a batch."""
    if size_bytes == 0:
        raise InvalidRecordError("a produce request must hold one record batch per partition")
    raise CorruptBatchError(f"{size_bytes} bytes are too few for a record batch")


def _refuse_framing(header: BatchHeader, size_bytes: int) -> NoReturn:
    """Raise the error for a wrong magic or length; `size_bytes` is the size of the buffer."""
    if header.magic in (0, 1):
        raise InvalidRecordError(f"record batches must have magic 2, not {header.magic}")
    if header.magic != MAGIC:
        raise CorruptBatchError(f"unknown magic {header.magic}")
    # Another batch would fit after this one.
    if HEADER_BYTES <= header.size_bytes <= size_bytes - HEADER_BYTES:
        raise InvalidRecordError("a produce request must hold one record batch per partition")
    raise CorruptBatchError(
        f"the batch says it has {header.size_bytes} bytes, the request holds {size_bytes}"
    )


def _refuse_size(size_bytes: int, limits: ProduceLimits) -> NoReturn:
    """Raise the error for a batch that is larger than the topic allows."""
    if size_bytes > limits.max_message_bytes:
        raise BatchTooLargeError(
            f"the batch has {size_bytes} bytes, max.message.bytes is {limits.max_message_bytes}"
        )
    raise BatchExceedsSegmentError(
        f"the batch has {size_bytes} bytes, segment.bytes is {limits.segment_bytes}"
    )


def _refuse_offsets(header: BatchHeader) -> NoReturn:
    """Raise the error for offsets that do not begin at 0 or do not match the number of records."""
    if header.base_offset:
        raise InvalidRecordError(f"base offset must be 0, not {header.base_offset}")
    raise InvalidRecordError(
        f"{header.record_count} records do not span offsets 0 to {header.last_offset_delta}"
    )


def _check_attributes(header: BatchHeader, limits: ProduceLimits) -> None:
    """Check the attribute bits of a batch if it has others than a known codec's."""
    attributes = header.attributes
    if attributes & CODEC_MASK > _HIGHEST_CODEC:
        raise UnsupportedCompressionError(f"codec {attributes & CODEC_MASK} is not defined")
    if attributes & CONTROL_MASK:
        raise InvalidRecordError("clients may not write control records")
    if attributes & TRANSACTIONAL_MASK and header.producer_id < 0:
        raise InvalidRecordError("a transactional batch needs a producer id")
    if attributes & TIMESTAMP_TYPE_MASK and limits.timestamp_type is TimestampType.CREATE_TIME:
        raise InvalidTimestampError("a producer may not set the timestamp type to LogAppendTime")
    if attributes & ~(_CLIENT_ATTRIBUTES | TIMESTAMP_TYPE_MASK):
        raise InvalidRecordError(f"attributes {attributes & 0xFFFF:#06x} use reserved bits")


def _check_timestamps(header: BatchHeader, limits: ProduceLimits, now_ms: int) -> None:
    """Check the smallest and largest timestamp in the header; no record is read."""
    first_ms, last_ms = header.base_timestamp_ms, header.max_timestamp_ms
    earliest_ms = now_ms - limits.timestamp_before_max_ms
    latest_ms = now_ms + limits.timestamp_after_max_ms
    if first_ms >= 0 and last_ms >= 0 and earliest_ms <= first_ms and last_ms <= latest_ms:
        return
    for timestamp_ms in (first_ms, last_ms):
        if timestamp_ms == NO_TIMESTAMP:
            continue
        if timestamp_ms < 0 or not earliest_ms <= timestamp_ms <= latest_ms:
            raise InvalidTimestampError(
                f"timestamp {timestamp_ms} is not within {earliest_ms} to {latest_ms}, as "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms require"
            )
