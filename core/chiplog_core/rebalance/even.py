"""When loads are even, and the search for few moves that make them so.

Every item has a weight, a place, and the places where it may be. A step moves one item to a less
loaded place, exchanges two items, or moves a chain of items one place on each. Of each broker the
best step is taken, from the most loaded broker on, until all loads are within the tolerance of
the even share or no step closes a gap any more. A step never raises the highest of the loads it
touches nor lowers the lowest, so the whole is never worse than before. At the end, moves that
turned out not to be needed are taken back.

With equal weights the result is optimal: loads are as even as the items' places allow whenever no
chain improves them (Harvey, Ladner, Lovász, Tamir: Semi-matchings for bipartite graphs, 2006).
With unequal weights the question is NP-hard and this is a search, not a proof.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chiplog_core.ids import BrokerId

TOLERANCE_PERCENT = 5
"""Loads this near to the even share are even; so are two loads that differ by less than it."""

MAX_CHAIN = 16
"""Items that one step moves."""

_NEARLY_ALL = 0.95
"""A step that moves more of a gap than this only turns it round."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something with a weight that is at a place and may be at others."""

    weight: int
    place: BrokerId
    options: tuple[BrokerId, ...]
    """Where it may be, the best liked first."""


def is_even(loads: Mapping[BrokerId, int]) -> bool:
    """Whether all loads are within the tolerance of the mean."""
    return _are_near(loads.values(), sum(loads.values()), len(loads))


def deviation_percent(loads: Mapping[BrokerId, int]) -> float:
    """How far the worst load is from the mean, in percent of the mean."""
    total = sum(loads.values())
    if not total:
        return 0.0
    return max(abs(load * len(loads) - total) for load in loads.values()) * 100 / total


def even_out(
    items: Sequence[Item], base: Mapping[BrokerId, int], *, most: int
) -> tuple[BrokerId, ...]:
    """The place of each item after at most `most` moves.

    `base` has every broker whose load counts, with its load beside the items. Items at other places
    stay there. No weight is 0.
    """
    board = _Board(items, base)
    before = dict(board.loads)
    # every step lowers the sum of squares, so the limit is never reached
    for _ in range(20 * len(items) + 1000):
        step = None if is_even(board.loads) else _find_step(board)
        if step is None or board.moved + len(step) > most:
            break
        for index, place in step:
            board.put(index, place)
    _take_back(board, before)
    return tuple(board.places)


class _Board:
    """Where all items are, and by pairs of places which could go from the one to the other."""

    def __init__(self, items: Sequence[Item], base: Mapping[BrokerId, int]) -> None:
        self.items = items
        self.places = [item.place for item in items]
        self.loads = dict(base)
        self.routes: dict[tuple[BrokerId, BrokerId], list[tuple[int, int, int]]] = {}
        self.moved = 0
        for index, item in enumerate(items):
            if item.place in self.loads:
                self.loads[item.place] += item.weight
                for route, entry in self._entries(index):
                    self.routes.setdefault(route, []).append(entry)
        for entries in self.routes.values():
            entries.sort()
        self.total = sum(self.loads.values())

    def put(self, index: int, place: BrokerId) -> None:
        """Move an item to a place."""
        item = self.items[index]
        for route, entry in self._entries(index):
            entries = self.routes[route]
            del entries[bisect_left(entries, entry)]
        self.moved += (place != item.place) - (self.places[index] != item.place)
        self.loads[self.places[index]] -= item.weight
        self.loads[place] += item.weight
        self.places[index] = place
        for route, entry in self._entries(index):
            insort(self.routes.setdefault(route, []), entry)

    def nearest(
        self, route: tuple[BrokerId, BrokerId], wanted: float
    ) -> tuple[tuple[int, int, int], ...]:
        """The entries (weight, rank, index) nearest to a weight on one route: one below, one not
        below."""
        entries = self.routes.get(route, [])
        at = bisect_left(entries, (wanted,))
        found = [entries[at]] if at < len(entries) else []
        if at > 0:  # of entries with that weight, the one with the lowest rank
            found.append(entries[bisect_left(entries, (entries[at - 1][0],))])
        return tuple(found)

    def gap(self, above: BrokerId, below: BrokerId) -> int:
        """How much higher the first load is; 0 if the two are even within the tolerance."""
        gap = self.loads[above] - self.loads[below]
        return gap if gap * len(self.loads) * 100 > TOLERANCE_PERCENT * self.total else 0

    def _entries(
        self, index: int
    ) -> Iterator[tuple[tuple[BrokerId, BrokerId], tuple[int, int, int]]]:
        """The routes that an item can take from its place, each with the item's entry."""
        item, place = self.items[index], self.places[index]
        for rank, option in enumerate(item.options):
            if option != place and option in self.loads:
                yield (place, option), (item.weight, rank, index)


