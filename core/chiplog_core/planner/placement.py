"""Which brokers hold a new partition: striped over brokers, spread over racks, even in load.

Partition by partition the first replica, which is the preferred leader, goes one broker on. The
followers continue from there, and each time round all brokers the distance to the first follower
grows by one, so that the partitions of a broker that fails are taken over by all the others and
not by its neighbour. A replica goes to a rack with the fewest replicas of its partition.

A topic begins where the load is lowest, so that many topics of one partition spread as evenly as
one topic of many. A topic that grows continues its own stripe.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from chiplog_core.ids import BrokerId

Placement = tuple[BrokerId, ...]


@dataclass(slots=True)
class Load:
    """How many replicas brokers hold, and of how many they are the preferred leader."""

    leaders: Counter[BrokerId] = field(default_factory=Counter)
    replicas: Counter[BrokerId] = field(default_factory=Counter)

    def add(self, placements: Iterable[Sequence[BrokerId]]) -> None:
        for placement in placements:
            self.leaders[placement[0]] += 1
            self.replicas.update(placement)


def place(
    racks: Mapping[BrokerId, str | None],
    *,
    existing: Sequence[Placement] = (),
    count: int,
    replicas: int,
    load: Load,
) -> tuple[Placement, ...]:
    """The brokers of `count` more partitions of a topic that has the `existing` ones.

    `racks` are the brokers that may be used, at least as many as `replicas`. The load is increased
    by what is placed.
    """
    assert len(racks) >= replicas, "fewer brokers than replicas"
    order = _alternating(racks)
    start, shift = _stripe(order, existing, load)
    placed = tuple(
        _replicas_of(order, racks, (start + index, shift + index // len(order)), replicas)
        for index in range(len(existing), len(existing) + count)
    )
    load.add(placed)
    return placed


def _alternating(racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """The brokers by id, but with neighbours in different racks."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id] or "", []).append(broker_id)
    rounds = zip_longest(*by_rack.values())
    return [broker_id for in_turn in rounds for broker_id in in_turn if broker_id is not None]


def _stripe(
    order: Sequence[BrokerId], existing: Sequence[Placement], load: Load
) -> tuple[int, int]:
    """The position of the topic's partition 0 in the order, and the shift of its first follower."""
    if existing and existing[0][0] in order:
        first = existing[0]
        start = order.index(first[0])
        if len(first) < 2 or first[1] not in order:
            return start, 0
        return start, (order.index(first[1]) - start - 1) % len(order)
    start = min(
        range(len(order)),
        key=lambda index: (load.leaders[order[index]], load.replicas[order[index]], index),
    )
    return start - len(existing), load.leaders.total() // len(order)


def _replicas_of(
    order: Sequence[BrokerId],
    racks: Mapping[BrokerId, str | None],
    stripe: tuple[int, int],
    replicas: int,
) -> Placement:
    """The brokers of one partition, in as many racks as possible."""
    position, shift = stripe
    size = len(order)
    first = position % size
    followers = [
        order[(first + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)
    ]
    replicas_chosen = [order[first]]
    used = Counter([racks[order[first]]])
    while len(replicas_chosen) < replicas:
        # min returns the first of equal ones
        best = min(followers, key=lambda broker_id: used[racks[broker_id]])
        followers.remove(best)
        replicas_chosen.append(best)
        used[racks[best]] += 1
    return tuple(replicas_chosen)
