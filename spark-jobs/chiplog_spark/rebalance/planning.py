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
    """Request the state of each topic; raises `WireError`."""
    found = Inventory()
    for name in sorted(set(topics)):
        try:
            topic = client.topic(name)
        except UnknownTopic:
            found.gone.append(name)
            continue
        found.topics[name] = topic
        led = [
            index
            for index, replica_facts in topic.partitions.items()
            if replica_facts.leader_id >= 0
        ]
        starts = client.offsets(topic, dict.fromkeys(led, EARLIEST))
        ends = client.offsets(topic, dict.fromkeys(led, LATEST))
        for index, facts in sorted(topic.partitions.items()):
            place = PartitionName(name, PartitionIndex(index))
            found.partitions.append(partition_of(place, facts))
            if index in starts:
                # Retention may have moved the start beyond an end that was asked for before.
                start = min(starts[index], ends[index])
                found.reaches[place] = reach(start, ends[index], sample_records)
    return found


def partition_of(name: PartitionName, facts: PartitionFacts) -> Partition:
    """The partition in the form that the proposal needs."""
    replicas = tuple(BrokerId(broker_id) for broker_id in facts.replicas)
    return Partition(
        name=name,
        replicas=replicas,
        isr=tuple(BrokerId(broker_id) for broker_id in facts.isr if broker_id in facts.replicas),
        leader=BrokerId(facts.leader_id) if facts.leader_id in facts.replicas else None,
        leader_epoch=LeaderEpoch(facts.leader_epoch),
    )
