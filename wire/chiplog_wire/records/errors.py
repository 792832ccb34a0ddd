"""What can be wrong with a batch, each under the name of the Kafka error it is answered with."""

from typing import ClassVar


class RecordsError(Exception):
    """A batch or record that is refused. `kafka_error` is the name of Kafka's error code."""

    kafka_error: ClassVar[str] = "INVALID_RECORD"


class InvalidRecordError(RecordsError):
    """Well-formed bytes that break a rule; sending them again cannot help."""


class CorruptBatchError(RecordsError):
    """The bytes are not what was sent: a length or the checksum does not fit."""

    kafka_error = "CORRUPT_MESSAGE"


class DamagedBatchError(CorruptBatchError):
    """Which batch of a file is not what was written."""

    def __init__(self, message: str, position: int, offset: int | None = None) -> None:
        """`position` is its first byte; `offset` what belongs there, None where nobody knows."""
        super().__init__(message)
        self.position = position
        self.offset = offset


class BatchTooLargeError(RecordsError):
    """Larger than `max.message.bytes`."""

    kafka_error = "MESSAGE_TOO_LARGE"


class BatchExceedsSegmentError(RecordsError):
    """Larger than a whole segment may be."""

    kafka_error = "RECORD_LIST_TOO_LARGE"


class UnsupportedCompressionError(RecordsError):
    """A codec number that Kafka has not defined."""

    kafka_error = "UNSUPPORTED_COMPRESSION_TYPE"


class InvalidTimestampError(RecordsError):
    """A timestamp outside the allowed window, or of a type only a broker may set."""

    kafka_error = "INVALID_TIMESTAMP"


class InvalidTransactionError(RecordsError):
    """A transactional batch where no transaction was begun."""

    kafka_error = "INVALID_TXN_STATE"


class DecompressionError(RecordsError):
    """A payload that does not inflate, or inflates past the limit."""

    kafka_error = "CORRUPT_MESSAGE"
