"""Large clusters for measuring how long a proposal takes."""

from dataclasses import dataclass
from random import Random

from tests.rebalance.worlds import World, brokers, name, partition, rated

REPLICAS = 3


@dataclass(frozen=True)
class Kind:
    """What a large cluster is like."""

    spread: float = 1.5
    """Sigma of the lognormal distribution of sizes and rates; 0 makes all equal."""
    racks: int = 3
    nodes: int = 0
    """Nodes on which the brokers are; 0 for one each."""
    added: int = 20
    """Brokers that have nothing yet."""

    def __str__(self) -> str:
        sizes = f"sizes of sigma {self.spread:g}" if self.spread else "equal sizes"
        racks = f"{self.racks} racks" if self.racks else "no racks"
        nodes = f", {self.nodes} nodes" if self.nodes else ""
        return f"{sizes}, {racks}{nodes}, {self.added} new brokers"


KINDS = (
    Kind(),
    Kind(added=0),
    Kind(added=100),
    Kind(spread=0, added=0),
    Kind(spread=0, added=100),
    Kind(spread=3, added=100),
    Kind(racks=0),
    Kind(racks=0, nodes=100),
    Kind(nodes=60, added=100),
)


def large_world(rng: Random, kind: Kind, count: int, partitions: int) -> World:
    """Partitions of three replicas on random brokers, each in a rack of its own if there are
    enough."""
    members = brokers(count, kind.racks, kind.nodes)
    old = members[: count - kind.added]
    by_rack: dict[str | None, list[int]] = {}
    for one in old:
        by_rack.setdefault(one.rack, []).append(one.broker_id)
    racks = list(by_rack.values())
    found, measured = [], {}
    for index in range(partitions):
        if len(racks) >= REPLICAS:
            replicas = [rng.choice(ids) for ids in rng.sample(racks, REPLICAS)]
        else:
            replicas = [int(one.broker_id) for one in rng.sample(old, REPLICAS)]
        topic = f"t{index // 100}"
        found.append(partition(index, replicas, topic=topic))
        size = int(rng.lognormvariate(20, kind.spread))
        measured[name(index, topic)] = rated(rng.lognormvariate(8, kind.spread), size)
    return World(members, tuple(found), measured)
