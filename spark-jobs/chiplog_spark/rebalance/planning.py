"""The partitions of topics and their sizes, as the brokers report them when the measurement
begins."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.rebalance.measured import Partition, PartitionName
from chiplog_spark.rebalance.window import Reach, reach
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import UnknownTopic
from chiplog_spark.wire.facts import EARLIEST, LATEST, PartitionFacts, TopicFacts


@dataclass(slots=True)
class Inventory:
    """The partitions, and the offsets to read of those with a leader."""

    partitions: list[Partition] = field(default_factory=list)
    reaches: dict[PartitionName, Reach] = field(default_factory=dict)
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    """Topics that were to be measured and do not exist any more."""


def take_inventory(client: Client, topics: Iterable[str], sample_records: int) -> Inventory:
    """Request the partitions of each topic, and the offsets to read of those with a leader.

    Topics that do not exist are listed as `gone`. Raises `WireError`.
    """
    found = Inventory()
    for name in sorted(set(topics)):
        try:
            topic = client.topic(name)
        except UnknownTopic:
            found.gone.append(name)
            continue
        found.topics[name] = topic
        with_leader = [index for index, facts in topic.partitions.items() if facts.leader_id >= 0]
        starts = client.offsets(topic, dict.fromkeys(with_leader, EARLIEST))
        ends = client.offsets(topic, dict.fromkeys(with_leader, LATEST))
        for index, facts in sorted(topic.partitions.items()):
            partition = PartitionName(name, PartitionIndex(index))
            found.partitions.append(partition_of(partition, facts))
            if index in starts:
                # The log may have been truncated between the two requests.
                start = min(starts[index], ends[index])
                found.reaches[partition] = reach(start, ends[index], sample_records)
    return found


def partition_of(name: PartitionName, facts: PartitionFacts) -> Partition:
    """A partition in the form that the proposal needs; only its replicas can be ISR or leader."""
    replicas = tuple(BrokerId(broker_id) for broker_id in facts.replicas)
    return Partition(
        name=name,
        replicas=replicas,
        isr=tuple(BrokerId(broker_id) for broker_id in facts.isr if broker_id in facts.replicas),
        leader=BrokerId(facts.leader_id) if facts.leader_id in facts.replicas else None,
        leader_epoch=LeaderEpoch(facts.leader_epoch),
    )
