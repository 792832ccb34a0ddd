"""The checkers of moves see each step that came too early, and nothing in a whole move."""

from itertools import pairwise
from typing import Any

import pytest

from e2e.sim.checkers.moves import CHECKERS, LATE_S
from e2e.sim.decisions import NO_ORDER
from e2e.sim.history import Decision, History, Leadership, Span
from e2e.sim.move_history import (
    Adopted,
    Deleted,
    GivenToLeaving,
    LeaderToGo,
    Released,
    StillThere,
    Unasked,
)

P = "orders-0/aa"
BEFORE = Leadership("1@1", 4, 7, isr=("1@1", "2@1"), min_isr=2, replicas=(1, 2))
BEGUN = BEFORE._replace(partition_epoch=8, replicas=(1, 3, 2), adding=(3,), removing=(2,))
JOINED = BEGUN._replace(partition_epoch=9, isr=("1@1", "3@1", "2@1"))
SWITCHED = JOINED._replace(
    leader_epoch=5,
    partition_epoch=10,
    isr=("1@1", "3@1"),
    replicas=(1, 3),
    adding=(),
    removing=(),
    leftovers=((2, NO_ORDER),),
)
RELEASED = SWITCHED._replace(partition_epoch=11, leftovers=((2, 11),))
OVER = RELEASED._replace(partition_epoch=12, leftovers=())
CANCELLED = BEFORE._replace(leader_epoch=5, partition_epoch=10, leftovers=((3, NO_ORDER),))


def moved(*entries: Leadership) -> History:
    """A history in which a partition had these entries, one after the other."""
    history = History()
    for number, (before, after) in enumerate(pairwise(entries)):
        history.decisions.append(Decision(float(number), P, before, after))
    return history


def names(history: History) -> set[str]:
    return {found.name for checker in CHECKERS for found in checker(history)}


def test_a_whole_move_and_a_cancelled_one() -> None:
    assert names(moved(BEFORE, BEGUN, JOINED, SWITCHED, RELEASED, OVER)) == set()
    assert names(moved(BEFORE, BEGUN, JOINED, CANCELLED)) == set()


@pytest.mark.parametrize(
    "entry",
    [
        {"leader": "9@1"},
        {"isr": ("1@1", "9@1")},
        {"isr": ("1@1", "1@2")},
        {"replicas": (1, 2, 2)},
        {"leftovers": ((2, NO_ORDER),)},
    ],
)
def test_an_entry_that_is_not_sound(entry: dict[str, Any]) -> None:
    assert names(moved(BEFORE, BEFORE._replace(**entry))) == {"broken-entry"}


def test_a_replica_that_goes_before_the_new_one_is_in_sync() -> None:
    early = SWITCHED._replace(isr=("1@1",))
    assert names(moved(BEGUN, early)) == {"switched-early"}
    assert names(moved(BEGUN._replace(is_asking=True), early)) == set()


def test_a_holder_that_is_forgotten() -> None:
    assert names(moved(JOINED, SWITCHED._replace(leftovers=()))) == {"holder-forgotten"}
    assert names(moved(SWITCHED, OVER)) == {"holder-forgotten"}
    history = moved(RELEASED, OVER)
    history.moves.forgotten.append(StillThere(1.0, 2, P))
    assert names(history) == {"holder-forgotten"}


def test_data_that_is_given_up_too_early() -> None:
    assert names(moved(SWITCHED, RELEASED._replace(isr=("1@1",)))) == {"released-early"}
    history = moved(SWITCHED, RELEASED)
    history.moves.released.append(Released(1.0, P, 3, known_epoch=5, leader_epoch=5))
    assert names(history) == set()
    history.moves.released.append(Released(1.0, P, 1, known_epoch=4, leader_epoch=5))
    assert names(history) == {"released-early"}


def test_data_that_is_deleted_too_early() -> None:
    history = History()
    history.moves.deletions.append(Deleted(1.0, 2, P, was_ordered=True, is_replica=False))
    assert names(history) == set()
    history.moves.deletions.append(Deleted(1.0, 2, P, was_ordered=False, is_replica=False))
    assert names(history) == {"deleted-early"}
    history.moves.deletions[:] = [Deleted(1.0, 2, P, was_ordered=True, is_replica=True)]
    assert names(history) == {"deleted-early"}


def test_what_a_leaving_broker_gets() -> None:
    history = History()
    history.moves.given_to_leaving.append(GivenToLeaving(1.0, 4, P, LATE_S))
    assert names(history) == set()
    history.moves.given_to_leaving.append(GivenToLeaving(9.0, 4, P, LATE_S + 1.0))
    assert names(history) == {"given-to-leaving"}


def test_a_leader_that_is_to_go() -> None:
    history = History()
    history.moves.leaders_to_go.append(LeaderToGo(1.0, P, "2@1", ("1@1",)))
    assert names(history) == {"leader-to-go"}


def test_an_old_move_that_is_resumed() -> None:
    history = History()
    history.moves.adopted.append(Adopted(1.0, P, (1, 3), (3, 1)))
    assert names(history) == set()
    history.moves.adopted.append(Adopted(2.0, P, (1, 2), (3, 1)))
    assert names(history) == {"old-move-back"}


def test_data_that_is_left_when_all_is_well() -> None:
    history = History()
    history.moves.leaked.append(StillThere(1.0, 2, P))
    assert names(history) == set()
    history.well.append(Span(0.0, 1.0, frozenset({P})))
    assert names(history) == {"leaked"}


@pytest.mark.parametrize(
    ("unasked", "found"),
    [
        (Unasked(3.0, 3, P), set()),
        (Unasked(1.0, 3, P), {"leaked"}),  # a map named it after that
        (Unasked(3.0, 2, P), {"leaked"}),
        (Unasked(3.0, 3, "orders-1/aa"), {"leaked"}),
    ],
)
def test_data_of_which_nobody_could_know_when_maps_were_lost(
    unasked: Unasked, found: set[str]
) -> None:
    """The last entry that names broker 3 is of 1 s."""
    history = moved(BEFORE, BEGUN, JOINED)
    history.moves.leaked.append(StillThere(9.0, 3, P))
    history.moves.unasked.append(unasked)
    history.well.append(Span(0.0, 1.0, frozenset({P})))
    assert names(history) == found
