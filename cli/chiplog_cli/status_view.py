"""What `status` shows of a cluster that is asked through Kafka's protocol.

Not the controller: the protocol names some broker as one, since old clients want one, and no broker
is. The operator is the controller, and Apache Kafka has processes of their own.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from chiplog_cli.facts import Broker, Cluster, Partition, Topic
from chiplog_cli.tables import table

BROKER_HEADER = ("BROKER", "ADDRESS", "RACK", "LEADERS", "REPLICAS")


def document(cluster: Cluster, topics: Sequence[Topic]) -> dict[str, Any]:
    """The cluster's state for JSON and YAML: counts, and its brokers."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "clusterId": cluster.cluster_id,
        "topics": len(topics),
        "partitions": len(partitions),
        "offlinePartitions": sum(partition.leader is None for partition in partitions),
        "underReplicatedPartitions": sum(partition.is_under_replicated for partition in partitions),
        "brokers": [_broker(broker, partitions) for broker in cluster.brokers],
    }


def _broker(broker: Broker, partitions: Iterable[Partition]) -> dict[str, Any]:
    """A broker with the numbers of partitions that it leads and has replicas of."""
    held = [partition for partition in partitions if broker.id in partition.replicas]
    return {
        "broker": broker.id,
        "address": f"{broker.host}:{broker.port}",
        "rack": broker.rack,
        "leaders": sum(partition.leader == broker.id for partition in held),
        "replicas": len(held),
    }


def text(cluster: Cluster, topics: Sequence[Topic]) -> str:
    """The cluster's state as text: counts, and a table of its brokers."""
    shown = document(cluster, topics)
    brokers = [tuple(broker.values()) for broker in shown["brokers"]]
    header = {
        "Cluster id": shown["clusterId"] or "unknown",
        "Topics": shown["topics"],
        "Partitions": f"{shown['partitions']} ({shown['offlinePartitions']} offline, "
        f"{shown['underReplicatedPartitions']} under-replicated)",
    }
    return f"{pairs(header)}\n\n{table(BROKER_HEADER, brokers)}"


def pairs(about: dict[str, Any]) -> str:
    """`Name:  value` lines, as `kubectl describe` has them."""
    width = max(map(len, about)) + 1
    return "\n".join(f"{name + ':':<{width}} {value}" for name, value in about.items())
