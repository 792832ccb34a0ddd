"""Maps errors of a partition to the errors that a group's clients get."""

from typing import Final

from chiplog_broker.partitions.errors import PartitionError, Refusal, code_of
from chiplog_core.groups.codes import Code
from chiplog_wire.protocol.errors import ErrorCode


class GroupError(Exception):
    """A request about a group that cannot be carried out; carries Kafka's code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


# As in Kafka: with these codes a client finds the coordinator again, or retries here.
_GROUP_ERRORS: Final = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_request: ErrorCode.invalid_request,
    # Of a producer whose transactional id another one uses now: it must not retry.
    ErrorCode.invalid_producer_epoch: ErrorCode.invalid_producer_epoch,
}

_GROUP_CODES: Final = frozenset(map(int, Code))


def to_group_error(code: ErrorCode) -> ErrorCode:
    """The code that a group's client gets if an append to its partition fails with `code`.

    For codes that are not listed, clients retry: too few replicas, no space, a timeout.
    """
    return _GROUP_ERRORS.get(code, ErrorCode.coordinator_not_available)


def refusal_to_group_error(refusal: Refusal | PartitionError) -> ErrorCode:
    """The code that a group's client gets if an append to its partition was refused before it was
    written."""
    return to_group_error(code_of(refusal))


def group_code(code: ErrorCode) -> Code:
    """Convert an error code into a `Code` for answers to JoinGroup, SyncGroup and LeaveGroup.
    `UNKNOWN_SERVER_ERROR` stands for codes that only commits can have."""
    return Code(code) if code in _GROUP_CODES else Code.UNKNOWN_SERVER_ERROR
