"""Which partitions get another leader, so that leaders' load is even. No data is copied.

First by bytes per second: partitions that take records. Then by count: partitions that take none,
beside all others. Nobody becomes leader who is not in the ISR; a broker that is not usable, or is
to be removed, gives its leaders away where it can. `even` says which moves are made; of equally
good ones, that to the preferred leader, which then keeps its order of replicas.

A leadership stays where it was moved to because the replica is made the first, the preferred one.
For the same reason a partition that is led by another than its first replica may need its order
changed only: where leaderships that go back on their own would undo the result.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.rebalance.even import Item, even_out, is_even
from chiplog_core.rebalance.measured import Broker, Measurements, Partition, PartitionName
from chiplog_core.rebalance.settings import Goal, Settings

MAX_LEADER_MOVES = 1_000
"""In one proposal. The next one continues."""

Leaders = Mapping[PartitionName, BrokerId]
Weights = Mapping[PartitionName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """Another order of a partition's replicas, and a leader with it."""

    name: PartitionName
    from_broker: BrokerId
    to_broker: BrokerId
    """The same where only the order changes, so that the leadership stays."""
    replicas: tuple[BrokerId, ...]
    """The new order."""
    expected_replicas: tuple[BrokerId, ...]
    """The order that the proposal was made for."""
    leader_epoch: LeaderEpoch
    """That the proposal was made for."""

    def __post_init__(self) -> None:
        assert self.replicas[0] == self.to_broker, f"{self.name}: not the first"
        assert sorted(self.replicas) == sorted(self.expected_replicas), f"{self.name}: data moves"

    @property
    def is_movement(self) -> bool:
        """Whether the leadership moves, which clients notice. Otherwise only the order changes."""
        return self.from_broker != self.to_broker


def leader_moves(
    brokers: Sequence[Broker],
    partitions: Sequence[Partition],
    measurements: Measurements,
    settings: Settings,
) -> tuple[LeaderMove, ...]:
    """The moves to make, by topic and partition."""
    table = _Table(partitions, frozenset(settings.usable(brokers)), measurements, settings)
    table.give_away()
    idle = frozenset(name for name in table.weights if not table.weights[name])
    if Goal.LEADER_BYTES_IN in settings.goals:
        table.even_out(table.all_weights, leaving=idle)
    if Goal.LEADER_REPLICAS in settings.goals:
        rated = frozenset(table.weights) - idle
        by_rate = Goal.LEADER_BYTES_IN in settings.goals
        table.even_out(table.all_ones, leaving=rated if by_rate else frozenset())
    return table.moves()


