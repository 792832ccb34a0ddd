"""The load of each broker before and after moves, how even it is, and how skewed topics are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.measured import Broker, Measurements, Partition, PartitionName

Replicas = Mapping[PartitionName, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The load of one broker. `leaders` and `replicas` count all partitions, `bytes` those whose
    size is known, and the other figures only those that were measured."""

    broker_id: BrokerId
    leaders: int = 0
    bytes_per_second: float = 0.0
    """Bytes written to the partitions that it leads."""
    records_per_second: float = 0.0
    """Records written to the partitions that it leads."""
    replicas: int = 0
    bytes: int = 0
    """Size of all replicas that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSkew:
    """How uneven a topic's partitions are: each figure is that of the largest partition divided by
    the mean. 1.0 is even; the number of partitions means that one partition has everything."""

    topic: str
    partitions: int
    bytes: float
    records: float
    bytes_per_second: float


def broker_figures(
    brokers: Iterable[Broker],
    leaders: Mapping[PartitionName, BrokerId],
    replicas: Replicas,
    measurements: Measurements,
    sizes: Mapping[PartitionName, int],
) -> tuple[BrokerFigures, ...]:
    """The load of each broker, by id. `sizes` are the bytes of one replica, where known. Brokers
    that are not in `brokers`, but lead or hold a partition, are included."""
    ids = {broker.broker_id for broker in brokers} | {*leaders.values()}
    ids.update(*replicas.values())
    led: dict[BrokerId, list[PartitionName]] = {broker_id: [] for broker_id in ids}
    held: dict[BrokerId, list[PartitionName]] = {broker_id: [] for broker_id in ids}
    for name in sorted(replicas):
        if name in leaders:
            led[leaders[name]].append(name)
        for broker_id in replicas[name]:
            held[broker_id].append(name)
    return tuple(
        BrokerFigures(
            broker_id=broker_id,
            leaders=len(led[broker_id]),
            bytes_per_second=sum(
                measurements[name].weight for name in led[broker_id] if name in measurements
            )
            / 1000,  # a weight is in thousandths of a byte per second
            records_per_second=sum(
                measurements[name].records_per_second
                for name in led[broker_id]
                if name in measurements
            ),
            replicas=len(held[broker_id]),
            bytes=sum(sizes.get(name, 0) for name in held[broker_id]),
        )
        for broker_id in sorted(ids)
    )


def balancedness(figures: Sequence[BrokerFigures], usable: Iterable[BrokerId]) -> float:
    """How even the load is: 100 is even, 0 is all on one broker.

    It is the mean of four scores of the usable brokers: bytes per second of the leaders, number of
    leaders, number of replicas, and stored bytes. Each score is 100 * (1 - a / b): a is the share
    of the load that would have to move for an even spread, and b is that share if all load were on
    one broker.
    """
    by_id = {broker.broker_id: broker for broker in figures}
    ids = sorted(set(usable) & set(by_id)) or sorted(by_id)  # all brokers if none is usable
    kinds_of_load = (
        [round(by_id[broker_id].bytes_per_second * 1000) for broker_id in ids],
        [by_id[broker_id].leaders for broker_id in ids],
        [by_id[broker_id].replicas for broker_id in ids],
        [by_id[broker_id].bytes for broker_id in ids],
    )
    return round(sum(_evenness(loads) for loads in kinds_of_load) / len(kinds_of_load), 2)


def topic_skews(
    partitions: Iterable[Partition], measurements: Measurements
) -> tuple[TopicSkew, ...]:
    """The skew of each topic with more than one measured partition, the most skewed first."""
    of_topic: dict[str, list[PartitionName]] = {}
    for partition in sorted(partitions, key=lambda partition: partition.name):
        if partition.name in measurements:
            of_topic.setdefault(partition.name.topic, []).append(partition.name)
    skews = [
        TopicSkew(
            topic=topic,
            partitions=len(names),
            bytes=_over_mean([measurements[name].bytes for name in names]),
            records=_over_mean([measurements[name].records for name in names]),
            bytes_per_second=_over_mean([measurements[name].weight for name in names]),
        )
        for topic, names in of_topic.items()
        if len(names) > 1
    ]
    return tuple(
        sorted(skews, key=lambda topic: (-max(topic.bytes_per_second, topic.bytes), topic.topic))
    )


def _evenness(loads: Sequence[int]) -> float:
    """The score of one kind of load, from 0 to 100; see `balancedness`. No load at all is even."""
    total, count = sum(loads), len(loads)
    if not total or count < 2:
        return 100.0
    # What the brokers have above the mean, multiplied by `count` so that it is a whole number.
    too_much = sum(max(0, load * count - total) for load in loads)
    # If all load were on one broker, this number would be total * (count - 1).
    return 100 * (1 - too_much / (total * (count - 1)))


def _over_mean(values: Sequence[int]) -> float:
    """The largest value divided by the mean; 1.0 if all are 0."""
    total = sum(values)
    return round(max(values) * len(values) / total, 3) if total else 1.0
