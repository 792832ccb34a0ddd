"""Where brokers are: in a rack, and there on a node. Both are failure domains: all brokers of one
may fail at once. So the replicas of a partition are spread over racks first, then over nodes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from chiplog_core.ids import BrokerId


class Place(NamedTuple):
    """The rack and the node of a broker; None if it is not known. Brokers without a known rack
    count as one rack; a broker without a known node counts as alone on its node."""

    rack: str | None = None
    node: str | None = None


NOT_KNOWN = Place()


@dataclass(slots=True)
class Spread:
    """How many replicas of one partition are in each rack and on each node."""

    racks: Counter[str | None] = field(default_factory=Counter)
    nodes: Counter[str | None] = field(default_factory=Counter)

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Spread":
        """The spread of replicas at these places."""
        spread = cls()
        for place in places:
            spread.add(place)
        return spread

    def add(self, place: Place) -> None:
        """Count one more replica."""
        self.racks[place.rack] += 1
        if place.node is not None:
            self.nodes[place.node] += 1

    def crowding(self, place: Place) -> tuple[bool, int, int]:
        """How crowded the place is. The best one for one more replica has the lowest value: it is
        in a rack of its own if possible, else on a node of its own, else where the fewest are."""
        in_rack = self.racks[place.rack]
        return in_rack > 0, self.nodes[place.node], in_rack

    def excess(self, place: Place) -> tuple[bool, int, int]:
        """How little is lost with a replica at the place. The best one to remove has the highest
        value: others are in its rack, if possible on its node."""
        in_rack = self.racks[place.rack]
        return in_rack > 1, self.nodes[place.node], in_rack


class Level(IntEnum):
    """The kinds of failure domains, the widest first."""

    RACK = 0
    NODE = 1


class Domain(NamedTuple):
    """One failure domain."""

    level: Level
    name: str


Domains = Mapping[BrokerId, tuple[Domain, ...]]
"""The failure domains that each broker shares with others, or may."""


def domains_of(places: Mapping[BrokerId, Place]) -> dict[BrokerId, tuple[Domain, ...]]:
    """The known failure domains of each broker. A node with one broker is left out: the broker
    itself says the same."""
    on_node = Counter(place.node for place in places.values())
    return {
        broker_id: tuple(
            Domain(level, name)
            for level, name in (
                (Level.RACK, place.rack),
                (Level.NODE, place.node if on_node[place.node] > 1 else None),
            )
            if name is not None
        )
        for broker_id, place in places.items()
    }


def domains_of_others(
    domains: Domains, replicas: Sequence[BrokerId], leaving: BrokerId
) -> frozenset[Domain]:
    """The failure domains of a partition's replicas other than that of the broker `leaving`."""
    return frozenset(
        domain
        for broker_id in replicas
        if broker_id != leaving
        for domain in domains.get(broker_id, ())
    )


def closed_domains(
    domains: Domains, replicas: Sequence[BrokerId], leaving: BrokerId
) -> frozenset[Domain]:
    """The failure domains that the replica of the broker `leaving` may not move to: those of the
    other replicas. If it shares its rack with one of them already, it may move to any rack; the
    same holds for nodes."""
    of_others = domains_of_others(domains, replicas, leaving)
    shared = {domain.level for domain in domains.get(leaving, ()) if domain in of_others}
    if not shared:
        return of_others
    return frozenset(domain for domain in of_others if domain.level not in shared)
