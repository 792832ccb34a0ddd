"""Makes the whole proposal of a Rebalance from measured figures.

Its leader moves and then its replica moves are carried out after approval. Recommended numbers of
partitions are only reported.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from chiplog_core.ids import BrokerId
from chiplog_core.quantities import mebibytes
from chiplog_core.rebalance.advice import Advice, advise, topic_load, worth_reporting
from chiplog_core.rebalance.even import deviation_percent
from chiplog_core.rebalance.figures import (
    BrokerFigures,
    TopicSkew,
    balancedness,
    broker_figures,
    topic_skews,
)
from chiplog_core.rebalance.leaders import LeaderMove, leader_moves, leaders_after
from chiplog_core.rebalance.measured import (
    Broker,
    HotKey,
    Measured,
    Measurements,
    Partition,
    PartitionName,
    sizes_of,
)
from chiplog_core.rebalance.replicas import (
    ReplicaChange,
    ReplicaMove,
    replica_changes,
    replica_moves,
    replicas_after,
)
from chiplog_core.rebalance.settings import Mode, RebalanceRefused, Settings
from chiplog_core.rebalance.unmet import unmet_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A hot key, its partition, and its share of the records that were checked there, from 0 to
    1."""

    name: PartitionName
    key: HotKey
    share: float
    """The lowest possible share."""
    share_at_most: float
    """The highest possible share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The proposed moves, and the figures before and after them."""

    leader_moves: tuple[LeaderMove, ...]
    replica_moves: tuple[ReplicaMove, ...]
    replica_changes: tuple[ReplicaChange, ...]
    """The new replicas of every partition that a replica move changes, the one that should lead
    first."""
    before: tuple[BrokerFigures, ...]
    after: tuple[BrokerFigures, ...]
    """After all moves."""
    score_before: float
    score_after: float
    hot_keys: tuple[FoundKey, ...]
    advice: tuple[Advice, ...]
    skews: tuple[TopicSkew, ...]
    excluded_topics: tuple[str, ...]
    num_pinned_partitions: int
    """Partitions that stay where they are because their Topics place them (spec.assignments)."""
    monitored_percentage: float
    """Percentage of the partitions that were measured."""
    leader_rate_deviation_percent: float
    """How far the bytes per second of the worst usable broker are from the mean after all
    moves."""
    leader_count_deviation_percent: float
    """How far the number of leaders of the worst usable broker is from the mean after all
    moves."""
    capacity_message: str = ""
    """Which brokers are above a limit after all moves, and by how much; empty if none is."""

    @property
    def num_leader_movements(self) -> int:
        """The number of leaderships that move. A mere change of order does not count."""
        return sum(move.is_movement for move in self.leader_moves)

    @property
    def data_to_move_mb(self) -> int:
        """The data to move in MiB, rounded up as in Cruise Control."""
        return mebibytes(sum(move.bytes for move in self.replica_moves))


def propose(
    brokers: Sequence[Broker],
    partitions: Sequence[Partition],
    measurements: Measurements,
    settings: Settings,
) -> Proposal:
    """The proposal; equal for equal figures in any order. Raises `RebalanceRefused` if the settings
    do not fit the brokers."""
    _check(brokers, settings)
    usable = settings.usable(brokers)
    moves = leader_moves(brokers, partitions, measurements, settings)
    leaders = leaders_after(partitions, ())
    orders = {partition.name: partition.replicas for partition in partitions}
    orders_after = {**orders, **{move.name: move.replicas for move in moves}}
    copy_moves, room = replica_moves(brokers, partitions, orders_after, measurements, settings)
    orders_at_end = replicas_after(orders_after, copy_moves)
    moved = {name for name, order in orders_at_end.items() if order != orders_after[name]}
    leaders_at_end = _led_at_end(leaders_after(partitions, moves), orders_at_end, moved, usable)
    for move in leader_moves(
        brokers,
        _at_end(partitions, orders_at_end, leaders_at_end, moved),
        measurements,
        settings,
        movable=moved,
    ):
        orders_at_end[move.name] = move.replicas
        leaders_at_end[move.name] = move.to_broker
    sizes = sizes_of(partitions, measurements)
    before = broker_figures(brokers, leaders, orders, measurements, sizes)
    after = broker_figures(brokers, leaders_at_end, orders_at_end, measurements, sizes)
    figures_of_usable = [broker for broker in after if broker.broker_id in usable]
    return Proposal(
        leader_moves=moves,
        replica_moves=copy_moves,
        replica_changes=replica_changes(orders_after, orders_at_end),
        before=before,
        after=after,
        score_before=balancedness(before, usable),
        score_after=balancedness(after, usable),
        hot_keys=_hot_keys(measurements),
        advice=_advice(partitions, measurements, len(usable)),
        skews=topic_skews(partitions, measurements),
        excluded_topics=tuple(
            sorted(
                {
                    partition.name.topic
                    for partition in partitions
                    if settings.is_excluded(partition.name.topic)
                }
            )
        ),
        num_pinned_partitions=sum(settings.is_pinned(partition.name) for partition in partitions),
        monitored_percentage=_percentage(
            sum(partition.name in measurements for partition in partitions), len(partitions)
        ),
        leader_rate_deviation_percent=deviation_percent(
            {
                broker.broker_id: round(broker.bytes_per_second * 1000)
                for broker in figures_of_usable
            }
        ),
        leader_count_deviation_percent=deviation_percent(
            {broker.broker_id: broker.leaders for broker in figures_of_usable}
        ),
        capacity_message=unmet_text(room, brokers, orders_at_end, measurements, settings),
    )


