"""What an operator process does until it is active, as a table.

It checks for operators with other Leases that watch the same namespaces: before it takes its own
Lease, and again when it holds it. So two operators that start at the same time notice each other.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Place(Enum):
    """The position of an operator among operators with other Leases."""

    FREE = "free"
    """No other operator watches its namespaces."""
    FIRST = "first"
    """Another operator started at the same time and will give up: keep the Lease, but wait until
    then."""
    ASIDE = "aside"
    """Another operator has precedence, so this one must not become active."""
    UNKNOWN = "unknown"
    """A request about other operators failed for now: this one waits and asks again. Without the
    permission to list Leases the place is `FREE`."""


class Move(Enum):
    """The next action of the process."""

    BEGIN = "begin"
    """Become active."""
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
