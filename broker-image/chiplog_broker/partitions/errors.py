"""Maps the refusals of a replica to Kafka's error codes."""

from typing import Final

from chiplog_broker.storage.errors import StorageError
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.errors import RecordsError

Refusal = RecordsError | StorageError
REFUSALS = (RecordsError, StorageError)
ROUTINE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.stale_broker_epoch,
        ErrorCode.offset_out_of_range,
        ErrorCode.offset_not_available,
    }
)
"""What clients are answered in the ordinary course of things: they look elsewhere, or begin
elsewhere. It is not counted as failed, and in Apache Kafka neither."""


class PartitionError(Exception):
    """A request for a partition that this broker cannot serve; carries Kafka's code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


def code_of(refusal: Refusal | PartitionError) -> ErrorCode:
    """The error code that a client gets for this refusal."""
    if isinstance(refusal, PartitionError):
        return refusal.code
    return ErrorCode[refusal.kafka_error.lower()]
