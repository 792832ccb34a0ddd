"""What a log can refuse, each under the name of the Kafka error it is answered with."""

from typing import ClassVar


class StorageError(Exception):
    """Base of all. `kafka_error` is the name of Kafka's error code."""

    kafka_error: ClassVar[str] = "KAFKA_STORAGE_ERROR"


class DirectoryOfflineError(StorageError):
    """The data directory failed; it accepts nothing more until the process is restarted."""


class WrongDirectoryError(StorageError):
    """The data directory belongs to another broker, or does not say to whom."""


class DiskFullError(StorageError):
    """No space: the append left the log exactly as it was and may be tried again.

    Kafka has no code for that. This one makes every client try again, after a while and without
    asking for another leader, and says that nothing was stored.
    """

    kafka_error = "NOT_ENOUGH_REPLICAS"


class NoDescriptorError(DiskFullError):
    """The process, or its machine, has as many files open as it may. As where there is no space,
    nothing has changed, the disk is not at fault, and it may be tried again.

    Consumers meet it too, so it has a code that makes every client try again.
    """

    kafka_error = "KAFKA_STORAGE_ERROR"


class DamagedLogError(StorageError):
    """Bytes that were durable are not what was written. Found by opening or by reading."""

    def __init__(
        self, message: str, *, file: str = "", offset: int | None = None, is_cut: bool = False
    ) -> None:
        """`file` is a path in the data directory, `offset` the first that cannot be trusted.

        `is_cut`: that file ends too early, and what there is of it is as it was written.
        """
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.is_cut = is_cut


class LogClosedError(StorageError):
    """The log was closed or its replica deleted."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class RecordsTruncatedError(StorageError):
    """The records waited for were cut off the log: another leader's took their place."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class OffsetOutOfRangeError(StorageError):
    """The offset is not between log start and log end."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


class OutOfOrderSequenceError(StorageError):
    """An idempotent producer skipped a sequence number, or sent a long-past one again."""

    kafka_error = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpochError(StorageError):
    """A newer instance of this producer has written already."""

    kafka_error = "INVALID_PRODUCER_EPOCH"


class FencedLeaderEpochError(StorageError):
    """An append under an epoch older than one in the log."""

    kafka_error = "FENCED_LEADER_EPOCH"


class UnexpectedOffsetError(StorageError):
    """Replicated batches that do not continue the log where it ends.

    A follower whose log is empty may get this for a batch that began before the leader's
    log start; it then starts over at `found_offset`.
    """

    kafka_error = "UNKNOWN_SERVER_ERROR"

    def __init__(self, message: str, found_offset: int) -> None:
        super().__init__(message)
        self.found_offset = found_offset


class UnexpectedEpochError(StorageError):
    """Replicated batches of an epoch that is over, or that the leader they come from never had.

    Offset and epoch lie outside the checksum, and a leader may have lost its leadership, and
    its log have been rewritten, between the reading of an answer and the sending of it.
    """

    kafka_error = "UNKNOWN_SERVER_ERROR"


class CompactionAbortedError(StorageError):
    """A pass cannot go on, as the log has changed under it. The next one begins anew."""


class InconsistentTopicIdError(StorageError):
    """The directory of this name belongs to another topic."""

    kafka_error = "INCONSISTENT_TOPIC_ID"
