"""A Rebalance as its users steer it, and a cluster that needs one."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from chiplog_core.naming import labels
from e2e.clients.by_kafka_python import KafkaConsumer, TopicPartition
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest

READ_LIMIT_MS = 20_000


@dataclass(slots=True)
class Counted:
    """What an ordinary Kafka consumer reads of a topic, counted."""

    records: Counter[int] = field(default_factory=Counter)
    """Partition -> records."""
    size_bytes: Counter[int] = field(default_factory=Counter)
    """Partition -> bytes of keys and values."""
    keys: Counter[tuple[int, bytes]] = field(default_factory=Counter)
    """Partition and key -> records."""


def counted(bootstrap: str, topic: str, partitions: int) -> Counted:
    """Read and count all records of a topic with kafka-python, up to its current end."""
    places, found = [TopicPartition(topic, n) for n in range(partitions)], Counted()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=READ_LIMIT_MS
    )
    try:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        missing = sum(consumer.end_offsets(places).values())
        for one in consumer:
            found.records[one.partition] += 1
            found.size_bytes[one.partition] += len(one.key or b"") + len(one.value or b"")
            found.keys[one.partition, one.key or b""] += 1
            missing -= 1
            if not missing:
                break
    finally:
        consumer.close()
    assert not missing, f"{missing} records of {topic} were not read"
    return found


def lead_all(cluster: BrokerClusterUnderTest, topic: str, broker: int) -> None:
    """Make one broker the leader and the preferred leader of all partitions of a topic.

    No field of the API asks for this, so the PartitionMap is replaced directly.
    """

    def is_written() -> bool:
        found = cluster.map_of(topic)
        (generation,) = found["spec"]["generations"]
        for state in generation["partitions"]:
            state["replicas"].sort(key=lambda one: one != broker)
            state["isr"].sort(key=lambda one: not one.startswith(f"{broker}@"))
            assert state["isr"][0].startswith(f"{broker}@"), f"broker {broker} is not in sync"
            state["leader"] = state["isr"][0]
            state["leaderEpoch"] += 1
            state["partitionEpoch"] += 1
        cluster.kubectl("replace", "-f", "-", input_text=json.dumps(found))
        return True

    eventually(f"broker {broker} is to lead {topic}", is_written)


@dataclass(frozen=True, slots=True)
class RebalanceUnderTest:
    """One Rebalance of a BrokerCluster, in its namespace."""

    kubectl: Kubectl
    cluster: str
    name: str = "even"

    def apply(self, **spec: Any) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Rebalance",
            "metadata": {"name": self.name},
            "spec": {"clusterRef": {"name": self.cluster}, **spec},
        }
        self.kubectl.apply(json.dumps(manifest))

    def say(self, word: str) -> None:
        """Set the annotation that steers the Rebalance; `word` is approve, stop or refresh."""
        self.kubectl("annotate", "rebalance", self.name, f"{labels.REBALANCE}={word}")

    def status(self) -> Manifest:
        found: Manifest = self.kubectl.get("rebalance", self.name)
        status: Manifest = found.get("status", {})
        return status

    def wait(self, state: str, limit_s: float) -> Manifest:
        """Wait for a state; returns the status."""
        found: list[Manifest] = []

        def is_there() -> bool:
            status = self.status()
            seen, conditions = status.get("state"), status.get("conditions")
            assert seen == state, f"{seen}: {json.dumps(conditions)}"
            found.append(status)
            return True

        eventually(f"rebalance/{self.name} is {state}", is_there, limit_s, every_s=0.5)
        return found[-1]
