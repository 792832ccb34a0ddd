"""Finds few moves of weighted items between brokers (*places*) that make the places' loads even.

An item, like a leadership, has a weight, a present place and other places where it may be. A step
moves one item to a less loaded place, exchanges two items, or moves each item of a chain on to the
place of the next. The most loaded place is tried first, and its best step is made, until all loads
are within the tolerance of the mean or no step helps. A step never raises the highest of the loads
that it changes nor lowers the lowest, so the result is never worse than the start. At the end,
moves that turned out to be unnecessary are undone.

With equal weights the result is optimal: loads are as even as the items' places allow if no chain
improves them (Harvey, Ladner, Lovász, Tamir: Semi-matchings for bipartite graphs, 2006). With
unequal weights the problem is NP-hard, and this search finds a good solution, not always the best.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chiplog_core.ids import BrokerId

TOLERANCE_PERCENT = 5
"""A load is even if it differs from the mean by at most this percentage of the mean. Two loads are
even if they differ by at most that."""

MAX_CHAIN = 16
"""How many items one chain moves at most."""

_NEARLY_ALL = 0.95
"""A move of more than this part of the difference between two loads would only reverse it."""

Route = tuple[BrokerId, BrokerId]
"""From which place to which other place an item can move."""

Entry = tuple[int, int, int]
"""An item on a route: its weight, the rank of the target among its options, and its index."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something with a weight that is at one place and may be moved to others."""

    weight: int
    place: BrokerId
    options: tuple[BrokerId, ...]
    """The places where it may be, the preferred ones first."""


def is_even(loads: Mapping[BrokerId, int]) -> bool:
    """Whether all loads are within the tolerance of the mean."""
    return _are_within_tolerance(loads.values(), sum(loads.values()), len(loads))


def deviation_percent(loads: Mapping[BrokerId, int]) -> float:
    """How far the worst load is from the mean, in percent of the mean."""
    total = sum(loads.values())
    if not total:
        return 0.0
    return max(abs(load * len(loads) - total) for load in loads.values()) * 100 / total


