"""The table of a transaction's states and transitions.

A transactional id changes its state only by this table; an event that it does not list for a state
cannot happen in it. The picture in docs/transactions.md is generated from it.

Two differences to the table of Apache Kafka's coordinator: `PrepareEpochFence` has no transitions,
because here the fence of a producer and the abort of its transaction are one record; and only
transactions of the second generation (KIP-890) abort what was never begun.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TransactionState(StrEnum):
    """The states of a transactional id, in Kafka's words."""

    EMPTY = "Empty"
    """Its producer has an epoch and no transaction."""
    ONGOING = "Ongoing"
    """Partitions have been added to its transaction."""
    PREPARE_COMMIT = "PrepareCommit"
    """Its transaction is committed; the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """Its transaction is aborted; the markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """The markers of its last transaction, which was committed, are written."""
    COMPLETE_ABORT = "CompleteAbort"
    """The markers of its last transaction, which was aborted, are written."""
    DEAD = "Dead"
    """It has expired and is forgotten."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """Never reached: only a name that Kafka's tools may ask for."""


STATUS_NUMBERS: Final[Mapping[TransactionState, int]] = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
    TransactionState.DEAD: 6,
    TransactionState.PREPARE_EPOCH_FENCE: 7,
}
"""The field TransactionStatus of Kafka's TransactionLogValue, by state."""

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
_DEAD = TransactionState.DEAD

AT_REST: Final = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""The states without a transaction that is not complete."""

PREPARED: Final = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
"""The states in which markers are being written."""


class TransactionEvent(StrEnum):
    """The events that change a transaction's state, with the texts of the picture in the docs."""

    INITIALIZED = "a producer initialises"
    ADDED = "partitions are added"
    COMMITTED = "the producer commits"
    ABORTED = "the producer aborts"
    ABORTED_NOTHING = "the producer aborts without a transaction (second generation)"
    FENCED = "another producer initialises"
    RESTARTED = "its producer initialises again"
    TIMED_OUT = "the transaction times out"
    WRITTEN = "all markers are written"
    EXPIRED = "the id has not been used for long"


TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (_EMPTY, TransactionEvent.INITIALIZED): _EMPTY,
    (_EMPTY, TransactionEvent.ADDED): _ONGOING,
    (_ONGOING, TransactionEvent.ADDED): _ONGOING,
    (_ONGOING, TransactionEvent.COMMITTED): _PREPARE_COMMIT,
    (_ONGOING, TransactionEvent.ABORTED): _PREPARE_ABORT,
    (_ONGOING, TransactionEvent.FENCED): _PREPARE_ABORT,
    (_ONGOING, TransactionEvent.RESTARTED): _PREPARE_ABORT,
    (_ONGOING, TransactionEvent.TIMED_OUT): _PREPARE_ABORT,
    (_PREPARE_COMMIT, TransactionEvent.WRITTEN): _COMPLETE_COMMIT,
    (_PREPARE_ABORT, TransactionEvent.WRITTEN): _COMPLETE_ABORT,
    (_EMPTY, TransactionEvent.ABORTED_NOTHING): _PREPARE_ABORT,
    (_COMPLETE_COMMIT, TransactionEvent.ABORTED_NOTHING): _PREPARE_ABORT,
    (_COMPLETE_ABORT, TransactionEvent.ABORTED_NOTHING): _PREPARE_ABORT,
    (_COMPLETE_COMMIT, TransactionEvent.INITIALIZED): _EMPTY,
    (_COMPLETE_ABORT, TransactionEvent.INITIALIZED): _EMPTY,
    (_COMPLETE_COMMIT, TransactionEvent.ADDED): _ONGOING,
    (_COMPLETE_ABORT, TransactionEvent.ADDED): _ONGOING,
    (_EMPTY, TransactionEvent.EXPIRED): _DEAD,
    (_COMPLETE_COMMIT, TransactionEvent.EXPIRED): _DEAD,
    (_COMPLETE_ABORT, TransactionEvent.EXPIRED): _DEAD,
}


def after(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """The state after the event. Raises `AssertionError` for an event that cannot happen in
    `state`."""
    assert (state, event) in TRANSITIONS, f"in {state} it cannot happen that {event}"
    return TRANSITIONS[state, event]
