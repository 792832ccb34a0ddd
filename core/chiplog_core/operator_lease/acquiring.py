"""What a process does until it is active: a table.

Before it takes the Lease it checks for operators with other Leases, and once more when it holds it:
two that begin at the same time see each other then.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Place(Enum):
    """Where an operator stands among others."""

    FREE = "free"
    FIRST = "first"
    """Another one began at the same time, and goes: keep the Lease, and do nothing yet."""
    ASIDE = "aside"
    UNKNOWN = "unknown"
    """They could not be asked."""


class Move(Enum):
    """What to do next."""

    BEGIN = "begin"
    """This process is active."""
    TAKE = "take"
    """Try to take the Lease. If that succeeds, check again immediately; else wait."""
    KEEP = "keep"
    """Try to take or renew the Lease, then wait."""
    GIVE_BACK = "give back"
    """Give the Lease back if it is held, then wait."""
    WAIT = "wait"


_MOVES: Final[Mapping[tuple[Place, bool], Move]] = {
    # place, whether the Lease is held
    (Place.FREE, True): Move.BEGIN,
    (Place.FREE, False): Move.TAKE,
    (Place.FIRST, True): Move.KEEP,
    (Place.FIRST, False): Move.KEEP,
    (Place.ASIDE, True): Move.GIVE_BACK,
    (Place.ASIDE, False): Move.GIVE_BACK,
    (Place.UNKNOWN, True): Move.WAIT,
    (Place.UNKNOWN, False): Move.WAIT,
}


def next_move(place: Place, *, is_held: bool) -> Move:
    """What a process does next, by its place and whether it holds the Lease."""
    return _MOVES[place, is_held]