Step = list[tuple[int, BrokerId]]
"""Items and where they go, at most one to and from each place."""


def _find_step(board: _Board) -> Step | None:
    """The next step: a move, else an exchange, else a chain; None if nothing improves."""
    by_load = sorted(board.loads, key=lambda place: (-board.loads[place], place))
    for find in (_move, _exchange, _chain):
        for above in by_load:
            below = [broker_id for broker_id in reversed(by_load) if board.gap(above, broker_id)]
            step = find(board, above, below)
            if step:
                return step
    return None


def _move(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """Move the item that closes most of a gap. The best one has half its weight."""
    best: tuple[int, int, int, BrokerId] | None = None
    for other in below:
        gap = board.gap(above, other)
        for weight, rank, index in board.nearest((above, other), gap / 2):
            if weight <= gap * _NEARLY_ALL:
                found = (-weight * (gap - weight), rank, index, other)
                best = found if best is None else min(best, found)
    return [(best[2], best[3])] if best else None


def _exchange(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """Exchange an item for a lighter one."""
    best: tuple[float, int, int, BrokerId] | None = None
    for other in below:
        gap = board.gap(above, other)
        for weight, _, index in _distinct(board.routes.get((above, other), [])):
            for back, _, other_index in board.nearest((other, above), weight - gap / 2):
                moved = weight - back
                if _closes(moved, gap):
                    found = (-moved * (gap - moved), index, other_index, other)
                    best = found if best is None else min(best, found)
    return [(best[1], best[3]), (best[2], above)] if best else None


def _chain(board: _Board, above: BrokerId, below: Sequence[BrokerId]) -> Step | None:
    """Move items along the shortest path to a less loaded place that no single item can reach."""
    came_from = _ways(board, above)
    for other in below:
        path = _path(came_from, above, other)
        if 2 < len(path) <= MAX_CHAIN + 1:
            step = _along(board, path, board.gap(above, other))
            if step:
                return step
    return None


def _along(board: _Board, path: Sequence[BrokerId], gap: int) -> Step | None:
    """The moves along a path, if they improve the loads."""
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
    is_better = max(after.values()) <= max(before) and min(after.values()) >= min(before)
    closes = _closes(board.loads[path[0]] - after[path[0]], gap) and _closes(
        after[path[-1]] - board.loads[path[-1]], gap
    )
    is_calmer = sum(load**2 for load in after.values()) < sum(load**2 for load in before)
    return step if is_better and closes and is_calmer else None


def _take_back(board: _Board, before: Mapping[BrokerId, int]) -> None:
    """Undo moves without which the result is as good or better."""
    if not board.loads:
        return
    highest, lowest = max(before.values()), min(before.values())
    moved = [index for index, item in enumerate(board.items) if board.places[index] != item.place]
    for index in sorted(moved, key=lambda number: (board.items[number].weight, number)):
        item, place = board.items[index], board.places[index]
        now = (board.loads[place], board.loads[item.place])
        back = (now[0] - item.weight, now[1] + item.weight)
        is_no_worse = max(back) <= highest and min(back) >= lowest
        if is_even(board.loads):
            is_good = _are_near(back, board.total, len(board.loads))
        else:
            is_good = sum(load**2 for load in back) <= sum(load**2 for load in now)
        if is_good and is_no_worse:
            board.put(index, item.place)


def _ways(board: _Board, start: BrokerId) -> dict[BrokerId, BrokerId]:
    """Breadth-first search: for each place that items can reach, the place before it on the
    path."""
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


def _distinct(entries: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The first entry of each weight."""
    at = 0
    while at < len(entries):
        yield entries[at]
        at = bisect_left(entries, (entries[at][0] + 1,))


def _closes(moved: int, gap: int) -> bool:
    """Whether a step closes enough of the gap. One with several items must close at least a
    tenth."""
    return gap <= 10 * moved <= 9 * gap


def _are_near(loads: Iterable[int], total: int, count: int) -> bool:
    """Whether every load is within the tolerance of the mean."""
    return all(abs(load * count - total) * 100 <= TOLERANCE_PERCENT * total for load in loads)
