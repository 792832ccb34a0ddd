"""Chooses replica moves that keep brokers within their limits and make stored bytes even.

A replica moves for one of four reasons, which are handled in this order:
1. It is on a broker that is to be removed.
2. It shares a rack with another replica of its partition, and another rack has none; then the same
   for nodes.
3. Its broker holds more replicas, or more bytes, than it may.
4. Stored bytes are uneven: one replica at a time moves from the fullest broker to the emptiest,
   the one whose size is nearest to half of their difference.

Whatever the reason, it moves only to a broker that stays within its limits (`room`).
A replica never moves to a rack with another replica of its partition, unless it shared a rack
before. The same holds for nodes, unless a broker that is to be removed cannot be emptied otherwise.
The preferred leader's replica is moved only if no follower fits, because the leadership moves too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_REPLICA_MOVES
from chiplog_core.observed.places import (
    Domain,
    Level,
    Place,
    closed_domains,
    domains_of,
    domains_of_others,
)
from chiplog_core.rebalance.even import TOLERANCE_PERCENT, is_even
from chiplog_core.rebalance.measured import Broker, Measurements, Partition, PartitionName, sizes_of
from chiplog_core.rebalance.movable import MovableReplicas
from chiplog_core.rebalance.room import Room
from chiplog_core.rebalance.settings import Goal, Mode, Settings


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
) -> tuple[tuple[ReplicaMove, ...], Room]:
    """The replica moves, in the order in which they must be applied, and the room that brokers have
    after them. `orders` are the replicas of each partition after the leader moves.

    Partitions that were not measured, or whose topics are excluded, are not moved.
    """
    board = _Board(brokers, partitions, orders, measurements, settings)
    if settings.mode is Mode.REMOVE_BROKERS:
        board.evacuate()
    if Goal.RACK_AWARE in settings.goals:
        board.separate()
    board.relieve()
    if Goal.DISK_USAGE in settings.goals and settings.mode is not Mode.REMOVE_BROKERS:
        board.even_out()
    return tuple(board.moves), board.room


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
    usable broker.
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
        be moved; all whose size is known count as load."""
        partitions = tuple(partitions)
        sizes = sizes_of(partitions, measurements)
        self.domains = domains_of(
            {broker.broker_id: Place(broker.rack, broker.node) for broker in brokers}
        )
        self.settings = settings
        self.replicas = {partition.name: orders[partition.name] for partition in partitions}
        self.bytes = {
            name: measurements[name].bytes
            for name in sorted(self.replicas)
            if name in measurements and settings.may_move(name)
        }
        self.loads = dict.fromkeys(sorted(settings.usable(brokers)), 0)
        self.takers: dict[tuple[Domain, ...], list[BrokerId]] = {}
        """The brokers that may get replicas, by their failure domains."""
        for broker_id in self.loads:
            if settings.may_get(broker_id):
                self.takers.setdefault(self.domains[broker_id], []).append(broker_id)
        for name, replicas in self.replicas.items():
            for broker_id in replicas:
                if broker_id in self.loads:
                    self.loads[broker_id] += sizes.get(name, 0)
        copying = {partition.name: partition.adding for partition in partitions}
        self.room = Room(brokers, self.replicas, sizes, settings, copying)
        self._most_room: float | None = None
        self.moves: list[ReplicaMove] = []

    def evacuate(self) -> None:
        """Move all replicas away from the brokers that are to be removed."""
        for broker_id in sorted(self.settings.brokers):
            held = [name for name in self.bytes if broker_id in self.replicas[name]]
            for name in sorted(held, key=self._size):
                closed = closed_domains(self.domains, self.replicas[name], broker_id)
                racks = frozenset(domain for domain in closed if domain.level is Level.RACK)
                if not self._to_emptiest(name, broker_id, closed) and racks != closed:
                    self._to_emptiest(name, broker_id, racks)

    def separate(self) -> None:
        """Move replicas that share a rack with another replica of their partition to a rack that
        has none, if there is one; then the same for nodes."""
        for level in sorted({one.level for shared in self.domains.values() for one in shared}):
            for name in self.bytes:
                # Followers first: when they have moved, the leader's replica need not move.
                for broker_id in reversed(self.replicas[name]):
                    of_others = frozenset(
                        domain
                        for domain in domains_of_others(
                            self.domains, self.replicas[name], broker_id
                        )
                        if domain.level is level
                    )
                    is_shared = not of_others.isdisjoint(self.domains.get(broker_id, ()))
                    if is_shared and self.settings.may_leave(broker_id):
                        closed = closed_domains(self.domains, self.replicas[name], broker_id)
                        self._to_emptiest(name, broker_id, closed | of_others)

    def relieve(self) -> None:
        """Move replicas away from brokers that are above a limit: if there are too many, the
        smallest ones; if they are too large, the largest that are not more than the excess, and
        then the smallest that are."""
        room = self.room
        above: dict[BrokerId, list[PartitionName]] = {
            broker_id: []
            for broker_id in sorted(filter(self.settings.may_leave, self.domains))
            if room.excess_replicas(broker_id) or room.excess_bytes(broker_id)
        }
        # These brokers get no replicas, so what each holds only becomes less.
        for name in self.bytes if above else ():
            for broker_id in self.replicas[name]:
                if broker_id in above:
                    above[broker_id].append(name)
        for broker_id, held in above.items():
            self._relieve(broker_id, held)

    def _relieve(self, broker_id: BrokerId, held: Sequence[PartitionName]) -> None:
        """Move replicas away from a broker that holds these partitions and is above a limit."""
        room = self.room
        followers = [name for name in held if self.replicas[name][0] != broker_id]
        preferred = [name for name in held if self.replicas[name][0] == broker_id]
        largest = sorted(followers, key=self._size) + sorted(preferred, key=self._size)
        smallest = sorted(followers, key=self.bytes.__getitem__)
        smallest += sorted(preferred, key=self.bytes.__getitem__)
        for name in smallest:
            if room.excess_replicas(broker_id):
                self._to_emptiest(name, broker_id)
        for name in largest:
            is_there = broker_id in self.replicas[name]
            if is_there and 0 < self.bytes[name] <= room.excess_bytes(broker_id):
                self._to_emptiest(name, broker_id)
        for name in smallest:
            is_there = broker_id in self.replicas[name]
            if is_there and self.bytes[name] and room.excess_bytes(broker_id):
                self._to_emptiest(name, broker_id)

    def even_out(self) -> None:
        """Move replicas from fuller to emptier brokers until the loads are even."""
        movable = MovableReplicas(self.domains, self.replicas, self.bytes)
        while len(self.moves) < MAX_REPLICA_MOVES and not is_even(self.loads):
            found = self._best(movable)
            if found is None:
                return
            self._move(*found)
            movable.set_replicas(found[0], self.replicas[found[0]])

    def _best(self, movable: MovableReplicas) -> tuple[PartitionName, BrokerId, BrokerId] | None:
        """The partition, source and target of the best move from a fuller to an emptier broker;
        None if there is none."""
        by_load = sorted(self.loads, key=lambda broker_id: (-self.loads[broker_id], broker_id))
        emptiest_first = [
            broker_id for broker_id in reversed(by_load) if self.settings.may_get(broker_id)
        ]
        tolerated = TOLERANCE_PERCENT * sum(self.loads.values()) // (100 * len(self.loads))
        for above in by_load:
            smallest, closed = movable.smallest(above), movable.closed_to_all(above)
            for below in emptiest_first:
                gap = self.loads[above] - self.loads[below]
                if gap <= tolerated or 10 * smallest > 9 * gap:
                    break  # the next brokers are fuller
                largest = self.room.largest[below]
                if largest >= smallest and closed.isdisjoint(self.domains[below]):
                    name = movable.best(above, below, gap, largest)
                    if name is not None:
                        return name, above, below
        return None

    def _to_emptiest(
        self, name: PartitionName, leaving: BrokerId, closed: frozenset[Domain] | None = None
    ) -> bool:
        """Move the replica of a partition from the broker `leaving` to the least loaded broker that
        may take it. Returns whether there is one. `closed` are the racks and nodes that it may not
        move to; None for `closed_domains`."""
        size = self.bytes[name]
        if len(self.moves) >= MAX_REPLICA_MOVES or size > self._largest_room():
            return False
        if closed is None:
            closed = closed_domains(self.domains, self.replicas[name], leaving)
        fitting = [
            broker_id
            for domains, broker_ids in self.takers.items()
            if closed.isdisjoint(domains)
            for broker_id in broker_ids
            if broker_id not in self.replicas[name] and size <= self.room.largest[broker_id]
        ]
        if fitting:
            to = min(fitting, key=lambda broker_id: (self.loads[broker_id], broker_id))
            self._move(name, leaving, to)
        return bool(fitting)

    def _move(self, name: PartitionName, leaving: BrokerId, to: BrokerId) -> None:
        """Record a move from the broker `leaving` to the broker `to`."""
        size = self.bytes[name]
        self.moves.append(ReplicaMove(name=name, from_broker=leaving, to_broker=to, bytes=size))
        self.replicas[name] = tuple(
            to if broker_id == leaving else broker_id for broker_id in self.replicas[name]
        )
        self.room.move(leaving, to, size)
        self._most_room = None
        self.loads[to] += size
        if leaving in self.loads:
            self.loads[leaving] -= size

    def _largest_room(self) -> float:
        """The size of the largest replica that any broker may take. Without it, a thousand replicas
        that fit nowhere would be tried on each of hundreds of brokers."""
        if self._most_room is None:
            receivers = chain.from_iterable(self.takers.values())
            self._most_room = max(map(self.room.largest.__getitem__, receivers), default=-inf)
        return self._most_room

    def _size(self, name: PartitionName) -> tuple[int, PartitionName]:
        """Sort key: the largest replica first."""
        return -self.bytes[name], name
