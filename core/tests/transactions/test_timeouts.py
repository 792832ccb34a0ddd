"""Transactions that are open for too long, and ids that nobody uses any more."""

import pytest

from chiplog_core.transactions.answers import Answer, Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.ending import is_expired, is_timed_out, markers
from chiplog_core.transactions.producer import FENCING_EPOCH, LAST_EPOCH, Producer
from chiplog_core.transactions.states import AT_REST, TransactionState
from chiplog_core.transactions.stored import FIRST_GENERATION
from tests.transactions.coordinator import FIRST_ID, TIMEOUT_MS, Coordinator, stored_with

WEEK_MS = 604_800_000
LAST = Producer(7, LAST_EPOCH)


def test_a_transaction_times_out_after_its_timeout() -> None:
    one = Coordinator()
    one.begun()
    one.now_ms += TIMEOUT_MS
    assert not one.time_out()
    one.now_ms += 1

    assert one.time_out()
    assert one.state is TransactionState.PREPARE_ABORT
    assert not one.time_out(), "its markers are being written"
    one.write_markers()
    assert not one.time_out()


def test_time_that_the_coordinator_has_seen_pass_counts_if_the_clock_was_set_back() -> None:
    stored = stored_with(LAST, TransactionState.ONGOING)
    began_ms = stored.start_timestamp_ms

    assert not is_timed_out(stored, began_ms - 5, TIMEOUT_MS)
    assert is_timed_out(stored, began_ms - 5, TIMEOUT_MS + 1)
    assert is_timed_out(stored, began_ms + TIMEOUT_MS + 1, 0)


def test_its_producer_of_the_second_generation_may_abort_and_continue() -> None:
    one = Coordinator()
    producer = one.begun()
    one.now_ms += TIMEOUT_MS + 1
    one.time_out()
    one.write_markers()

    # KAFKA-20785: after INVALID_TXN_STATE clients give up, and a good one only came too late.
    assert one.commit(producer) == Answer(Code.PRODUCER_FENCED)
    assert one.abort(producer) == Answer(Code.NONE, Producer(FIRST_ID, 1))


def test_its_producer_of_the_first_generation_is_fenced_until_it_initialises() -> None:
    one = Coordinator()
    producer = one.begun(FIRST_GENERATION)
    one.now_ms += TIMEOUT_MS + 1
    one.time_out()
    one.write_markers()
    fenced = Answer(Code.PRODUCER_FENCED)

    assert one.commit(producer, FIRST_GENERATION) == fenced
    assert one.abort(producer, FIRST_GENERATION) == fenced
    assert one.init(producer) == Answer(Code.NONE, Producer(FIRST_ID, 1))


def test_a_timeout_with_the_last_epoch_gives_the_producer_another_id() -> None:
    """kafka#21506: a transaction could stay open for ever."""
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))

    assert one.time_out()
    assert markers(one.stored).producer == Producer(7, FENCING_EPOCH)
    one.write_markers()
    assert one.commit(LAST) == Answer(Code.PRODUCER_FENCED)
    assert one.abort(LAST) == Answer(Code.NONE, Producer(FIRST_ID, 0))


def test_a_timeout_waits_for_a_new_id() -> None:
    one = Coordinator(stored_with(LAST, TransactionState.ONGOING))
    one.can_draw = False

    assert not one.time_out()
    one.can_draw = True
    assert one.time_out()


def test_a_timeout_waits_until_records_are_safe() -> None:
    one = Coordinator()
    stored = stored_with(LAST, TransactionState.ONGOING)
    one.present = Present(stored=stored, is_pending=True)

    assert not one.time_out()
    assert not Coordinator().time_out(), "nor is there anything to abort without a record"


@pytest.mark.parametrize("state", [*TransactionState][:6])
def test_an_id_at_rest_expires(state: TransactionState) -> None:
    stored = stored_with(LAST, state)
    last_ms = stored.last_update_timestamp_ms
    may_expire = state in AT_REST

    assert is_expired(Present(stored=stored), WEEK_MS, last_ms + WEEK_MS) is may_expire
    assert not is_expired(Present(stored=stored), WEEK_MS, last_ms + WEEK_MS - 1)
    pending = Present(stored=stored, is_pending=True)
    assert not is_expired(pending, WEEK_MS, last_ms + WEEK_MS)
    assert not is_expired(Present(stored=None), WEEK_MS, last_ms + WEEK_MS)