class _Table:
    """Who leads what, while it is being decided."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        usable: frozenset[BrokerId],
        measurements: Measurements,
        settings: Settings,
    ) -> None:
        self.usable = usable
        self.led = {
            partition.name: partition
            for partition in sorted(partitions, key=lambda partition: partition.name)
        }
        self.leaders = {
            partition.name: partition.leader
            for partition in self.led.values()
            if partition.leader is not None
        }
        self.weights = {
            name: measurements[name].weight
            for name in self.leaders
            if name in measurements and not settings.is_excluded(name.topic)
        }
        self.options = {name: self._options(self.led[name], settings) for name in self.weights}
        self.all_weights = {
            name: measurements[name].weight if name in measurements else 0 for name in self.leaders
        }
        self.all_ones = dict.fromkeys(self.leaders, 1)

    def give_away(self) -> None:
        """Move leaderships away from brokers that are not usable, the heaviest first to the
        least loaded."""
        to_move = [name for name in self.weights if self.leaders[name] not in self.usable]
        loads = self._loads(self.all_weights)
        counts = self._loads(self.all_ones)
        for name in sorted(to_move, key=lambda name: (-self.weights[name], name)):
            options = self.options[name]
            if options and self._moved() < MAX_LEADER_MOVES:
                to = min(
                    options,
                    key=lambda broker_id: (
                        loads[broker_id],
                        counts[broker_id],
                        options.index(broker_id),
                    ),
                )
                self.leaders[name] = to
                loads[to] += self.weights[name]
                counts[to] += 1

    def even_out(self, weights: Weights, *, leaving: Collection[PartitionName]) -> None:
        """Even out the leaders in these weights. Leaderships that stay still count."""
        names = [name for name in self.weights if name not in leaving]
        moving = frozenset(names)
        base = self._loads({name: weights[name] for name in weights if name not in moving})
        items = [Item(weights[name], self.leaders[name], self.options[name]) for name in names]
        places = even_out(items, base, most=MAX_LEADER_MOVES - self._moved())
        self.leaders.update(zip(names, places, strict=True))

    def moves(self) -> tuple[LeaderMove, ...]:
        """The moves that were decided, and changes of order that keep leaderships where they
        are."""
        moved = [name for name, leader in self.leaders.items() if leader != self.led[name].leader]
        kept = self._to_keep(set(moved))
        return tuple(self._move(name) for name in sorted([*moved, *kept]))

    def _to_keep(self, moved: set[PartitionName]) -> Sequence[PartitionName]:
        """Partitions whose replica order must change so that their leadership stays where it is."""
        going_back = [
            name
            for name in self.weights
            if name not in moved and self._goes_back(self.led[name], self.leaders[name])
        ]
        resting = {**self.leaders, **{name: self.led[name].replicas[0] for name in going_back}}
        is_fine = all(
            _is_no_worse(self._loads(weights, resting), self._loads(weights))
            for weights in (self.all_weights, self.all_ones)
        )
        return () if is_fine else going_back[: MAX_LEADER_MOVES - len(moved)]

    def _goes_back(self, partition: Partition, leader: BrokerId) -> bool:
        """Whether a preferred leader election would move the leadership away again."""
        first = partition.replicas[0]
        return first != leader and first in partition.isr and first in self.usable

    def _move(self, name: PartitionName) -> LeaderMove:
        """The move of one partition."""
        partition, to = self.led[name], self.leaders[name]
        assert partition.leader is not None, "an offline partition is left alone"
        assert to in partition.isr or to == partition.leader, f"{name}: {to} is not in sync"
        return LeaderMove(
            name=name,
            from_broker=partition.leader,
            to_broker=to,
            replicas=(to, *(broker_id for broker_id in partition.replicas if broker_id != to)),
            expected_replicas=partition.replicas,
            leader_epoch=partition.leader_epoch,
        )

    def _options(self, partition: Partition, settings: Settings) -> tuple[BrokerId, ...]:
        """The brokers that may lead the partition."""
        assert partition.leader is not None, "an offline partition is left alone"
        if not settings.may_leave(partition.leader):
            return ()
        return tuple(
            broker_id
            for broker_id in partition.replicas
            if broker_id in partition.isr
            and broker_id in self.usable
            and settings.may_get(broker_id)
        )

    def _loads(self, weights: Weights, leaders: Leaders | None = None) -> dict[BrokerId, int]:
        """The weight that each usable broker leads."""
        loads = dict.fromkeys(sorted(self.usable), 0)
        for name, weight in weights.items():
            leader = (leaders or self.leaders)[name]
            if leader in loads:
                loads[leader] += weight
        return loads

    def _moved(self) -> int:
        return sum(leader != self.led[name].leader for name, leader in self.leaders.items())


def leaders_after(
    partitions: Iterable[Partition], moves: Iterable[LeaderMove]
) -> dict[PartitionName, BrokerId]:
    """The leader of each partition after the moves. Offline partitions are left out."""
    leaders = {
        partition.name: partition.leader for partition in partitions if partition.leader is not None
    }
    return {**leaders, **{move.name: move.to_broker for move in moves}}


def _is_no_worse(loads: Mapping[BrokerId, int], than: Mapping[BrokerId, int]) -> bool:
    """Whether the highest load does not rise, or all loads are even."""
    return is_even(loads) or max(loads.values(), default=0) <= max(than.values(), default=0)
