"""The checkers of upkeep see each wrong step, and nothing in what is right."""

from e2e.sim.checkers.upkeep import CHECKERS
from e2e.sim.history import History
from e2e.sim.upkeep_history import (
    Held,
    LedWhileDrained,
    MovedOff,
    NotPlaced,
    OldProposal,
    Rebuilt,
)
from e2e.sim.upkeep_watch import place_of

P = "orders-more-1/aa"


def names(history: History) -> set[str]:
    return {found.name for checker in CHECKERS for found in checker(history)}


def test_a_throttled_member() -> None:
    history = History()
    assert names(history) == set()
    history.upkeep.held.append(Held(9.0, P, 2, 1, since_s=2.0, offset=7))
    assert names(history) == {"throttled-member"}


def test_a_partition_that_leaves_its_place() -> None:
    history = History()
    history.upkeep.moved_off.append(MovedOff(1.0, P, placed=(1, 2), target=(1, 3)))
    assert names(history) == {"moved-off"}


def test_a_partition_that_never_gets_to_its_place() -> None:
    history = History()
    history.upkeep.not_placed.append(NotPlaced(1.0, P, wanted=(1, 2), replicas=(1, 3)))
    assert names(history) == {"not-placed"}


def test_an_old_proposal() -> None:
    history = History()
    history.upkeep.old_proposals.append(OldProposal(9.0, P, "even-1", 2.0, (1, 3)))
    assert names(history) == {"old-proposal"}


def test_a_drained_leader() -> None:
    history = History()
    history.upkeep.led_while_drained.append(LedWhileDrained(30.0, P, 1, 5.0, ("2@1",)))
    assert names(history) == {"led-while-drained"}


def test_a_volume_that_goes_too_early() -> None:
    history = History()
    enough = Rebuilt(1.0, P, 3, committed_end=7, others=(("1@1", 6), ("2@1", 7)))
    history.upkeep.rebuilt.append(enough)
    assert names(history) == set()
    history.upkeep.rebuilt.append(enough._replace(others=(("1@1", 6),)))
    assert names(history) == {"rebuilt-early"}
    history.upkeep.rebuilt[:] = [enough._replace(others=())]
    assert names(history) == {"rebuilt-early"}


def test_the_place_in_a_label() -> None:
    assert place_of(P) == ("orders-more", 1)
