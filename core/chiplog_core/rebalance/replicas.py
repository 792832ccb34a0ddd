"""Chooses replica moves that make stored bytes even.

A replica moves for one of three reasons, which are handled in this order:
1. It is on a broker that is to be removed.
2. It shares a rack with another replica of its partition, and another rack has none.
3. Stored bytes are uneven: one replica at a time moves from the fullest broker to the emptiest,
   the one whose size is nearest to half of their difference.

A replica never moves to a rack with another replica of its partition, unless it shared a rack
before. The preferred leader's replica is moved only if no follower fits, because the leadership
moves too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_REPLICA_MOVES
from chiplog_core.rebalance.even import TOLERANCE_PERCENT, is_even
from chiplog_core.rebalance.measured import Broker, Measurements, Partition, PartitionName
from chiplog_core.rebalance.settings import Goal, Mode, Settings

Racks = Mapping[BrokerId, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMove:
    """One replica that moves to another broker; its place in the order of replicas stays."""

    name: PartitionName
    from_broker: BrokerId
    to_broker: BrokerId
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChange:
    """All replica moves of one partition together: its replicas before and after."""

    name: PartitionName
    replicas: tuple[BrokerId, ...]
    """The new replicas, the preferred leader first."""
    expected_replicas: tuple[BrokerId, ...]
    """The replicas when the change was proposed, after the proposed leader moves."""


def replica_moves(
    brokers: Sequence[Broker],
    partitions: Iterable[Partition],
    orders: Mapping[PartitionName, tuple[BrokerId, ...]],
    measurements: Measurements,
    settings: Settings,
) -> tuple[ReplicaMove, ...]:
    """The replica moves, in the order in which they must be applied. `orders` are the replicas of
    each partition after the leader moves.

    Partitions that were not measured, or whose topics are excluded, are not moved.
    """
    board = _Board(brokers, partitions, orders, measurements, settings)
    if settings.mode is Mode.REMOVE_BROKERS:
        board.evacuate()
    if Goal.RACK_AWARE in settings.goals:
        board.separate_racks()
    if Goal.DISK_USAGE in settings.goals and settings.mode is not Mode.REMOVE_BROKERS:
        board.even_out()
    return tuple(board.moves)


def replicas_after(
    orders: Mapping[PartitionName, tuple[BrokerId, ...]], moves: Iterable[ReplicaMove]
) -> dict[PartitionName, tuple[BrokerId, ...]]:
    """The replicas of each partition after all moves, which are applied to `orders`."""
    after = dict(orders)
    for move in moves:
        after[move.name] = tuple(
            move.to_broker if broker_id == move.from_broker else broker_id
            for broker_id in after[move.name]
        )
    return after


def replica_changes(
    before: Mapping[PartitionName, tuple[BrokerId, ...]],
    after: Mapping[PartitionName, tuple[BrokerId, ...]],
) -> tuple[ReplicaChange, ...]:
    """The changes of the partitions whose replicas differ, sorted by topic and partition."""
    return tuple(
        ReplicaChange(name=name, replicas=replicas, expected_replicas=before[name])
        for name, replicas in sorted(after.items())
        if replicas != before[name]
    )


class _Board:
    """The replicas of each partition while moves are being chosen.

    `bytes` are the sizes of the partitions that may be moved, `loads` the stored bytes of each
    usable broker, `held` the partitions of each broker.
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        partitions: Iterable[Partition],
        orders: Mapping[PartitionName, tuple[BrokerId, ...]],
        measurements: Measurements,
        settings: Settings,
    ) -> None:
        """The present replicas and loads. Only partitions in `bytes` (measured, not excluded) may
        be moved; all measured ones count as load."""
        self.racks: Racks = {broker.broker_id: broker.rack for broker in brokers}
        self.settings = settings
        self.replicas = {partition.name: orders[partition.name] for partition in partitions}
        self.bytes = {
            name: measurements[name].bytes
            for name in sorted(self.replicas)
            if name in measurements and settings.may_move(name)
        }
        self.loads = dict.fromkeys(sorted(settings.usable(brokers)), 0)
        self.held: dict[BrokerId, set[PartitionName]] = {}
        for name, replicas in self.replicas.items():
            for broker_id in replicas:
                self.held.setdefault(broker_id, set()).add(name)
                if broker_id in self.loads and name in measurements:
                    self.loads[broker_id] += measurements[name].bytes
        self.moves: list[ReplicaMove] = []

    def evacuate(self) -> None:
        """Move all replicas away from the brokers that are to be removed."""
        for broker_id in sorted(self.settings.brokers):
            for name in sorted(self.held.get(broker_id, ()), key=self._size):
                self._to_emptiest(name, broker_id)

    def separate_racks(self) -> None:
        """Move replicas that share a rack with another replica of their partition to a rack that
        has none, if there is one."""
        for name in self.bytes:
            # Followers first: when they have moved, the leader's replica need not move.
            for broker_id in reversed(self.replicas[name]):
                racks_of_others = {
                    self.racks.get(other) for other in self.replicas[name] if other != broker_id
                }
                rack = self.racks.get(broker_id)
                if (
                    rack is not None
                    and rack in racks_of_others
                    and self.settings.may_leave(broker_id)
                ):
                    self._to_emptiest(name, broker_id, avoided_racks=racks_of_others)

    def even_out(self) -> None:
        """Move replicas from fuller to emptier brokers until the loads are even."""
        while len(self.moves) < MAX_REPLICA_MOVES and not is_even(self.loads):
            found = self._best()
            if found is None:
                return
            self._move(*found)

    def _best(self) -> tuple[PartitionName, BrokerId, BrokerId] | None:
        """The partition, source and target of the best move from a fuller to an emptier broker;
        None if there is none."""
        by_load = sorted(self.loads, key=lambda broker_id: (-self.loads[broker_id], broker_id))
        total = sum(self.loads.values())
        for above in by_load:
            for below in reversed(by_load):
                gap = self.loads[above] - self.loads[below]
                if gap * len(self.loads) * 100 <= TOLERANCE_PERCENT * total:
                    break
                found = min(self._candidates(above, below, gap), default=None)
                if found is not None:
                    return found[2], above, below
        return None

    def _candidates(
        self, above: BrokerId, below: BrokerId, gap: int
    ) -> Iterator[tuple[bool, int, PartitionName]]:
        """The replicas that may move from `above` to `below`, as sort keys: the best is the lowest.
        Followers come first, then sizes near to half the `gap`, the difference of the loads."""
        if not (self.settings.may_leave(above) and self.settings.may_get(below)):
            return
        for name in self.held.get(above, ()):
            size = self.bytes.get(name, 0)
            # More than nine tenths of the gap would only reverse it.
            if 0 < 10 * size <= 9 * gap and self._fits(name, above, below):
                yield self.replicas[name][0] == above, abs(2 * size - gap), name

    def _to_emptiest(
        self, name: PartitionName, leaving: BrokerId, *, avoided_racks: Iterable[str | None] = ()
    ) -> None:
        """Move the replica of a partition from the broker `leaving` to the least loaded broker that
        may take it, if there is one."""
        avoided = set(avoided_racks)
        fitting = [
            broker_id
            for broker_id in self.loads
            if self.settings.may_get(broker_id)
            and self._fits(name, leaving, broker_id)
            and not (avoided and self.racks.get(broker_id) in avoided)
        ]
        if fitting and name in self.bytes and len(self.moves) < MAX_REPLICA_MOVES:
            self._move(
                name,
                leaving,
                min(fitting, key=lambda broker_id: (self.loads[broker_id], broker_id)),
            )

    def _fits(self, name: PartitionName, leaving: BrokerId, to: BrokerId) -> bool:
        """Whether the broker `to` may take the replica from `leaving`: it has no replica of the
        partition, and its rack has no other one, unless the replica shares its rack already."""
        others = [broker_id for broker_id in self.replicas[name] if broker_id != leaving]
        if to in self.replicas[name]:
            return False
        racks = {self.racks.get(other) for other in others} - {None}
        return self.racks.get(to) not in racks or self.racks.get(leaving) in racks

    def _move(self, name: PartitionName, leaving: BrokerId, to: BrokerId) -> None:
        """Record a move from the broker `leaving` to the broker `to`."""
        size = self.bytes[name]
        self.moves.append(ReplicaMove(name=name, from_broker=leaving, to_broker=to, bytes=size))
        self.replicas[name] = tuple(
            to if broker_id == leaving else broker_id for broker_id in self.replicas[name]
        )
        self.held[leaving].discard(name)
        self.held.setdefault(to, set()).add(name)
        self.loads[to] += size
        if leaving in self.loads:
            self.loads[leaving] -= size

    def _size(self, name: PartitionName) -> tuple[int, PartitionName]:
        """Sort key: the largest replica first."""
        return -self.bytes.get(name, 0), name
