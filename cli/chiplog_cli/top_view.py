"""What `top` shows: rates between two snapshots of the cluster, leaders, and the lag of groups.

Throughput is counted in records, by how far the ends of the partitions moved: Kafka's protocol
does not report bytes. Brokers' metrics do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chiplog_cli.facts import Cluster, Topic, TopicPartition
from chiplog_cli.tables import table

BROKER_HEADER = ("BROKER", "ADDRESS", "LEADERS", "REPLICAS", "RECORDS/S")
TOPIC_HEADER = ("TOPIC", "PARTITIONS", "OFFLINE", "UNDER-REPLICATED", "RECORDS", "RECORDS/S")
GROUP_HEADER = ("GROUP", "STATE", "MEMBERS", "LAG")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A group at one moment; `lag` is None if it has no committed offsets."""

    group_id: str
    state: str
    members: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one moment, by a clock that never goes back."""

    at_s: float
    cluster: Cluster
    topics: tuple[Topic, ...]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    groups: tuple[GroupSnapshot, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    """Why some figures are missing or old, for the user."""


def rates(before: Snapshot | None, now: Snapshot) -> dict[TopicPartition, float]:
    """Records per second of each partition that both snapshots have; never negative.

    An end offset falls if a topic was created again under its name. Such a partition is left out.
    """
    if before is None or now.at_s <= before.at_s:
        return {}
    passed_s = now.at_s - before.at_s
    return {
        at: (end - before.ends[at]) / passed_s
        for at, end in now.ends.items()
        if at in before.ends and before.ends[at] <= end
    }


def document(before: Snapshot | None, now: Snapshot) -> dict[str, Any]:
    """Everything that is shown. Rates are null for the first snapshot."""
    found = rates(before, now)
    return {
        "brokers": [_broker(now, found, broker.id) for broker in now.cluster.brokers],
        "topics": [_topic(now, found, topic) for topic in now.topics],
        "groups": [
            {
                "group": group.group_id,
                "state": group.state,
                "members": group.members,
                "lag": group.lag,
            }
            for group in now.groups
        ],
        "remarks": list(now.remarks),
    }


def text(before: Snapshot | None, now: Snapshot) -> str:
    """The tables one below the other, with the busiest topic and the largest lag first."""
    shown = document(before, now)
    addresses = {broker.id: f"{broker.host}:{broker.port}" for broker in now.cluster.brokers}
    brokers = [
        (
            broker["broker"],
            addresses[broker["broker"]],
            broker["leaders"],
            broker["replicas"],
            _rate(broker["recordsPerSecond"]),
        )
        for broker in shown["brokers"]
    ]
    topics = [
        (*(topic[key] for key in _TOPIC_KEYS), _rate(topic["recordsPerSecond"]))
        for topic in sorted(shown["topics"], key=_busiest)
    ]
    groups = [
        (group["group"], group["state"], group["members"], group["lag"])
        for group in sorted(shown["groups"], key=_furthest)
    ]
    parts = [table(BROKER_HEADER, brokers), table(TOPIC_HEADER, topics)]
    parts += [table(GROUP_HEADER, groups)] if groups else []
    parts += ["\n".join(now.remarks)] if now.remarks else []
    return "\n\n".join(parts)


_TOPIC_KEYS = ("topic", "partitions", "offline", "underReplicated", "records")


def _broker(now: Snapshot, found: Mapping[TopicPartition, float], broker: int) -> dict[str, Any]:
    """The row of one broker. `found` has the rates of partitions, of which the led ones count."""
    partitions = [
        (TopicPartition(topic.name, partition.partition), partition)
        for topic in now.topics
        for partition in topic.partitions
    ]
    led = [at for at, partition in partitions if partition.leader == broker]
    return {
        "broker": broker,
        "leaders": len(led),
        "replicas": sum(broker in partition.replicas for _, partition in partitions),
        "recordsPerSecond": _sum(found, led),
    }


def _topic(now: Snapshot, found: Mapping[TopicPartition, float], topic: Topic) -> dict[str, Any]:
    """The row of one topic. `found` has the rates of partitions. Records are counted in partitions
    whose start and end are known."""
    places = [TopicPartition(topic.name, partition.partition) for partition in topic.partitions]
    known = [at for at in places if at in now.ends and at in now.starts]
    return {
        "topic": topic.name,
        "partitions": len(places),
        "offline": sum(partition.leader is None for partition in topic.partitions),
        "underReplicated": sum(partition.is_under_replicated for partition in topic.partitions),
        "records": sum(now.ends[at] - now.starts[at] for at in known),
        "recordsPerSecond": _sum(found, places),
    }


def _sum(found: Mapping[TopicPartition, float], places: Sequence[TopicPartition]) -> float | None:
    """The sum of the partitions' rates that are known; None if none is."""
    known = [found[at] for at in places if at in found]
    return round(sum(known), 1) if known else None


def _rate(value: float | None) -> str | None:
    """A rate with one decimal; None if it is not known."""
    return None if value is None else f"{value:.1f}"


def _busiest(topic: Mapping[str, Any]) -> tuple[float, str]:
    """Sort key of topics: those with the highest rate first, then by name."""
    return -(topic["recordsPerSecond"] or 0), topic["topic"]


def _furthest(group: Mapping[str, Any]) -> tuple[int, str]:
    """Sort key of groups: those with the largest lag first, then by name."""
    return -(group["lag"] or 0), group["group"]
