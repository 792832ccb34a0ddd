"""Maps errors of a partition of `__transaction_state` to those that a producer gets."""

from typing import Final

from chiplog_broker.partitions.errors import PartitionError, Refusal, code_of
from chiplog_core.transactions.codes import Code
from chiplog_wire.protocol.errors import ErrorCode


class TransactionError(Exception):
    """A request about a transactional id that cannot be carried out; carries Kafka's code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code


# As in Kafka: with NOT_COORDINATOR a producer finds the coordinator again.
_CODES: Final = {
    ErrorCode.not_leader_or_follower: Code.NOT_COORDINATOR,
    ErrorCode.kafka_storage_error: Code.NOT_COORDINATOR,
    ErrorCode.fenced_leader_epoch: Code.NOT_COORDINATOR,
    ErrorCode.message_too_large: Code.UNKNOWN_SERVER_ERROR,
    ErrorCode.record_list_too_large: Code.UNKNOWN_SERVER_ERROR,
    ErrorCode.invalid_request: Code.INVALID_REQUEST,
}


def refusal_to_code(refusal: Refusal | PartitionError) -> Code:
    """The code that a producer gets if the record of its transaction was refused.

    For codes that are not listed, producers retry: too few replicas, no space.
    """
    return _CODES.get(code_of(refusal), Code.COORDINATOR_NOT_AVAILABLE)
