"""InitProducerId: new producers, producers that continue, and the end of epochs."""

import pytest

from chiplog_core.transactions.answers import Answer, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import markers
from chiplog_core.transactions.producer import FENCING_EPOCH, LAST_EPOCH, Producer
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import FIRST_GENERATION
from tests.transactions.coordinator import (
    BILLS,
    FIRST_ID,
    MAX_TIMEOUT_MS,
    ORDERS,
    Coordinator,
    stored_with,
)

FIRST = Producer(FIRST_ID, 0)
LAST = Producer(7, LAST_EPOCH)
CONCURRENT = Answer(Code.CONCURRENT_TRANSACTIONS)
FENCED = Answer(Code.PRODUCER_FENCED)


def test_the_first_producer_gets_a_new_id() -> None:
    one = Coordinator()

    assert one.init(timeout_ms=5_000) == Answer(Code.NONE, FIRST)
    assert (one.state, one.stored.transaction_timeout_ms) == (TransactionState.EMPTY, 5_000)
    assert one.stored.previous is None


@pytest.mark.parametrize("timeout_ms", [-1, 0, MAX_TIMEOUT_MS + 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    one = Coordinator()

    assert one.init(timeout_ms=timeout_ms) == Answer(Code.INVALID_TRANSACTION_TIMEOUT)
    assert one.init(timeout_ms=MAX_TIMEOUT_MS).code is Code.NONE


def test_a_new_producer_fences_the_one_before() -> None:
    one = Coordinator()
    before = one.producer()

    assert one.init() == Answer(Code.NONE, Producer(FIRST_ID, 1))
    assert one.add(before, ORDERS) == FENCED
    assert one.init(before) == FENCED


def test_a_new_producer_has_an_open_transaction_aborted_first() -> None:
    one = Coordinator()
    before = one.begun()

    assert one.init() == CONCURRENT
    assert markers(one.stored).producer == Producer(FIRST_ID, 1)
    assert not markers(one.stored).is_commit
    assert one.init() == CONCURRENT, "the markers are not written"
    one.write_markers()

    # It is fenced although the new producer has not asked again yet.
    assert one.commit(before) == one.abort(before) == one.init(before) == FENCED
    assert one.init() == Answer(Code.NONE, Producer(FIRST_ID, 2))


def test_a_producer_that_continues_may_repeat_its_request() -> None:
    one = Coordinator()
    before = one.producer()
    again = Answer(Code.NONE, Producer(FIRST_ID, 1))

    assert one.init(before) == again
    assert one.init(before, timeout_ms=7_000) == again
    assert one.init(before) == again
    one.add(again.producer, ORDERS)
    one.commit(again.producer)
    one.write_markers()
    assert one.init(before) == FENCED, "nobody waits for this answer any more"


def test_a_producer_that_continues_has_its_epoch_raised_once() -> None:
    one = Coordinator()
    before = one.begun()

    assert one.init(before) == CONCURRENT
    one.write_markers()
    assert one.init(before) == Answer(Code.NONE, Producer(FIRST_ID, 1))
    assert (one.state, one.stored.partitions) == (TransactionState.EMPTY, frozenset())
    assert one.stored.start_timestamp_ms == -1


def test_a_producer_of_the_first_generation_continues_after_a_transaction() -> None:
    one = Coordinator()
    before = one.ended(is_commit=True, version=FIRST_GENERATION)

    assert one.init(before) == Answer(Code.NONE, Producer(FIRST_ID, 1))
    assert one.init(before) == Answer(Code.NONE, Producer(FIRST_ID, 1))


def test_a_producer_without_the_answer_to_its_end_continues() -> None:
    one = Coordinator()
    before = one.ended(is_commit=True)

    assert one.init(before) == Answer(Code.NONE, Producer(FIRST_ID, 1))


def test_a_late_request_does_not_abort_the_present_transaction() -> None:
    one = Coordinator()
    before = one.producer()
    producer = one.init(before).producer
    one.add(producer, ORDERS)

    assert one.init(before) == one.init(Producer(FIRST_ID + 5, 0)) == FENCED
    assert one.state is TransactionState.ONGOING


def test_another_identity_is_fenced() -> None:
    one = Coordinator(stored_with(Producer(7, 3)))

    assert one.init(Producer(8, 3)) == one.init(Producer(7, 2)) == one.init(Producer(7, 4))
    assert one.init(Producer(7, 2)) == FENCED
    assert not one.log


def test_a_producer_whose_id_has_expired_gets_another_id() -> None:
    one = Coordinator()

    assert one.init(Producer(7, 3)) == Answer(Code.NONE, FIRST)


def test_after_its_last_epoch_a_producer_gets_another_id() -> None:
    one = Coordinator(stored_with(LAST))

    assert one.init(LAST) == Answer(Code.NONE, FIRST)
    assert one.init(LAST) == Answer(Code.NONE, FIRST), "repeated"
    assert one.init(Producer(7, LAST_EPOCH - 1)) == FENCED


def test_a_new_producer_after_the_last_epoch_fences_the_one_before() -> None:
    one = Coordinator(stored_with(LAST))

    assert one.init() == Answer(Code.NONE, FIRST)
    assert one.init(LAST) == FENCED


def test_the_last_epoch_but_one_is_followed_by_the_last() -> None:
    one = Coordinator(stored_with(Producer(7, LAST_EPOCH - 1)))

    assert one.init() == Answer(Code.NONE, LAST)


@pytest.mark.parametrize("producer", [None, LAST])
def test_a_producer_with_its_last_epoch_can_be_fenced(producer: Producer | None) -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))

    assert one.init(producer) == CONCURRENT
    assert markers(one.stored).producer == Producer(7, FENCING_EPOCH)
    one.write_markers()
    assert one.stored.producer == FIRST
    expected = FIRST if producer else Producer(FIRST_ID, 1)
    assert one.init(producer) == Answer(Code.NONE, expected)


def test_without_a_new_id_the_client_must_ask_again() -> None:
    later = Answer(Code.COORDINATOR_LOAD_IN_PROGRESS)
    for stored in (None, stored_with(LAST), stored_with(LAST, TransactionState.ONGOING)):
        one = Coordinator(stored)
        one.can_draw = False

        assert one.init() == later
        assert not one.log


def test_while_a_record_is_not_safe_the_client_must_ask_again() -> None:
    for stored in (None, stored_with(Producer(7, 3))):
        one = Coordinator()
        one.present = Present(stored=stored, is_pending=True)

        assert one.init() == one.init(Producer(7, 3)) == CONCURRENT


def test_what_was_not_stored_is_decided_again_with_the_same_epoch() -> None:
    """kafka#8239: fences whose records could not be stored used up all epochs."""
    one = Coordinator(stored_with(Producer(7, 3), TransactionState.ONGOING))
    before = one.present
    for _ in range(3):
        one.present = before
        one.init()

        assert one.stored.producer == Producer(7, 4)


def test_partitions_of_the_last_transaction_are_gone() -> None:
    one = Coordinator()
    one.ended(is_commit=False)
    producer = one.init().producer
    one.add(producer, BILLS)

    assert one.stored.partitions == {BILLS}
