"""AddPartitionsToTxn: partitions become part of a transaction, or are verified to be."""

from collections.abc import Mapping
from dataclasses import replace

from chiplog_core.groups.at import At
from chiplog_core.transactions.answers import Answer, Decision, Present, check_producer, refused
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import NO_PRODUCER_ID, Producer
from chiplog_core.transactions.requests import Add
from chiplog_core.transactions.states import PREPARED, TransactionEvent, TransactionState, after
from chiplog_core.transactions.stored import SECOND_GENERATION


def add(present: Present, request: Add, now_ms: int) -> Decision:
    """Add partitions to the transaction. The first ones begin it.

    The record comes before the answer, and the answer before the first records of the partition:
    otherwise a partition could have records of a transaction whose markers it never gets.
    """
    if present.is_busy:
        return refused(Code.CONCURRENT_TRANSACTIONS)
    code = check_producer(present.stored, request.producer)
    if present.stored is None or code is not Code.NONE:
        return refused(code)
    stored = present.stored
    is_ongoing = stored.state is TransactionState.ONGOING
    if request.partitions <= stored.partitions and (is_ongoing or not request.partitions):
        # In the second generation an answer that is too old does no harm: the partition has a
        # marker with a higher epoch, and refuses the records.
        is_first = request.transaction_version < SECOND_GENERATION
        return Decision(Answer(Code.NONE), repeats=is_first)
    record = replace(
        stored,
        state=after(stored.state, TransactionEvent.ADDED),
        # A producer that adds partitions has its identity: nothing is to be repeated.
        previous_producer_id=NO_PRODUCER_ID,
        client_transaction_version=request.transaction_version,
        partitions=stored.partitions | request.partitions,
        last_update_timestamp_ms=now_ms,
        start_timestamp_ms=stored.start_timestamp_ms if is_ongoing else now_ms,
    )
    return Decision(Answer(Code.NONE), record)


def verify(present: Present, producer: Producer, partitions: frozenset[At]) -> Mapping[At, Code]:
    """For each partition, whether it is part of the producer's open transaction
    (TRANSACTION_ABORTABLE if not), for its leader before a first append (KIP-890).

    Partitions that are being added by a pending record do not make others wait, because clients
    would send them again out of order (kafka#13579).
    """
    stored = present.stored
    code = check_producer(stored, producer)
    if stored is None or code is not Code.NONE:
        return dict.fromkeys(partitions, code)
    if stored.state in PREPARED:
        return dict.fromkeys(partitions, Code.CONCURRENT_TRANSACTIONS)
    return {
        at: Code.NONE if at in stored.partitions else Code.TRANSACTION_ABORTABLE
        for at in partitions
    }
