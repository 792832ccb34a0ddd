"""AddPartitionsToTxn, and whether partitions are part of a transaction."""

import pytest

from chiplog_core.transactions.adding import verify
from chiplog_core.transactions.answers import Answer, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import FIRST_GENERATION, SECOND_GENERATION
from tests.transactions.coordinator import BILLS, ORDERS, Coordinator, stored_with

DONE = Answer(Code.NONE)
PRODUCER = Producer(7, 3)


def test_the_first_partitions_begin_the_transaction() -> None:
    one = Coordinator()
    producer = one.producer()
    began_ms = one.now_ms

    assert one.add(producer, ORDERS, version=FIRST_GENERATION) == DONE
    one.now_ms += 5
    assert one.add(producer, BILLS, ORDERS, version=FIRST_GENERATION) == DONE
    assert one.state is TransactionState.ONGOING
    assert one.stored.partitions == {ORDERS, BILLS}
    assert one.stored.start_timestamp_ms == began_ms
    assert one.stored.last_update_timestamp_ms == began_ms + 5
    assert one.stored.client_transaction_version == FIRST_GENERATION


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_transaction_begins_later(is_commit: bool) -> None:
    one = Coordinator()
    one.ended(is_commit=is_commit)
    one.now_ms += 1_000

    assert one.add(one.stored.producer, BILLS) == DONE
    assert one.stored.partitions == {BILLS}
    assert one.stored.start_timestamp_ms == one.now_ms
    assert one.stored.client_transaction_version == SECOND_GENERATION


def test_what_is_there_already_is_not_stored_again() -> None:
    one = Coordinator(stored_with(PRODUCER, TransactionState.ONGOING))

    assert one.add(PRODUCER, ORDERS) == one.add(PRODUCER) == DONE
    assert not one.log


def test_no_partitions_begin_no_transaction() -> None:
    one = Coordinator(stored_with(PRODUCER))

    assert one.add(PRODUCER) == DONE
    assert one.state is TransactionState.EMPTY


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (Producer(8, 3), Code.INVALID_PRODUCER_ID_MAPPING),
        (Producer(7, 2), Code.PRODUCER_FENCED),
        (Producer(7, 4), Code.PRODUCER_FENCED),
    ],
)
def test_only_the_present_producer_may_add(producer: Producer, code: Code) -> None:
    one = Coordinator(stored_with(PRODUCER))

    assert one.add(producer, ORDERS) == Answer(code)
    assert verify(one.present, producer, frozenset({ORDERS})) == {ORDERS: code}


def test_an_id_that_is_not_known_has_no_producer() -> None:
    one, none = Coordinator(), Answer(Code.INVALID_PRODUCER_ID_MAPPING)

    assert one.add(PRODUCER, ORDERS) == one.commit(PRODUCER) == none
    assert one.abort(PRODUCER, version=FIRST_GENERATION) == none
    assert verify(one.present, PRODUCER, frozenset({ORDERS})) == {ORDERS: none.code}


def test_a_client_that_is_ahead_of_the_markers_waits() -> None:
    """kafka#18730: it has a new id by the answer to its EndTxn, and the record has the old one."""
    one = Coordinator()
    producer = one.begun()
    next_producer = one.commit(producer).producer
    wait = Answer(Code.CONCURRENT_TRANSACTIONS)

    assert one.add(next_producer, ORDERS) == one.add(Producer(99, 0), ORDERS) == wait
    one.write_markers()
    assert one.add(next_producer, ORDERS) == DONE


def test_while_a_record_is_not_safe_nothing_is_added() -> None:
    one = Coordinator(stored_with(PRODUCER))
    one.present = Present(stored=one.stored, is_pending=True)

    assert one.add(PRODUCER, ORDERS) == Answer(Code.CONCURRENT_TRANSACTIONS)


def test_a_partition_is_verified_by_what_is_stored() -> None:
    stored = stored_with(PRODUCER, TransactionState.ONGOING)
    for present in (Present(stored=stored), Present(stored=stored, is_pending=True)):
        assert verify(present, PRODUCER, frozenset({ORDERS, BILLS})) == {
            ORDERS: Code.NONE,
            BILLS: Code.TRANSACTION_ABORTABLE,
        }


def test_no_partition_is_verified_while_markers_are_written() -> None:
    one = Coordinator()
    one.commit(one.begun(FIRST_GENERATION), version=FIRST_GENERATION)

    assert verify(one.present, one.stored.producer, frozenset({ORDERS})) == {
        ORDERS: Code.CONCURRENT_TRANSACTIONS
    }
