"""Topics as `kafka-topics.sh` shows them, and as documents."""

from collections.abc import Iterable, Mapping
from typing import Any

from chiplog_cli.facts import Partition, Topic

NOT_AVAILABLE = "N/A"
"""Shown for the eligible leader replicas (KIP-966), which Chiplog has not, as Kafka's tool does."""

Configs = Mapping[str, Mapping[str, str]]
"""By topic, the configuration keys that differ from Kafka's defaults."""


def describe_text(topics: Iterable[Topic], configs: Configs) -> str:
    """A line for each topic, and one after a tab for each of its partitions."""
    lines: list[str] = []
    for topic in topics:
        lines.append(_topic_line(topic, configs.get(topic.name, {})))
        lines.extend(partition_line(topic.name, partition) for partition in topic.partitions)
    return "\n".join(lines)


def _topic_line(topic: Topic, config: Mapping[str, str]) -> str:
    """The line about a topic, as `kafka-topics.sh --describe` prints it."""
    shown = {
        "Topic": topic.name,
        "TopicId": topic.topic_id,
        "PartitionCount": len(topic.partitions),
        "ReplicationFactor": topic.replication_factor,
        "Configs": ",".join(f"{key}={value}" for key, value in sorted(config.items())),
    }
    return "\t".join(f"{name}: {value}" for name, value in shown.items())


def partition_line(topic: str, partition: Partition) -> str:
    """The line about a partition, as `kafka-topics.sh --describe` prints it."""
    shown = {
        "Topic": topic,
        "Partition": partition.partition,
        "Leader": "none" if partition.leader is None else partition.leader,
        "Replicas": _ids(partition.replicas),
        "Isr": _ids(partition.isr),
        **_reassignment(partition),
        "Elr": NOT_AVAILABLE,
        "LastKnownElr": NOT_AVAILABLE,
    }
    return "".join(f"\t{name}: {value}" for name, value in shown.items())


def _reassignment(partition: Partition) -> dict[str, str]:
    """The fields about a partition's reassignment; none if there is none."""
    if not partition.adding and not partition.removing:
        return {}
    return {
        "Adding Replicas": _ids(partition.adding),
        "Removing Replicas": _ids(partition.removing),
    }


def partitions_text(topics: Iterable[Topic]) -> str:
    """A line for each partition, and none for the topics, as with --under-replicated-partitions."""
    return "\n".join(
        partition_line(topic.name, partition) for topic in topics for partition in topic.partitions
    )


def documents(topics: Iterable[Topic], configs: Configs) -> list[dict[str, Any]]:
    """The topics for JSON and YAML. A topic without an entry in `configs` has no configuration."""
    return [
        {
            "topic": topic.name,
            "topicId": topic.topic_id,
            "internal": topic.is_internal,
            "partitionCount": len(topic.partitions),
            "replicationFactor": topic.replication_factor,
            "config": dict(sorted(configs.get(topic.name, {}).items())),
            "partitions": [
                {
                    "partition": partition.partition,
                    "leader": partition.leader,
                    "replicas": list(partition.replicas),
                    "isr": list(partition.isr),
                    "addingReplicas": list(partition.adding),
                    "removingReplicas": list(partition.removing),
                }
                for partition in topic.partitions
            ],
        }
        for topic in topics
    ]


def under_replicated(partition: Partition) -> bool:
    return partition.is_under_replicated


def unavailable(partition: Partition) -> bool:
    """Whether the partition has no leader, so that it can be neither read nor written."""
    return partition.leader is None


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
