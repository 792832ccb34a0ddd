"""Chooses leader moves that make the leaders' load on all brokers even. No data is copied.

Leaders of partitions that get records are evened out first, by bytes per second. Then the others
are moved so that the number of leaders is even. Only a replica in the ISR becomes leader. A broker
that is not usable, or is to be removed, hands over its leaderships if possible. `even` chooses the
moves; of equally good ones it takes the move to the preferred leader, which needs no new order of
replicas.

A moved leadership stays on its new broker because that replica is made the first one, which is the
preferred leader. A partition that is led by another broker than its preferred leader may need only
a new order, without a move: otherwise the operator would move its leadership back to the preferred
leader, which could undo the result.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.rebalance.even import Item, even_out, is_even
from chiplog_core.rebalance.measured import Broker, Measurements, Partition, PartitionName
from chiplog_core.rebalance.settings import Goal, Settings

MAX_LEADER_MOVES = 1_000
"""How many moves one proposal has at most. The next proposal continues."""

Leaders = Mapping[PartitionName, BrokerId]
Weights = Mapping[PartitionName, int]
"""What each leadership counts: its rate (`Measured.weight`), or 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """A new order of a partition's replicas, whose first one becomes the leader."""

    name: PartitionName
    from_broker: BrokerId
    to_broker: BrokerId
    """Equals `from_broker` if only the order changes, so that the leadership stays there."""
    replicas: tuple[BrokerId, ...]
    """The replicas in the new order."""
    expected_replicas: tuple[BrokerId, ...]
    """The order of the replicas when the move was proposed."""
    leader_epoch: LeaderEpoch
    """The leader epoch when the move was proposed."""

    def __post_init__(self) -> None:
        assert self.replicas[0] == self.to_broker, (
            f"{self.name}: the new leader must be the first of its replicas"
        )
        assert sorted(self.replicas) == sorted(self.expected_replicas), (
            f"{self.name}: a leader move must not change which brokers hold replicas"
        )

    @property
    def is_movement(self) -> bool:
        """Whether the leadership moves, which clients notice, and not only the order changes."""
        return self.from_broker != self.to_broker


def leader_moves(
    brokers: Sequence[Broker],
    partitions: Sequence[Partition],
    measurements: Measurements,
    settings: Settings,
    movable: Collection[PartitionName] | None = None,
) -> tuple[LeaderMove, ...]:
    """The proposed moves, sorted by topic and partition. Only leaderships of partitions in
    `movable` move; of all that may, if it is None."""
    table = _Table(partitions, frozenset(settings.usable(brokers)), measurements, settings)
    if movable is not None:
        table.weights = {name: table.weights[name] for name in table.weights if name in movable}
    table.leave_unusable_brokers()
    idle = frozenset(name for name in table.weights if not table.weights[name])
    is_evened_by_rate = Goal.LEADER_BYTES_IN in settings.goals
    if is_evened_by_rate:
        table.even_out(table.all_weights, fixed=idle)
    if Goal.LEADER_REPLICAS in settings.goals:
        # Partitions with a rate were placed by the rate: moving them again would undo that.
        with_rate = frozenset(table.weights) - idle
        table.even_out(table.all_ones, fixed=with_rate if is_evened_by_rate else frozenset())
    return table.moves()


class _Table:
    """The leader of each partition while moves are being chosen.

    `led` are all partitions, `leaders` the leaders chosen so far, `weights` the rates of partitions
    that may be moved, `options` the brokers that may lead each of these. `all_weights` and
    `all_ones` also have partitions that stay where they are, which count as load.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        usable: frozenset[BrokerId],
        measurements: Measurements,
        settings: Settings,
    ) -> None:
        """The present leaders. Only leaderships in `weights` (measured, not excluded) may move; all
        others count as load."""
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
            if name in measurements and settings.may_move(name)
        }
        self.options = {name: self._options(self.led[name], settings) for name in self.weights}
        self.all_weights = {
            name: measurements[name].weight if name in measurements else 0 for name in self.leaders
        }
        self.all_ones = dict.fromkeys(self.leaders, 1)

    def leave_unusable_brokers(self) -> None:
        """Move leaderships away from brokers that are not usable. The one with the highest rate is
        moved first, each to the least loaded broker."""
        to_move = [name for name in self.weights if self.leaders[name] not in self.usable]
        loads = self._loads(self.all_weights)
        counts = self._loads(self.all_ones)
        moves_left = MAX_LEADER_MOVES - self._moved()
        for name in sorted(to_move, key=lambda name: (-self.weights[name], name)):
            options = self.options[name]
            if options and moves_left > 0:
                moves_left -= 1
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

    def even_out(self, weights: Weights, *, fixed: Collection[PartitionName]) -> None:
        """Move leaderships until the sums of their `weights` on all usable brokers are even.

        Leaderships of partitions in `fixed`, and of those that may not be moved, stay but count.
        """
        names = [name for name in self.weights if name not in fixed]
        moving = frozenset(names)
        base = self._loads({name: weights[name] for name in weights if name not in moving})
        items = [Item(weights[name], self.leaders[name], self.options[name]) for name in names]
        places = even_out(items, base, most=MAX_LEADER_MOVES - self._moved())
        self.leaders.update(zip(names, places, strict=True))

    def moves(self) -> tuple[LeaderMove, ...]:
        """The chosen moves, and changes of order that keep other leaderships where they are."""
        moved = [name for name, leader in self.leaders.items() if leader != self.led[name].leader]
        kept = self._to_keep(set(moved))
        return tuple(self._move(name) for name in sorted([*moved, *kept]))

    def _to_keep(self, moved: set[PartitionName]) -> Sequence[PartitionName]:
        """Partitions whose replica order must change so that their leadership stays where it is.

        They are needed only if the result would be worse after every leadership that can has gone
        back to its preferred leader, as the operator moves them (`planner.leadership.preferred`).
        """
        going_back = [
            name
            for name in self.weights
            if name not in moved and self._goes_back(self.led[name], self.leaders[name])
        ]
        leaders_after_return = {
            **self.leaders,
            **{name: self.led[name].replicas[0] for name in going_back},
        }
        is_fine = all(
            _is_no_worse(self._loads(weights, leaders_after_return), self._loads(weights))
            for weights in (self.all_weights, self.all_ones)
        )
        return () if is_fine else going_back[: MAX_LEADER_MOVES - len(moved)]

    def _goes_back(self, partition: Partition, leader: BrokerId) -> bool:
        """Whether a preferred leader election would move the leadership away from `leader`."""
        first = partition.replicas[0]
        return first != leader and first in partition.isr and first in self.usable

    def _move(self, name: PartitionName) -> LeaderMove:
        """The move of one partition to the leader that was chosen."""
        partition, to = self.led[name], self.leaders[name]
        assert partition.leader is not None, "offline partitions must be left out before this"
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
        """The brokers that may lead the partition, in the order of its replicas; none if its leader
        must stay."""
        assert partition.leader is not None, "offline partitions must be left out before this"
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
        """The sum of weights that each usable broker leads, with the leaders chosen so far or these
        other `leaders`."""
        loads = dict.fromkeys(sorted(self.usable), 0)
        for name, weight in weights.items():
            leader = (leaders or self.leaders)[name]
            if leader in loads:
                loads[leader] += weight
        return loads

    def _moved(self) -> int:
        """How many leaderships have been moved so far."""
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
    """Whether `loads` are even, or their highest is not above the highest of `than`."""
    return is_even(loads) or max(loads.values(), default=0) <= max(than.values(), default=0)
