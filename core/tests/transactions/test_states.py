"""The table of states."""

import pytest

from chiplog_core.transactions.states import (
    STATUS_NUMBERS,
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    after,
)


def test_what_the_table_does_not_list_cannot_happen() -> None:
    with pytest.raises(AssertionError, match="in Empty it cannot happen that the producer commits"):
        after(TransactionState.EMPTY, TransactionEvent.COMMITTED)


def test_every_state_can_be_reached_and_left_but_for_the_last() -> None:
    reached = {state for (before, _), state in TRANSITIONS.items() if before is not state}
    left = {before for (before, _), state in TRANSITIONS.items() if before is not state}

    assert reached == left | {TransactionState.DEAD}
    assert set(TransactionState) - reached == {TransactionState.PREPARE_EPOCH_FENCE}


def test_every_state_has_a_number_of_its_own() -> None:
    assert set(STATUS_NUMBERS) == set(TransactionState)
    assert sorted(STATUS_NUMBERS.values()) == list(range(8))
