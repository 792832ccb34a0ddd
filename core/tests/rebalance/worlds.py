"""Clusters as hypothesis draws them, and what tests ask of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import strategies as st

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import Broker, Measured, Partition, PartitionName
from chiplog_core.rebalance.replicas import ReplicaChange


@dataclass(frozen=True)
class World:
    """A cluster and what was measured of it."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]
    measurements: dict[PartitionName, Measured]

    @property
    def usable(self) -> list[BrokerId]:
        return [one.broker_id for one in self.brokers if one.is_usable]


def name(index: int, topic: str = "orders") -> PartitionName:
    return PartitionName(topic, PartitionIndex(index))


def partition(
    index: int,
    replicas: Sequence[int],
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    topic: str = "orders",
) -> Partition:
    """Led by its first replica and in sync, where nothing else is said."""
    return Partition(
        name=name(index, topic),
        replicas=tuple(BrokerId(one) for one in replicas),
        isr=tuple(BrokerId(one) for one in (replicas if isr is None else isr)),
        leader=BrokerId(replicas[0] if leader is None else leader),
        leader_epoch=LeaderEpoch(7),
    )


def brokers(count: int, racks: int = 0, nodes: int = 0) -> tuple[Broker, ...]:
    """Brokers that take turns in racks and on nodes, if there are any."""
    return tuple(
        Broker(
            broker_id=BrokerId(one + 1),
            rack=f"r{one % racks}" if racks else None,
            node=f"n{one % nodes}" if nodes else None,
        )
        for one in range(count)
    )


def rated(bytes_per_second: float, size: int = 0) -> Measured:
    return Measured(
        bytes=size, records=size // 100, bytes_per_second=bytes_per_second, records_per_second=1.0
    )


def executed(partitions: Sequence[Partition], moves: Sequence[LeaderMove]) -> list[Partition]:
    """What the map says when every move is done, checked as the planner would."""
    by_name = {one.name: one for one in moves}
    after = []
    for one in partitions:
        move = by_name.get(one.name)
        if move is None:
            after.append(one)
            continue
        assert move.to_broker in one.isr
        assert move.expected_replicas == one.replicas
        after.append(replace(one, replicas=move.replicas, leader=move.to_broker))
    return after


def moved(
    partitions: Sequence[Partition], changes: Sequence[ReplicaChange], usable: Sequence[BrokerId]
) -> list[Partition]:
    """What the map says when the replicas have moved, too, and preferred leaders lead."""
    by_name = {one.name: one for one in changes}
    after = []
    for one in partitions:
        change = by_name.get(one.name)
        if change is None:
            after.append(one)
            continue
        assert change.expected_replicas == one.replicas
        first = change.replicas[0]
        leader = first if first in usable or one.leader not in change.replicas else one.leader
        after.append(replace(one, replicas=change.replicas, isr=change.replicas, leader=leader))
    return after


def rates(
    partitions: Sequence[Partition],
    measurements: dict[PartitionName, Measured],
    ids: list[BrokerId],
) -> dict[BrokerId, int]:
    """What the leaders on each broker take, counted by itself."""
    found: Counter[BrokerId] = Counter()
    for one in partitions:
        if one.leader is not None and one.name in measurements:
            found[one.leader] += measurements[one.name].weight
    return {broker_id: found[broker_id] for broker_id in ids}


def counts(partitions: Sequence[Partition], ids: list[BrokerId]) -> dict[BrokerId, int]:
    found = Counter(one.leader for one in partitions)
    return {broker_id: found[broker_id] for broker_id in ids}


def best_spread(partitions: Sequence[Partition], ids: list[BrokerId]) -> int:
    """The least possible sum of squares of leader counts, by trying everything."""
    options = [[one for one in it.replicas if one in it.isr and one in ids] for it in partitions]
    return min(sum(count**2 for count in Counter(chosen).values()) for chosen in product(*options))


@st.composite
def worlds(
    draw: st.DrawFn, *, most_partitions: int = 24, all_usable: bool = False, rate: str = "mixed"
) -> World:
    """Brokers with racks, partitions on some of them, some out of sync, some idle or unmeasured."""
    count = draw(st.integers(1, 6))
    racks = draw(st.integers(0, 3))
    of_all = brokers(count, racks)
    if not all_usable:
        flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        flags[draw(st.integers(0, count - 1))] = True
        of_all = tuple(
            replace(one, is_usable=flag) for one, flag in zip(of_all, flags, strict=True)
        )
    ids = [one.broker_id for one in of_all]
    found, measured = [], {}
    for index in range(draw(st.integers(1, most_partitions))):
        replicas = draw(st.permutations(ids))[: draw(st.integers(1, count))]
        isr = [one for one in replicas if draw(st.integers(0, 4))] or [replicas[0]]
        leader = draw(st.sampled_from(isr))
        found.append(partition(index, replicas, leader=leader, isr=isr, topic=f"t{index % 2}"))
        if rate == "equal":
            measured[found[-1].name] = rated(100.0, 1000)
        elif draw(st.integers(0, 9)):
            speed = draw(st.one_of(st.just(0.0), st.floats(0.5, 1000.0)))
            measured[found[-1].name] = rated(speed, draw(st.integers(0, 10**6)))
    return World(of_all, tuple(found), measured)
