"""InitProducerId: a transactional id gets a producer, and the producer before is fenced.

Unlike Kafka's, this coordinator does not let a late request with an old epoch abort the present
transaction of its producer; and it also recognises a repeated request after it has moved, because
the record says whether there is an identity before (`StoredTransaction.previous`).
"""

from dataclasses import replace

from chiplog_core.transactions.answers import Answer, Decision, Present, refused
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import prepared
from chiplog_core.transactions.producer import (
    NO_PRODUCER_ID,
    NewProducerId,
    Producer,
)
from chiplog_core.transactions.requests import Init
from chiplog_core.transactions.states import TransactionEvent, TransactionState, after
from chiplog_core.transactions.stored import (
    NO_TIMESTAMP_MS,
    SECOND_GENERATION,
    StoredTransaction,
)


def init(
    present: Present,
    request: Init,
    max_timeout_ms: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """Give the transactional id a producer, with an epoch that no other producer has.

    An open transaction is aborted first: the answer is CONCURRENT_TRANSACTIONS, and the client asks
    again. `max_timeout_ms` is `transaction.max.timeout.ms`. COORDINATOR_LOAD_IN_PROGRESS if a new
    producer id is needed and none can be drawn.
    """
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        return refused(Code.INVALID_TRANSACTION_TIMEOUT)
    if present.is_busy:
        return refused(Code.CONCURRENT_TRANSACTIONS)
    stored = present.stored
    if stored is None:
        # Its records have expired. No other producer can have used the id meanwhile.
        return _first(request, new_producer_id, now_ms)
    if stored.state is TransactionState.ONGOING:
        return _fence(stored, request, new_producer_id, now_ms)
    if request.producer is not None and request.producer == stored.previous:
        return _give(stored, request, stored.producer, stored.previous_producer_id, now_ms)
    return _raise(stored, request, new_producer_id, now_ms)


def _first(request: Init, new_producer_id: NewProducerId, now_ms: int) -> Decision:
    """The first producer of a transactional id."""
    drawn = new_producer_id()
    if drawn is None:
        return refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
    record = StoredTransaction(
        producer_id=drawn,
        producer_epoch=0,
        transaction_timeout_ms=request.transaction_timeout_ms,
        state=TransactionState.EMPTY,
        last_update_timestamp_ms=now_ms,
    )
    return Decision(Answer(Code.NONE, record.producer), record)


def _fence(
    stored: StoredTransaction, request: Init, new_producer_id: NewProducerId, now_ms: int
) -> Decision:
    """Abort the open transaction. The abort itself raises the epoch, and nothing else does
    (kafka#19910)."""
    if request.producer not in (None, stored.producer):
        return refused(Code.PRODUCER_FENCED)
    is_new = request.producer is None
    event = TransactionEvent.FENCED if is_new else TransactionEvent.RESTARTED
    record = prepared(stored, event, SECOND_GENERATION, new_producer_id, now_ms)
    if record is None:
        return refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
    return Decision(Answer(Code.CONCURRENT_TRANSACTIONS), record)


def _raise(
    stored: StoredTransaction, request: Init, new_producer_id: NewProducerId, now_ms: int
) -> Decision:
    """Raise the epoch, or give out another producer id if there is none left. A producer that
    continues may repeat its request; a new one fences the one before for good."""
    if request.producer not in (None, stored.producer):
        return refused(Code.PRODUCER_FENCED)
    producer = Producer(stored.producer_id, stored.producer_epoch + 1)
    if stored.producer.is_exhausted:
        drawn = new_producer_id()
        if drawn is None:
            return refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
        producer = Producer(drawn, 0)
    previous_id = NO_PRODUCER_ID if request.producer is None else stored.producer_id
    return _give(stored, request, producer, previous_id, now_ms)


def _give(
    stored: StoredTransaction, request: Init, producer: Producer, previous_id: int, now_ms: int
) -> Decision:
    """Answer with this identity, and store it."""
    record = replace(
        stored,
        state=after(stored.state, TransactionEvent.INITIALIZED),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=previous_id,
        transaction_timeout_ms=request.transaction_timeout_ms,
        last_update_timestamp_ms=now_ms,
        start_timestamp_ms=NO_TIMESTAMP_MS,
    )
    return Decision(Answer(Code.NONE, producer), record)