def _check(brokers: Sequence[Broker], settings: Settings) -> None:
    """Raise `RebalanceRefused` if the settings name no existing broker, or leave none usable."""
    existing = {broker.broker_id for broker in brokers}
    missing = sorted(settings.brokers - existing)
    if missing:
        raise RebalanceRefused(
            f"brokers: there is no broker {missing[0]}; name only existing ones: {sorted(existing)}"
        )
    if settings.mode is Mode.REMOVE_BROKERS and settings.brokers == existing:
        raise RebalanceRefused("brokers: all brokers would be removed; keep at least one")
    if not settings.usable(brokers):
        raise RebalanceRefused("no broker is ready: wait until one is")


def _led_at_end(
    leaders: Mapping[PartitionName, BrokerId],
    at_end: Mapping[PartitionName, tuple[BrokerId, ...]],
    moved: Collection[PartitionName],
    usable: Collection[BrokerId],
) -> dict[PartitionName, BrokerId]:
    """The leaders after all replica moves: of partitions that `moved` the preferred ones, which
    then are in sync (`planner.leadership.preferred`); of others, and where the preferred leader is
    not usable, those of now that still have a replica."""
    return {
        name: at_end[name][0]
        if leader not in at_end[name] or (name in moved and at_end[name][0] in usable)
        else leader
        for name, leader in leaders.items()
    }


def _at_end(
    partitions: Sequence[Partition],
    orders: Mapping[PartitionName, tuple[BrokerId, ...]],
    leaders: Mapping[PartitionName, BrokerId],
    moved: Collection[PartitionName],
) -> list[Partition]:
    """The partitions after all moves, when all replicas of those that `moved` are in sync. So their
    leaders can be evened out once more, between their new replicas: the first of these becomes the
    leader, as every preferred leader does (`planner.leadership.preferred`)."""
    return [
        replace(
            partition,
            replicas=orders[name],
            isr=orders[name] if name in moved else partition.isr,
            leader=leaders.get(name),
        )
        for partition in partitions
        for name in (partition.name,)
    ]


def _hot_keys(measurements: Measurements) -> tuple[FoundKey, ...]:
    """All measured hot keys, the one with the most records first."""
    found = [
        FoundKey(
            name=name,
            key=key,
            share=key.records / measured.sampled_records,
            share_at_most=min(1.0, key.records_at_most / measured.sampled_records),
        )
        for name, measured in measurements.items()
        for key in measured.hot_keys
        if measured.sampled_records
    ]
    return tuple(
        sorted(found, key=lambda hot_key: (-hot_key.key.records, hot_key.name, hot_key.key.key))
    )


def _advice(
    partitions: Sequence[Partition], measurements: Measurements, brokers: int
) -> tuple[Advice, ...]:
    """The advices worth reporting, for topics with a measured partition. `brokers` is the number of
    usable brokers."""
    of_topic: dict[str, dict[int, Measured]] = {}
    counts: dict[str, int] = {}
    for partition in partitions:
        counts[partition.name.topic] = counts.get(partition.name.topic, 0) + 1
        if partition.name in measurements:
            of_topic.setdefault(partition.name.topic, {})[partition.name.partition] = measurements[
                partition.name
            ]
    rate = sum(measured.bytes_per_second for measured in measurements.values())
    return worth_reporting(
        [
            advise(topic_load(topic, measured, counts[topic]), brokers, rate)
            for topic, measured in sorted(of_topic.items())
        ]
    )


def _percentage(part: int, whole: int) -> float:
    """The part of the whole in percent; 100 if the whole is 0."""
    return round(100 * part / whole, 2) if whole else 100.0
