"""Chooses the brokers of new partitions: striped over brokers, spread over racks and nodes, even in
load.

From one partition to the next, the first replica, which is the preferred leader, moves on by one
broker. The followers are on the brokers after it. After each round through all brokers the distance
(*shift*) to the first follower grows by one, so that the partitions of a failed broker are taken
over by all other brokers and not by its neighbour. A replica is placed in a rack with the fewest
replicas of its partition, and on a node with the fewest (`Spread.crowding`).

A topic begins at the broker with the lowest load, so that many topics with one partition are spread
as evenly as one topic with many. A topic that grows continues its own stripe.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Place, Spread

Placement = tuple[BrokerId, ...]
"""The brokers of one partition, the preferred leader first."""


@dataclass(slots=True)
class Load:
    """How many replicas each broker holds, and of how many partitions it is the preferred
    leader."""

    leaders: Counter[BrokerId] = field(default_factory=Counter)
    replicas: Counter[BrokerId] = field(default_factory=Counter)

    def add(self, placements: Iterable[Sequence[BrokerId]]) -> None:
        """Add partitions; each placement lists the brokers of one, the preferred leader first."""
        for placement in placements:
            self.leaders[placement[0]] += 1
            self.replicas.update(placement)

    def copy(self) -> "Load":
        """The same load, to be changed without changing this one."""
        return Load(self.leaders.copy(), self.replicas.copy())

    def move(self, before: Sequence[BrokerId], after: Sequence[BrokerId]) -> None:
        """Count a partition at its new brokers instead of its old ones."""
        self.leaders[before[0]] -= 1
        self.replicas.subtract(before)
        self.add((after,))


def place(
    places: Mapping[BrokerId, Place],
    *,
    existing: Sequence[Placement] = (),
    count: int,
    replicas: int,
    load: Load,
) -> tuple[Placement, ...]:
    """The brokers of `count` more partitions, each with this many `replicas`, of a topic that has
    the `existing` partitions.

    `places` has every broker that may be used, with its rack and node. The new partitions are
    added to `load`.
    """
    assert len(places) >= replicas, "fewer brokers than replicas"
    order = _alternating(places)
    start, shift = _stripe(order, existing, load)
    # Leaders follow each other in `order`; each round over all brokers shifts the followers by one.
    placed = tuple(
        _replicas_of(order, places, (start + index, shift + index // len(order)), replicas)
        for index in range(len(existing), len(existing) + count)
    )
    load.add(placed)
    return placed


def _alternating(places: Mapping[BrokerId, Place]) -> list[BrokerId]:
    """The brokers by id, ordered so that neighbours are in different racks and on different nodes
    as far as possible: the first broker of each rack, then the second of each, and so on; in a rack
    likewise the first broker of each node, then the second."""
    by_rack: dict[str, dict[str | BrokerId, list[BrokerId]]] = {}
    for broker_id in sorted(places):
        rack, node = places[broker_id]
        by_node = by_rack.setdefault(rack or "", {})
        by_node.setdefault(broker_id if node is None else node, []).append(broker_id)
    return _taking_turns([_taking_turns(by_node.values()) for by_node in by_rack.values()])


def _taking_turns(groups: Iterable[Sequence[BrokerId]]) -> list[BrokerId]:
    """The first of each group, then the second of each, and so on."""
    rounds = zip_longest(*groups)  # None where a group has no more brokers
    return [broker_id for one_round in rounds for broker_id in one_round if broker_id is not None]


def _stripe(
    order: Sequence[BrokerId], existing: Sequence[Placement], load: Load
) -> tuple[int, int]:
    """The stripe of a topic: the position of partition 0 in `order`, and its shift, which is the
    distance from the broker after the leader to the first follower.

    A topic that exists has its stripe from partition 0. A new one, or one whose first broker is not
    available, begins at the broker with the lowest load. The start may be negative: it is taken
    modulo the number of brokers.
    """
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
    # The shift grows with each round of leaders over all brokers, so that the partitions led by one
    # broker do not all have their followers on the same broker.
    return start - len(existing), load.leaders.total() // len(order)


def _replicas_of(
    order: Sequence[BrokerId],
    places: Mapping[BrokerId, Place],
    stripe: tuple[int, int],
    replicas: int,
) -> Placement:
    """The brokers of one partition, in as many racks as possible, and then on as many nodes.
    `stripe` is the position of the leader and the shift of the first follower, both modulo the
    number of brokers."""
    position, shift = stripe
    size = len(order)
    first = position % size
    # All other brokers, in the order in which they are preferred as followers.
    followers = [
        order[(first + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)
    ]
    replicas_chosen = [order[first]]
    spread = Spread.of([places[order[first]]])
    while len(replicas_chosen) < replicas:
        # A broker where the fewest replicas are; of equal ones, min returns the first.
        best = min(followers, key=lambda broker_id: spread.crowding(places[broker_id]))
        followers.remove(best)
        replicas_chosen.append(best)
        spread.add(places[best])
    return tuple(replicas_chosen)
