"""What a process does until it is in charge."""

from itertools import product

import pytest

from chiplog_core.operator_lease.acquiring import Move, Place, next_move


@pytest.mark.parametrize(("place", "is_held"), list(product(Place, [False, True])))
def test_it_begins_only_where_it_holds_the_lease_and_nobody_is_in_the_way(
    place: Place, is_held: bool
) -> None:
    begins = next_move(place, is_held=is_held) is Move.BEGIN
    assert begins is (place is Place.FREE and is_held)


@pytest.mark.parametrize("is_held", [False, True])
def test_whoever_is_in_the_way_decides(is_held: bool) -> None:
    assert next_move(Place.ASIDE, is_held=is_held) is Move.GIVE_BACK
    assert next_move(Place.FIRST, is_held=is_held) is Move.KEEP
    assert next_move(Place.UNKNOWN, is_held=is_held) is Move.WAIT
    assert next_move(Place.FREE, is_held=False) is Move.TAKE
