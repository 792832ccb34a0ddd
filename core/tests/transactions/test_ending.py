"""EndTxn of both generations, markers, and the records around them."""

from dataclasses import replace

import pytest

from chiplog_core.transactions.answers import Answer, Markers, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import completed, markers
from chiplog_core.transactions.producer import FENCING_EPOCH, LAST_EPOCH, Producer
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import FIRST_GENERATION, SECOND_GENERATION
from tests.transactions.coordinator import (
    BILLS,
    FIRST_ID,
    ORDERS,
    Coordinator,
    stored_with,
)

WAIT = Answer(Code.CONCURRENT_TRANSACTIONS)
INVALID = Answer(Code.INVALID_TXN_STATE)
FENCED = Answer(Code.PRODUCER_FENCED)
PRODUCER = Producer(7, 3)
NEXT = Producer(7, 4)
LAST = Producer(7, LAST_EPOCH)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_second_generation_raises_the_epoch(is_commit: bool) -> None:
    one = Coordinator(stored_with(PRODUCER, TransactionState.ONGOING))
    one.add(PRODUCER, BILLS)
    end = one.commit if is_commit else one.abort

    assert end(PRODUCER) == Answer(Code.NONE, NEXT)
    assert markers(one.stored) == Markers(
        producer=NEXT,
        is_commit=is_commit,
        transaction_version=SECOND_GENERATION,
        partitions=frozenset({ORDERS, BILLS}),
    )
    assert end(PRODUCER) == end(NEXT) == WAIT, "until the markers are written"
    one.write_markers()
    assert one.stored.producer == NEXT
    assert end(PRODUCER) == Answer(Code.NONE, NEXT), "the answer was lost"


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_first_generation_keeps_the_epoch(is_commit: bool) -> None:
    one = Coordinator(stored_with(PRODUCER, TransactionState.ONGOING))
    end = one.commit if is_commit else one.abort

    assert end(PRODUCER, version=FIRST_GENERATION).code is Code.NONE
    assert markers(one.stored) == Markers(
        producer=PRODUCER,
        is_commit=is_commit,
        transaction_version=FIRST_GENERATION,
        partitions=frozenset({ORDERS}),
    )
    assert end(PRODUCER, version=FIRST_GENERATION) == WAIT
    one.write_markers()
    assert (one.stored.producer, one.stored.previous) == (PRODUCER, None)
    assert end(PRODUCER, version=FIRST_GENERATION).code is Code.NONE
    assert one.log[-1] is one.stored, "that was no new transaction"


def test_what_a_finished_transaction_leaves() -> None:
    one = Coordinator()
    one.begun()
    began_ms = one.now_ms
    one.now_ms += 10
    one.commit(one.stored.producer)
    one.now_ms += 10
    one.write_markers()

    assert one.state is TransactionState.COMPLETE_COMMIT
    assert one.stored.partitions == frozenset()
    assert one.stored.start_timestamp_ms == began_ms
    assert one.stored.last_update_timestamp_ms == began_ms + 20
    assert [record.last_update_timestamp_ms for record in one.log[-2:]] == [
        began_ms + 10,
        began_ms + 20,
    ]


# KIP-890's table: (the state, commit?, is the epoch the one before?) -> what is answered. NEXT
# stands for a transaction that is aborted by this request.
SECOND = {
    (TransactionState.EMPTY, False, True): FENCED,
    (TransactionState.EMPTY, True, True): FENCED,
    (TransactionState.EMPTY, True, False): INVALID,
    (TransactionState.COMPLETE_ABORT, True, True): FENCED,
    (TransactionState.COMPLETE_ABORT, True, False): INVALID,
    (TransactionState.COMPLETE_COMMIT, False, True): INVALID,
    (TransactionState.COMPLETE_COMMIT, True, False): INVALID,
}


@pytest.mark.parametrize(("state", "is_commit", "is_before"), SECOND)
def test_what_the_second_generation_may_not_do(
    state: TransactionState, is_commit: bool, is_before: bool
) -> None:
    one = Coordinator(replace(stored_with(NEXT, state), previous_producer_id=7))
    producer = PRODUCER if is_before else NEXT
    answer = one.commit(producer) if is_commit else one.abort(producer)

    assert answer == SECOND[state, is_commit, is_before]
    assert not one.log


