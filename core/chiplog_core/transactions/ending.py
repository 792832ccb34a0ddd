"""EndTxn, timeouts and fences: how a transaction ends.

It ends in two steps. The first record (PrepareCommit, PrepareAbort) decides it; then its markers
are written, by any coordinator that finds this record; the second (CompleteCommit, CompleteAbort)
says that all are. In the second generation (KIP-890) the first record raises the producer's epoch,
exactly once, and the markers have the raised epoch.
"""

from dataclasses import replace

from chiplog_core.transactions.answers import (
    Answer,
    Decision,
    Markers,
    Present,
    check_producer,
    refused,
)
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import (
    FENCING_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NewProducerId,
    Producer,
)
from chiplog_core.transactions.requests import End
from chiplog_core.transactions.states import (
    AT_REST,
    PREPARED,
    TransactionEvent,
    TransactionState,
    after,
)
from chiplog_core.transactions.stored import SECOND_GENERATION, StoredTransaction

_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
"""The states after a commit (True) and an abort."""
_INVALID = refused(Code.INVALID_TXN_STATE)
_FENCED = refused(Code.PRODUCER_FENCED)


def end(present: Present, request: End, new_producer_id: NewProducerId, now_ms: int) -> Decision:
    """Commit or abort the transaction.

    COORDINATOR_LOAD_IN_PROGRESS if it needs a new producer id and none can be drawn.
    """
    if present.is_busy:
        return refused(Code.CONCURRENT_TRANSACTIONS)
    stored = present.stored
    if stored is not None and _is_repeated(stored, request):
        return _repeated(stored, request)
    code = check_producer(stored, request.producer)
    if stored is None or code is not Code.NONE:
        return refused(code)
    event = _event(stored, request)
    if event is None:
        return _INVALID
    record = prepared(stored, event, request.transaction_version, new_producer_id, now_ms)
    if record is None:
        return refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
    return Decision(Answer(Code.NONE, continues_as(record)), record)


def _is_repeated(stored: StoredTransaction, request: End) -> bool:
    """Whether the request may be the one that ended the last transaction.

    In the second generation a client that has the answer has another epoch. In the first one the
    epoch stays the same, and a late request of one transaction may end the next one.
    """
    if request.transaction_version < SECOND_GENERATION:
        return stored.producer == request.producer and (
            stored.state is _COMPLETE[request.is_commit]
        )
    return stored.state in _COMPLETE.values() and stored.previous == request.producer


def _repeated(stored: StoredTransaction, request: End) -> Decision:
    """The answer to a request for which `_is_repeated`."""
    if stored.state is _COMPLETE[request.is_commit]:
        return Decision(Answer(Code.NONE, stored.producer), repeats=True)
    # A commit after an abort: a client repeats what it sent, so the coordinator has aborted the
    # transaction by itself. Unlike INVALID_TXN_STATE, applications recover from this (KAFKA-20785).
    return _FENCED if request.is_commit else _INVALID


def _event(stored: StoredTransaction, request: End) -> TransactionEvent | None:
    """What the request of the present producer does; None if it is not allowed in this state."""
    if stored.state is TransactionState.ONGOING:
        return TransactionEvent.COMMITTED if request.is_commit else TransactionEvent.ABORTED
    # In the second generation a client does not know whether its Produce added a partition. Its
    # epoch must be raised before a late one does.
    may_abort_nothing = request.transaction_version >= SECOND_GENERATION
    return TransactionEvent.ABORTED_NOTHING if may_abort_nothing and not request.is_commit else None


def prepared(
    stored: StoredTransaction,
    event: TransactionEvent,
    transaction_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> StoredTransaction | None:
    """The record by which a transaction is decided. None if a new producer id is needed and cannot
    be drawn now.

    In the second generation a producer with its last epoch gets a new id, whatever ends the
    transaction (kafka#21506); the markers then have `FENCING_EPOCH`. The producer may repeat its
    request, unless another one has initialised.
    """
    epoch, next_id = stored.producer_epoch, NO_PRODUCER_ID
    if transaction_version >= SECOND_GENERATION:
        if stored.producer.is_exhausted:
            drawn = new_producer_id()
            if drawn is None:
                return None
            next_id = drawn
        epoch = min(epoch + 1, FENCING_EPOCH)
    has_begun = event is not TransactionEvent.ABORTED_NOTHING
    is_fenced = event is TransactionEvent.FENCED
    may_repeat = transaction_version >= SECOND_GENERATION and not is_fenced
    return replace(
        stored,
        state=after(stored.state, event),
        producer_epoch=epoch,
        previous_producer_id=stored.producer_id if may_repeat else NO_PRODUCER_ID,
        next_producer_id=next_id,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        client_transaction_version=transaction_version,
        last_update_timestamp_ms=now_ms,
        start_timestamp_ms=stored.start_timestamp_ms if has_begun else now_ms,
    )


def time_out(
    present: Present, new_producer_id: NewProducerId, now_ms: int, seen_open_ms: int = 0
) -> StoredTransaction | None:
    """The record that aborts a transaction which is open for longer than its timeout, and fences
    its producer. None if there is no such transaction, or while no new producer id can be drawn.
    `seen_open_ms` as for `is_timed_out`."""
    stored = present.stored
    if present.is_busy or stored is None or not is_timed_out(stored, now_ms, seen_open_ms):
        return None
    event = TransactionEvent.TIMED_OUT
    return prepared(stored, event, SECOND_GENERATION, new_producer_id, now_ms)


def is_timed_out(stored: StoredTransaction, now_ms: int, seen_open_ms: int = 0) -> bool:
    """Whether a transaction is open for longer than its timeout.

    `now_ms` is in milliseconds since 1970, like the stored times. `seen_open_ms` is the time for
    which the coordinator has seen it open, by a monotonic clock: it counts if the clock was set
    back since the transaction began, or if that of the coordinator before was ahead.
    """
    open_ms = max(now_ms - stored.start_timestamp_ms, seen_open_ms)
    return stored.state is TransactionState.ONGOING and stored.transaction_timeout_ms < open_ms


def markers(stored: StoredTransaction) -> Markers:
    """The markers to write for a stored record in state PrepareCommit or PrepareAbort, also for one
    that another coordinator has stored. If there are no partitions, it is complete."""
    assert stored.state in PREPARED, f"no markers in {stored.state}"
    return Markers(
        producer=stored.producer,
        is_commit=stored.state is TransactionState.PREPARE_COMMIT,
        transaction_version=stored.client_transaction_version,
        partitions=stored.partitions,
    )


def completed(stored: StoredTransaction, now_ms: int) -> StoredTransaction:
    """The record to store when all markers are written."""
    state = after(stored.state, TransactionEvent.WRITTEN)
    producer = continues_as(stored)
    return replace(
        stored,
        state=state,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
        last_update_timestamp_ms=now_ms,
    )


def continues_as(stored: StoredTransaction) -> Producer:
    """The identity with which the producer of a decided transaction continues."""
    if stored.next_producer_id == NO_PRODUCER_ID:
        return stored.producer
    return Producer(stored.next_producer_id, max(stored.next_producer_epoch, 0))


def is_expired(present: Present, expiration_ms: int, now_ms: int) -> bool:
    """Whether an id is to be forgotten, by a tombstone: it has no open transaction, and was not
    used for `transactional.id.expiration.ms`."""
    stored = present.stored
    if present.is_busy or stored is None or stored.state not in AT_REST:
        return False
    assert after(stored.state, TransactionEvent.EXPIRED) is TransactionState.DEAD
    return stored.last_update_timestamp_ms + expiration_ms <= now_ms
