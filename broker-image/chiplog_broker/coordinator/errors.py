"""From what a partition refuses to what a group's client is told."""

from typing import Final

from chiplog_broker.partitions.errors import PartitionError, Refusal, code_of
from chiplog_core.groups.codes import Code
from chiplog_wire.protocol.errors import ErrorCode


class GroupError(Exception):
    """A request about a group that cannot be carried out; carries Kafka's code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


# As Kafka translates them: a client looks for the coordinator again, or tries again here.
_TOLD: Final = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_request: ErrorCode.invalid_request,
}

_GROUP_CODES: Final = frozenset(map(int, Code))


def told(code: ErrorCode) -> ErrorCode:
    """What a group's client is told where its partition's records end with `code`.

    Of whatever is not listed it is told to try again: too few replicas, no room, no time left.
    """
    return _TOLD.get(code, ErrorCode.coordinator_not_available)


def told_of(refusal: Refusal | PartitionError) -> ErrorCode:
    """The same, for an append that was refused at once."""
    return told(code_of(refusal))


def group_code(code: ErrorCode) -> Code:
    """The same for members: what only commits can end with is an unknown error to them."""
    return Code(code) if code in _GROUP_CODES else Code.UNKNOWN_SERVER_ERROR