@pytest.mark.parametrize(
    "state",
    [
        TransactionState.EMPTY,
        TransactionState.COMPLETE_ABORT,
        TransactionState.COMPLETE_COMMIT,
    ],
)
def test_the_second_generation_may_abort_nothing(state: TransactionState) -> None:
    one = Coordinator(stored_with(PRODUCER, state))

    assert one.abort(PRODUCER) == Answer(Code.NONE, NEXT)
    assert one.state is TransactionState.PREPARE_ABORT
    assert one.stored.start_timestamp_ms == one.now_ms
    assert markers(one.stored).partitions == frozenset()
    one.write_markers()
    assert one.add(PRODUCER, ORDERS) == FENCED, "a late Produce begins nothing"
    assert one.abort(PRODUCER) == Answer(Code.NONE, NEXT)


FIRST = {
    (TransactionState.EMPTY, True): Code.INVALID_TXN_STATE,
    (TransactionState.EMPTY, False): Code.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_COMMIT, True): Code.NONE,
    (TransactionState.COMPLETE_COMMIT, False): Code.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_ABORT, True): Code.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_ABORT, False): Code.NONE,
}


@pytest.mark.parametrize(("state", "is_commit"), FIRST)
def test_the_first_generation_without_an_open_transaction(
    state: TransactionState, is_commit: bool
) -> None:
    one = Coordinator(stored_with(PRODUCER, state))
    end = one.commit if is_commit else one.abort

    assert end(PRODUCER, version=FIRST_GENERATION).code is FIRST[state, is_commit]
    assert end(Producer(7, 2), version=FIRST_GENERATION) == FENCED
    assert not one.log


@pytest.mark.parametrize("version", [FIRST_GENERATION, SECOND_GENERATION])
def test_only_the_present_producer_ends_a_transaction(version: int) -> None:
    one = Coordinator(stored_with(PRODUCER, TransactionState.ONGOING))

    assert one.commit(Producer(7, 2), version) == one.commit(NEXT, version) == FENCED
    assert one.commit(Producer(8, 3), version) == Answer(Code.INVALID_PRODUCER_ID_MAPPING)
    assert one.state is TransactionState.ONGOING


@pytest.mark.parametrize("is_commit", [True, False])
def test_after_its_last_epoch_a_producer_continues_with_another_id(is_commit: bool) -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))
    end = one.commit if is_commit else one.abort
    other = Answer(Code.NONE, Producer(FIRST_ID, 0))

    assert end(LAST) == other
    assert markers(one.stored).producer == Producer(7, FENCING_EPOCH)
    assert one.add(other.producer, ORDERS) == WAIT
    one.write_markers()
    assert one.stored.producer == other.producer
    assert one.stored.next_producer_id == -1
    assert end(LAST) == other, "the answer was lost"
    assert one.init(LAST) == other
    assert end(Producer(7, LAST_EPOCH - 1)) == Answer(Code.INVALID_PRODUCER_ID_MAPPING)


def test_the_first_generation_ends_with_the_last_epoch() -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))

    assert one.commit(LAST, version=FIRST_GENERATION).code is Code.NONE
    one.write_markers()
    assert one.stored.producer == LAST


def test_without_a_new_id_the_transaction_stays_open() -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))
    one.can_draw = False

    assert one.commit(LAST) == Answer(Code.COORDINATOR_LOAD_IN_PROGRESS)
    assert not one.log


def test_a_fencing_epoch_does_not_overflow() -> None:
    """kafka#21469: nothing leads here, but a log may have it."""
    one = Coordinator(stored_with(Producer(7, FENCING_EPOCH), TransactionState.ONGOING))
    one.init()

    assert markers(one.stored).producer == Producer(7, FENCING_EPOCH)
    one.write_markers()
    assert one.stored.producer == Producer(FIRST_ID, 0)


def test_a_stored_epoch_of_the_next_id_counts() -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))
    one.commit(LAST)
    stored = replace(one.stored, next_producer_epoch=5)

    assert completed(stored, one.now_ms).producer == Producer(FIRST_ID, 5)


def test_while_a_record_is_not_safe_nothing_ends() -> None:
    one = Coordinator()
    stored = stored_with(PRODUCER, TransactionState.ONGOING)
    one.present = Present(stored=stored, is_pending=True)

    assert one.commit(PRODUCER) == one.abort(NEXT, version=FIRST_GENERATION) == WAIT


def test_only_a_decided_transaction_has_markers() -> None:
    with pytest.raises(AssertionError, match="no markers in Empty"):
        markers(stored_with(PRODUCER))
