"""What clients get if the coordinator refuses a transaction that their records or offsets belong
to.

As in Kafka: a reason that passes becomes a code after which every client sends the same request
again, without looking for another leader or group coordinator. The coordinator's own code cannot be
passed on: a producer expects no errors of a transaction coordinator in these responses.
"""

from typing import Final

from chiplog_wire.protocol.errors import ErrorCode

PRODUCE_ADDS_FROM_VERSION: Final = 12
"""From here on a Produce adds its partitions to the transaction; below, it is only verified."""
OFFSETS_ADD_FROM_VERSION: Final = 5
"""From here on a TxnOffsetCommit adds its group's partition to the transaction."""
PRODUCE_ABORTABLE_FROM_VERSION: Final = 11
"""From here on the client of a Produce knows TRANSACTION_ABORTABLE."""
OFFSETS_ABORTABLE_FROM_VERSION: Final = 4
"""From here on the client of a TxnOffsetCommit knows TRANSACTION_ABORTABLE."""

PASSING: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        # The coordinator's broker has not heard of a new topic yet; its leader here has.
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.operation_not_attempted,
    }
)
"""The coordinator may answer otherwise a moment later."""


def produce_code(code: ErrorCode, version: int) -> ErrorCode:
    """The code of a batch in a Produce of this version, by that of the coordinator."""
    if code is ErrorCode.concurrent_transactions and version >= PRODUCE_ADDS_FROM_VERSION:
        # Usual between two transactions, and its client sends the batch again.
        return code
    if code in PASSING:
        return ErrorCode.not_enough_replicas
    return _lasting(code, knows_abortable=version >= PRODUCE_ABORTABLE_FROM_VERSION)


def offsets_code(code: ErrorCode, version: int) -> ErrorCode:
    """The code of a TxnOffsetCommit of this version, by that of the coordinator."""
    if code in PASSING:
        return ErrorCode.coordinator_load_in_progress
    return _lasting(code, knows_abortable=version >= OFFSETS_ABORTABLE_FROM_VERSION)


def _lasting(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The code for a reason that stays."""
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch  # after it, a client may abort and continue
    if code is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    return code
