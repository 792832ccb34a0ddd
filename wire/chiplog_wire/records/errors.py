"""Errors of batches, each with the name of the Kafka error that clients get."""

from typing import ClassVar


class RecordsError(Exception):
    """A batch or record is refused. `kafka_error` is the name of Kafka's error code."""

    kafka_error: ClassVar[str] = "INVALID_RECORD"


class InvalidRecordError(RecordsError):
    """The batch violates a rule; sending it again cannot help."""


class CorruptBatchError(RecordsError):
    """The bytes are not those of a batch, or have changed: a length or the checksum is wrong."""

    kafka_error = "CORRUPT_MESSAGE"


class DamagedBatchError(CorruptBatchError):
    """The bytes of a batch in a file are not those that were written."""

    def __init__(self, message: str, position: int, offset: int | None = None) -> None:
        """`position` is that of the batch's first byte in the file. `offset` is its expected base
        offset, or None if it is unknown."""
        super().__init__(message)
        self.position = position
        self.offset = offset


class BatchTooLargeError(RecordsError):
    """The batch is larger than `max.message.bytes`."""

    kafka_error = "MESSAGE_TOO_LARGE"


class BatchExceedsSegmentError(RecordsError):
    """The batch is larger than the maximum size of a segment."""

    kafka_error = "RECORD_LIST_TOO_LARGE"


class UnsupportedCompressionError(RecordsError):
    """The batch has a codec number that Kafka does not define."""

    kafka_error = "UNSUPPORTED_COMPRESSION_TYPE"


class InvalidTimestampError(RecordsError):
    """A timestamp outside the allowed window, or of a type that only brokers may set."""

    kafka_error = "INVALID_TIMESTAMP"


class DecompressionError(RecordsError):
    """A payload that cannot be decompressed, or exceeds the limit."""

    kafka_error = "CORRUPT_MESSAGE"
