"""The search for few moves that make loads even, step by step."""

from collections.abc import Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.even import Item, even_out


def item(weight: int, place: int, *options: int) -> Item:
    return Item(weight, BrokerId(place), tuple(map(BrokerId, options)))


def places(items: list[Item], base: Mapping[int, int], most: int = 100) -> tuple[int, ...]:
    loads = {BrokerId(place): load for place, load in base.items()}
    return even_out(items, loads, most=most)


def test_single_items_move_until_loads_are_even() -> None:
    items = [item(1, 1, 1, 2) for _ in range(4)]

    assert sorted(places(items, {1: 0, 2: 0})) == [1, 1, 2, 2]
    assert sorted(places(items, {1: 0, 2: 4})) == [1, 1, 1, 1]


def test_an_item_that_is_too_heavy_to_move_is_exchanged_for_a_lighter_one() -> None:
    items = [item(10, 1, 1, 2), item(6, 2, 2, 1)]

    assert places(items, {1: 4, 2: 0}) == (2, 1)
    assert places(items, {1: 4, 2: 0}, most=1) == (1, 2)


def test_a_place_that_no_item_of_the_fullest_can_reach_is_reached_by_a_chain() -> None:
    items = [item(2, 1, 1, 2), item(2, 1, 1, 2), item(2, 2, 2, 3)]

    assert places(items, {1: 0, 2: 0, 3: 0}) == (2, 1, 3)


def test_a_chain_that_would_only_turn_the_loads_round_is_left() -> None:
    items = [item(4, 1, 1, 2), item(1, 2, 2, 3)]

    assert places(items, {1: 0, 2: 0, 3: 0}) == (1, 2)


def test_a_move_that_a_later_one_made_needless_is_taken_back() -> None:
    items = [item(4, 1, 1, 2), item(1, 2, 2, 1), item(6, 2, 1, 2)]

    assert places(items, {1: 0, 2: 2}) == (2, 2, 1)


def test_items_that_may_go_nowhere_and_places_that_do_not_count_stay() -> None:
    assert places([item(5, 1), item(5, 1, 1), item(5, 9, 9, 1)], {1: 0, 2: 0}) == (1, 1, 9)
    assert places([item(5, 1, 1, 2)], {}) == (1,)
