"""Errors of a log, each with the name of the Kafka error that clients get."""

from typing import ClassVar


class StorageError(Exception):
    """The base class. `kafka_error` is the name of Kafka's error code."""

    kafka_error: ClassVar[str] = "KAFKA_STORAGE_ERROR"


class DirectoryOfflineError(StorageError):
    """The data directory failed; nothing is stored any more until the process is restarted."""


class WrongDirectoryError(StorageError):
    """The data directory belongs to another broker, or its owner is unknown."""


class DiskFullError(StorageError):
    """There is no space: the append changed nothing and may be repeated.

    Kafka has no error code for a full disk. With NOT_ENOUGH_REPLICAS every client retries after a
    while, without looking for another leader, and knows that nothing was stored.
    """

    kafka_error = "NOT_ENOUGH_REPLICAS"


class NoDescriptorError(DiskFullError):
    """The process, or the machine, has reached its limit of open files.

    As with a full disk, nothing has changed, the disk is not faulty, and the operation may be
    repeated. Consumers get this error, too, so it has a code with which every client retries.
    """

    kafka_error = "KAFKA_STORAGE_ERROR"


class DamagedLogError(StorageError):
    """Stored bytes are not the ones that were written. Found when a log is opened or read."""

    def __init__(
        self, message: str, *, file: str = "", offset: int | None = None, is_cut: bool = False
    ) -> None:
        """`file` is a path in the data directory, empty if unknown. `offset` is the first offset
        that is damaged or uncertain, None if unknown.

        `is_cut`: the file is too short, but the bytes that it has are as they were written.
        """
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.is_cut = is_cut


class LogClosedError(StorageError):
    """The log was closed or its replica deleted."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class RecordsTruncatedError(StorageError):
    """The records were truncated, because another leader's records replaced them."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class OffsetOutOfRangeError(StorageError):
    """The offset is not between log start and log end."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


class OutOfOrderSequenceError(StorageError):
    """An idempotent producer skipped a sequence number, or repeated a very old one."""

    kafka_error = "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def __init__(self, message: str, expected: int) -> None:
        """`expected` is the sequence number that the log lacks."""
        super().__init__(message)
        self.expected = expected


class OvertakesRefusedError(StorageError):
    """A batch would be the first one of a producer, but an earlier batch of it was refused and may
    be sent again."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class InvalidProducerEpochError(StorageError):
    """A newer instance of this producer has written already."""

    kafka_error = "INVALID_PRODUCER_EPOCH"


class CoordinatorFencedError(StorageError):
    """A newer transaction coordinator has written a marker of this producer already."""

    kafka_error = "TRANSACTION_COORDINATOR_FENCED"


class InvalidTransactionStateError(StorageError):
    """A producer with an open transaction sent records that do not belong to it."""

    kafka_error = "INVALID_TXN_STATE"


class UnverifiedTransactionError(StorageError):
    """A batch would begin a transaction of its producer in this log, and it is not known whether
    the transaction coordinator knows of that."""

    kafka_error = "INVALID_TXN_STATE"


class FencedLeaderEpochError(StorageError):
    """An append with an older leader epoch than one in the log."""

    kafka_error = "FENCED_LEADER_EPOCH"


class UnexpectedOffsetError(StorageError):
    """Replicated batches do not begin at the log end offset.

    A follower with an empty log may get this for a batch that began before the leader's log start
    offset; it then starts over at `found_offset`.
    """

    kafka_error = "UNKNOWN_SERVER_ERROR"

    def __init__(self, message: str, found_offset: int) -> None:
        """`found_offset` is the first offset of the batch that does not continue the log."""
        super().__init__(message)
        self.found_offset = found_offset


class UnexpectedEpochError(StorageError):
    """Replicated batches have an older epoch than the log, or one that their leader never had.

    Offset and epoch are not covered by the checksum. A leader may also lose its leadership, and
    have its log truncated and rewritten, after it read the records of an answer and before it sent
    them.
    """

    kafka_error = "UNKNOWN_SERVER_ERROR"


class CompactionAbortedError(StorageError):
    """A pass cannot continue, because the log has changed. The next pass starts again."""


class InconsistentTopicIdError(StorageError):
    """The directory of this name belongs to another topic."""

    kafka_error = "INCONSISTENT_TOPIC_ID"
