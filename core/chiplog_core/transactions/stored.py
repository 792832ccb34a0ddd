"""A transactional id as it is stored in `__transaction_state`, with the fields of Kafka's
TransactionLogValue."""

from dataclasses import dataclass
from typing import Final

from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Producer,
)
from chiplog_core.transactions.states import TransactionState

NO_TIMESTAMP_MS: Final = -1
"""No transaction has started."""

FIRST_GENERATION: Final = 0
"""`client_transaction_version` of clients that add partitions and initialise by requests of their
own."""
SECOND_GENERATION: Final = 2
"""`client_transaction_version` of clients whose epoch every EndTxn raises (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransaction:
    """The last state of a transactional id. The id itself is the key of its record."""

    producer_id: int
    """The id of its producer. While markers are written, they have this id."""
    producer_epoch: int
    """The epoch of its producer. While markers are written, they have this epoch."""
    previous_producer_id: int = NO_PRODUCER_ID
    """Tag 0 of the record. The id that `previous` has, or -1 if there is none.

    Kafka writes into every record the id of the record before, and remembers the epoch before in
    memory only. Here the field says whether a retry with the identity before is answered."""
    next_producer_id: int = NO_PRODUCER_ID
    """Tag 1 of the record. While markers are written: the id with which the producer continues, if
    the epochs of the present one are used up; else -1."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """Tag 3 of the record: the epoch that belongs to `next_producer_id`. -1, which this coordinator
    always writes, means 0."""
    client_transaction_version: int = FIRST_GENERATION
    """Tag 2 of the record: the generation of the protocol by which the transaction was begun or
    ended. A transaction that the coordinator aborts by itself ends by the second."""
    transaction_timeout_ms: int
    """The client's `transaction.timeout.ms`."""
    state: TransactionState
    partitions: frozenset[At] = frozenset()
    """The partitions of the transaction. Null in the record of an id in state Empty."""
    last_update_timestamp_ms: int
    """When the state was last changed, in milliseconds since 1970."""
    start_timestamp_ms: int = NO_TIMESTAMP_MS
    """When the last transaction got its first partition, in milliseconds since 1970; -1 if there
    was none since the producer initialised."""

    @property
    def producer(self) -> Producer:
        """Its producer, as clients know it unless markers are being written."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def previous(self) -> Producer | None:
        """The identity that this producer had before its last EndTxn or InitProducerId, if that
        request may be repeated because its answer was lost (KIP-360, KIP-890). None if another
        producer would be let in by that."""
        if self.previous_producer_id == NO_PRODUCER_ID:
            return None
        if self.previous_producer_id == self.producer_id:
            return Producer(self.producer_id, self.producer_epoch - 1)
        return Producer(self.previous_producer_id, LAST_EPOCH)
