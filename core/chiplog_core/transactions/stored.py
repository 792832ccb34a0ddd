"""A transactional id as it is stored in `__transaction_state`, with the fields of Kafka's
TransactionLogValue."""

from dataclasses import dataclass

from chiplog_core.groups.at import At
from chiplog_core.transactions.states import TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP_MS = -1
"""No transaction has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransaction:
    """The last state of a transactional id. The id itself is the key of its record."""

    producer_id: int
    """The id of its producer, in the transaction that this record is about."""
    producer_epoch: int
    """The epoch of its producer, or, while markers are written, the epoch of the markers."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before, if this one was given out by the last EndTxn or InitProducerId because the
    epochs of that id were used up; else -1. Tag 0 of the record."""
    next_producer_id: int = NO_PRODUCER_ID
    """While markers are written: the id with which the producer continues, if it is another one;
    else -1. Tag 1 of the record."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """While markers are written: the epoch with which the producer continues, if that is not
    decided by `producer_epoch` and `next_producer_id`; else -1. Tag 3 of the record."""
    client_transaction_version: int = 0
    """The `transaction.version` of the client's last requests: 2 is the second generation of the
    protocol (KIP-890), 0 the first. Tag 2 of the record."""
    transaction_timeout_ms: int
    """The client's `transaction.timeout.ms`."""
    state: TransactionState
    partitions: frozenset[At] = frozenset()
    """The partitions of the transaction. Null in the record of an id in state Empty."""
    last_update_timestamp_ms: int
    """When the state was last changed, in milliseconds since 1970."""
    start_timestamp_ms: int = NO_TIMESTAMP_MS
    """When the transaction got its first partition, in milliseconds since 1970; -1 for none."""
