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
"""Errors that are normal in operation: the client finds the new leader or resets its offset. A
request with such an error does not count as failed in the metrics, as in Apache Kafka."""


class PartitionError(Exception):
    """A request for a partition that this broker cannot serve; carries Kafka's code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


def code_of(refusal: Refusal | PartitionError) -> ErrorCode:
    """The error code that a client gets for this refusal."""
    if isinstance(refusal, PartitionError):
        return refusal.code
    # `RecordsError` and `StorageError` carry the code's name in Kafka, in upper case.
    return ErrorCode[refusal.kafka_error.lower()]
