"""Chooses replica moves that keep brokers within their limits and make their load even.

A replica moves for one of five reasons, which are handled in this order:
1. It is on a broker that is to be removed.
2. It shares a rack with another replica of its partition, and another rack has none; then the same
   for nodes.
3. Its broker holds more replicas, or more bytes, than it may.
4. The numbers of replicas are uneven: one replica at a time moves from the broker with the most to
   the one with the fewest. Its size is the one that makes stored bytes even at the same time, if it
   is as large as the moves between the two brokers should be on average.
5. Stored bytes are uneven: one replica at a time moves from the fullest broker to the emptiest,
   the one whose size is nearest to half of their difference. If their numbers of replicas would
   then be uneven, the smallest one moves back in exchange.

Whatever the reason, it moves only to a broker that stays within its limits (`room`).
A replica never moves to a rack with another replica of its partition, unless it shared a rack
before. The same holds for nodes, unless a broker that is to be removed cannot be emptied otherwise.
The preferred leader's replica is moved only if no follower fits, because the leadership moves too.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from chiplog_core.rebalance.even import TOLERANCE_PERCENT, even_counts, is_even
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
    """The replica moves, at most one for each replica, and the room that brokers have after them.
    `orders` are the replicas of each partition after the leader moves.

    Partitions that were not measured, or whose topics are excluded, are not moved.
    """
    board = _Board(brokers, partitions, orders, measurements, settings)
    if settings.mode is Mode.REMOVE_BROKERS:
        board.evacuate()
    if Goal.RACK_AWARE in settings.goals:
        board.separate()
    board.relieve()
    if settings.mode is not Mode.REMOVE_BROKERS:
        board.even_out()
    return tuple(_net(orders, board)), board.room


def _net(
    orders: Mapping[PartitionName, tuple[BrokerId, ...]], board: "_Board"
) -> Iterator[ReplicaMove]:
    """The moves of the board as they are carried out: one that was chosen to move twice moves once,
    and one that was chosen to come back does not move."""
    for name in dict.fromkeys(move.name for move in board.moves):
        before, after = orders[name], board.replicas[name]
        gone = [broker_id for broker_id in before if broker_id not in after]
        come = [broker_id for broker_id in after if broker_id not in before]
        for leaving, to in zip(gone, come, strict=True):
            yield ReplicaMove(name=name, from_broker=leaving, to_broker=to, bytes=board.bytes[name])


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


Step = tuple[PartitionName, BrokerId, BrokerId]
"""The partition of a replica that moves, from which broker and to which."""


class _Board:
    """The replicas of each partition while moves are being chosen.

    `bytes` are the sizes of the partitions that may be moved, `loads` the stored bytes of each
    usable broker, `counts` the number of replicas of each broker.
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
        self.counts = Counter(chain.from_iterable(self.replicas.values()))
        leaving = settings.brokers if settings.mode is Mode.REMOVE_BROKERS else ()
        self.fewest, self.most = even_counts(
            sum(self.counts[broker_id] for broker_id in (*self.loads, *leaving)), len(self.loads)
        )
        copying = {partition.name: partition.adding for partition in partitions}
        self.room = Room(brokers, self.replicas, sizes, settings, copying)
        self._most_room: float | None = None
        self.moves: list[ReplicaMove] = []
        self._changes: Counter[BrokerId] = Counter()
        """How often the replicas of each broker, or others of their partitions, have moved."""
        self._fruitless: set[tuple[BrokerId, BrokerId, int, int]] = set()
        """Two brokers between which no move makes the bytes more even, and their `_changes` then.
        Otherwise the same thousand pairs would be tried before each move in a large cluster."""

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
        """Move replicas until their numbers are even, and then until the stored bytes are.

        In a large cluster, numbers alone could need all moves of many proposals, while volumes are
        filling: half of the moves are for bytes.
        """
        movable = MovableReplicas(self.domains, self.replicas, self.bytes)
        has_bytes = Goal.DISK_USAGE in self.settings.goals
        if Goal.REPLICAS in self.settings.goals:
            moves_left = MAX_REPLICA_MOVES - len(self.moves)
            most = MAX_REPLICA_MOVES - moves_left // 2 if has_bytes else MAX_REPLICA_MOVES
            self._move_all(movable, self._best_number, most)
        if has_bytes:
            self._move_all(movable, self._best_bytes, MAX_REPLICA_MOVES)

    def _move_all(
        self,
        movable: MovableReplicas,
        find: Callable[[MovableReplicas], Sequence[Step]],
        most: int,
    ) -> None:
        """Make the moves that `find` finds until there are none, or at most `most` moves."""
        while (found := find(movable)) and len(self.moves) + len(found) <= most:
            for name, leaving, to in found:
                self._changes.update({*self.replicas[name], to})
                self._move(name, leaving, to)
                movable.set_replicas(name, self.replicas[name])

    def _best_number(self, movable: MovableReplicas) -> Sequence[Step]:
        """The best move from a broker with more replicas to one with fewer; none if their numbers
        are even, or no move makes them more even."""
        by_count = sorted(self.loads, key=lambda one: (-self.counts[one], -self.loads[one], one))
        fewest_first = [one for one in reversed(by_count) if self.settings.may_get(one)]
        for above in by_count:
            closed = movable.closed_to_all(above)
            for below in fewest_first:
                excess = self.counts[above] - self.counts[below]
                is_even = self.counts[above] <= self.most and self.counts[below] >= self.fewest
                if is_even or excess < 2:
                    break  # the next brokers have more
                if closed.isdisjoint(self.domains[below]):
                    gap = max(0, self.loads[above] - self.loads[below])
                    # With this size, half of both differences move.
                    twice = 2 * gap // excess if Goal.DISK_USAGE in self.settings.goals else 0
                    largest = self.room.largest[below]
                    name = movable.best(above, below, twice=twice, least=0, most=largest)
                    if name is not None:
                        return [(name, above, below)]
        return ()

    def _best_bytes(self, movable: MovableReplicas) -> Sequence[Step]:
        """The best move from a fuller to an emptier broker, or the best exchange if a move makes
        the numbers of replicas uneven; none if the bytes are even, or nothing makes them so."""
        if is_even(self.loads):
            return ()
        by_load = sorted(self.loads, key=lambda broker_id: (-self.loads[broker_id], broker_id))
        emptiest_first = [
            broker_id for broker_id in reversed(by_load) if self.settings.may_get(broker_id)
        ]
        tolerated = TOLERANCE_PERCENT * sum(self.loads.values()) // (100 * len(self.loads))
        for above in by_load:
            smallest, closed = movable.smallest(above, 1), movable.closed_to_all(above)
            for below in emptiest_first:
                gap = self.loads[above] - self.loads[below]
                if gap <= tolerated:
                    break  # the next brokers are fuller
                largest = self.room.largest[below]
                if largest < smallest or not closed.isdisjoint(self.domains[below]):
                    continue
                pair = above, below, self._changes[above], self._changes[below]
                if pair in self._fruitless:
                    continue
                found = self._between(movable, above, below, gap, smallest)
                if found:
                    return found
                self._fruitless.add(pair)
        return ()

    def _between(
        self, movable: MovableReplicas, above: BrokerId, below: BrokerId, gap: int, smallest: float
    ) -> Sequence[Step]:
        """The best move, or the best exchange, between two brokers whose stored bytes differ by
        `gap`; none if there is none. `smallest` is the size of the smallest replica on `above` that
        has data."""
        if not self._keeps_numbers(above, below):
            return self._exchange(movable, above, below, gap)
        # More than nine tenths of the gap would only reverse it.
        most = min(self.room.largest[below], 9 * gap // 10)
        if smallest > most:
            return ()
        name = movable.best(above, below, twice=gap, least=1, most=most)
        return () if name is None else [(name, above, below)]

    def _keeps_numbers(self, above: BrokerId, below: BrokerId) -> bool:
        """Whether a replica that moves from `above` to `below` leaves the numbers of replicas as
        even as the goals want."""
        more, fewer = self.counts[above], self.counts[below]
        is_within = more > self.fewest and fewer < self.most
        return is_within or more > fewer or Goal.REPLICAS not in self.settings.goals

    def _exchange(
        self, movable: MovableReplicas, above: BrokerId, below: BrokerId, gap: int
    ) -> Sequence[Step]:
        """The exchange of a replica on `above` for the smallest one on `below`, so that the stored
        bytes, which differ by `gap`, come nearest together; none if there is none."""
        if not self.settings.may_get(above):
            return ()
        back = movable.smallest_to(below, above, self.room.largest[above])
        if back is None:
            return ()
        size = movable.size(back)
        name = movable.best(
            above,
            below,
            twice=gap + 2 * size,
            least=size + max(1, gap // 10),
            most=min(self.room.largest[below], size + 9 * gap // 10),
        )
        return () if name is None else [(back, below, above), (name, above, below)]

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
            has_goal = Goal.REPLICAS in self.settings.goals
            to = min(
                fitting,
                key=lambda one: (has_goal and self.counts[one] >= self.most, self.loads[one], one),
            )
            self._move(name, leaving, to)
        return bool(fitting)

    def _move(self, name: PartitionName, leaving: BrokerId, to: BrokerId) -> None:
        """Record a move from the broker `leaving` to the broker `to`."""
        size = self.bytes[name]
        self.moves.append(ReplicaMove(name=name, from_broker=leaving, to_broker=to, bytes=size))
        self.replicas[name] = tuple(
            to if broker_id == leaving else broker_id for broker_id in self.replicas[name]
        )
        self.counts[leaving] -= 1
        self.counts[to] += 1
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