def even_counts(total: int, brokers: int) -> tuple[int, int]:
    """The lowest and the highest number of replicas that are even, if `total` replicas are on so
    many brokers: within the tolerance of the mean, rounded outwards, as in Cruise Control."""
    return (
        total * (100 - TOLERANCE_PERCENT) // (100 * brokers),
        -(-total * (100 + TOLERANCE_PERCENT) // (100 * brokers)),
    )


def even_out(
    items: Sequence[Item], base: Mapping[BrokerId, int], *, most: int
) -> tuple[BrokerId, ...]:
    """The place of each item, in the order of `items`, after at most `most` moves.

    `base` has every broker whose load is to be even, with its load without the items. Items whose
    place is not one of these brokers stay there. No weight is 0.
    """
    board = _Board(items, base)
    before = dict(board.loads)
    # Every step lowers the sum of squared loads, so the search ends long before this limit.
    for _ in range(20 * len(items) + 1000):
        step = None if is_even(board.loads) else _find_step(board)
        if step is None or board.moved + len(step) > most:
            break
        for index, place in step:
            board.put(index, place)
    _undo_unnecessary_moves(board, before)
    return tuple(board.places)


class _Board:
    """The present place of each item, the loads, and for each route the items that can take it."""

    def __init__(self, items: Sequence[Item], base: Mapping[BrokerId, int]) -> None:
        """`base` has every broker whose load is to be even, with its load without the items."""
        self.items = items
        self.places = [item.place for item in items]
        self.loads = dict(base)
        self.routes: dict[Route, list[Entry]] = {}  # each list is sorted
        self.moved = 0  # how many items are not at their first place
        for index, item in enumerate(items):
            if item.place in self.loads:
                self.loads[item.place] += item.weight
                for route, entry in self._entries(index):
                    self.routes.setdefault(route, []).append(entry)
        for entries in self.routes.values():
            entries.sort()
        self.total = sum(self.loads.values())

    def put(self, index: int, place: BrokerId) -> None:
        """Move the item with this index to a place."""
        item = self.items[index]
        for route, entry in self._entries(index):
            entries = self.routes[route]
            del entries[bisect_left(entries, entry)]
        # An item counts as moved while it is not at its first place.
        self.moved += (place != item.place) - (self.places[index] != item.place)
        self.loads[self.places[index]] -= item.weight
        self.loads[place] += item.weight
        self.places[index] = place
        for route, entry in self._entries(index):
            insort(self.routes.setdefault(route, []), entry)

    def nearest(self, route: Route, wanted: float) -> tuple[Entry, ...]:
        """The items on a route whose weights are nearest to the `wanted` weight: the lightest that
        is not below it and the heaviest below it, as far as they exist. Of items with the same
        weight, that with the lowest rank."""
        entries = self.routes.get(route, [])
        position = bisect_left(entries, (wanted,))
        found = [entries[position]] if position < len(entries) else []
        if position > 0:
            weight_below = entries[position - 1][0]
            found.append(entries[bisect_left(entries, (weight_below,))])
        return tuple(found)

    @property
    def tolerated(self) -> int:
        """The largest difference of two loads that are even: `TOLERANCE_PERCENT` of the mean."""
        return TOLERANCE_PERCENT * self.total // (100 * len(self.loads))

    def gap(self, above: BrokerId, below: BrokerId) -> int:
        """How much higher the load of `above` is than that of `below`."""
        return self.loads[above] - self.loads[below]

    def _entries(self, index: int) -> Iterator[tuple[Route, Entry]]:
        """The routes that an item can take from its present place, each with the item's entry."""
        item, place = self.items[index], self.places[index]
        for rank, option in enumerate(item.options):
            if option != place and option in self.loads:
                yield (place, option), (item.weight, rank, index)


Step = list[tuple[int, BrokerId]]
"""Indexes of items with their new places; at most one item comes to and one leaves each place."""


def _find_step(board: _Board) -> Step | None:
    """The next step: a move, else an exchange, else a chain; None if none improves the loads."""
    lowest_first = sorted(board.loads, key=lambda place: (board.loads[place], -place))
    loads = [board.loads[place] for place in lowest_first]
    tolerated = board.tolerated
    for find in (_move, _exchange, _chain):
        for above in reversed(lowest_first):
            # Places with a noticeably lower load, the lowest first: the gap only shrinks.
            below = lowest_first[: bisect_left(loads, board.loads[above] - tolerated)]
            step = find(board, above, below)
            if step:
                return step
    return None


def _move(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """The move of one item from `above` to one of `below` that improves the loads most; None if
    none does. The ideal weight is half the difference of the loads: both are then equal."""
    best: tuple[int, int, int, BrokerId] | None = None
    for other in below:
        if not board.routes.get((above, other)):
            continue  # as for most places of a large cluster
        gap = board.gap(above, other)
        for weight, rank, index in board.nearest((above, other), gap / 2):
            if weight <= gap * _NEARLY_ALL:
                # weight * (gap - weight) is half of what the sum of squared loads loses.
                found = (-weight * (gap - weight), rank, index, other)
                best = found if best is None else min(best, found)
    return [(best[2], best[3])] if best else None


def _exchange(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """The exchange of an item at `above` for a lighter one at one of `below` that improves the
    loads most; None if none does."""
    best: tuple[float, int, int, BrokerId] | None = None
    for other in below:
        gap = board.gap(above, other)
        for weight, _, index in _first_of_each_weight(board.routes.get((above, other), [])):
            # Ideally the two weights differ by half the gap: the loads are then equal.
            for weight_back, _, other_index in board.nearest((other, above), weight - gap / 2):
                moved = weight - weight_back
                if _is_worthwhile(moved, gap):
                    found = (-moved * (gap - moved), index, other_index, other)
                    best = found if best is None else min(best, found)
    return [(best[1], best[3]), (best[2], above)] if best else None


def _chain(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """A chain of moves along the shortest path from `above` to one of `below`, for places that no
    single item can move to; None if no chain improves the loads."""
    came_from = _reachable(board, above)
    for other in below:
        path = _path(came_from, above, other)
        if 2 < len(path) <= MAX_CHAIN + 1:  # two places would be a single move
            step = _moves_along(board, path, board.gap(above, other))
            if step:
                return step
    return None


def _moves_along(board: _Board, path: Sequence[BrokerId], gap: int) -> Step | None:
    """One item's move from each place of a path to the next; None if they do not improve the loads.

    The first item has about half the `gap` between the ends, the others about the weight of the one
    before, so that the loads in between hardly change.
    """
    step: Step = []
    after = {place: board.loads[place] for place in path}
    wanted: float = gap / 2
    for start, end in pairwise(path):
        weight, _, index = min(
            board.nearest((start, end), wanted), key=lambda entry: (abs(entry[0] - wanted), entry)
        )
        step.append((index, end))
        after[start] -= weight
        after[end] += weight
        wanted = weight
    before = [board.loads[place] for place in path]
    # No load on the path may exceed the highest or the lowest of before.
    is_better = max(after.values()) <= max(before) and min(after.values()) >= min(before)
    are_ends_closer = _is_worthwhile(board.loads[path[0]] - after[path[0]], gap) and _is_worthwhile(
        after[path[-1]] - board.loads[path[-1]], gap
    )
    is_more_even = sum(load**2 for load in after.values()) < sum(load**2 for load in before)
    return step if is_better and are_ends_closer and is_more_even else None


def _undo_unnecessary_moves(board: _Board, before: Mapping[BrokerId, int]) -> None:
    """Move items back if the result is as good or better without their moves, the lightest first.

    `before` are the loads before all moves: no load may exceed their highest or lowest.
    """
    if not board.loads:
        return
    highest, lowest = max(before.values()), min(before.values())
    moved = [index for index, item in enumerate(board.items) if board.places[index] != item.place]
    for index in sorted(moved, key=lambda number: (board.items[number].weight, number)):
        item, place = board.items[index], board.places[index]
        # The loads of the item's present and first place: now, and after it was moved back.
        now = (board.loads[place], board.loads[item.place])
        back = (now[0] - item.weight, now[1] + item.weight)
        is_no_worse = max(back) <= highest and min(back) >= lowest
        if is_even(board.loads):
            is_good = _are_within_tolerance(back, board.total, len(board.loads))
        else:
            is_good = sum(load**2 for load in back) <= sum(load**2 for load in now)
        if is_good and is_no_worse:
            board.put(index, item.place)


def _reachable(board: _Board, start: BrokerId) -> dict[BrokerId, BrokerId]:
    """Breadth-first search from `start` along routes that have items: each place that is reached ->
    the place before it on the shortest path."""
    came_from: dict[BrokerId, BrokerId] = {}
    frontier = [start]
    while frontier:
        reached = []
        for place in frontier:
            for other in sorted(board.loads):
                if other != start and other not in came_from and board.routes.get((place, other)):
                    came_from[other] = place
                    reached.append(other)
        frontier = reached
    return came_from


def _path(
    came_from: Mapping[BrokerId, BrokerId], start: BrokerId, end: BrokerId
) -> tuple[BrokerId, ...]:
    """The path from start to end; empty if there is none."""
    if end not in came_from:
        return ()
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def _first_of_each_weight(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The first entry of each weight. The entries are sorted, so it has the lowest rank."""
    position = 0
    while position < len(entries):
        yield entries[position]
        position = bisect_left(entries, (entries[position][0] + 1,))


def _is_worthwhile(moved: int, gap: int) -> bool:
    """Whether moving this weight across the gap between two loads is worth a step of several items:
    from a tenth of the gap to nine tenths. More would only reverse the gap."""
    return gap <= 10 * moved <= 9 * gap


def _are_within_tolerance(loads: Iterable[int], total: int, count: int) -> bool:
    """Whether every load is within the tolerance of the mean, which is `total / count`."""
    return all(abs(load * count - total) * 100 <= TOLERANCE_PERCENT * total for load in loads)
