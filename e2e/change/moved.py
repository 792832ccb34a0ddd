"""Data to move, and waits until replicas have moved."""

import os

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, shown
from e2e.main.replicas import place, pod_of

MOVED_LIMIT_S = 120
RECORD_BYTES = 8192


def fill(cluster: BrokerClusterUnderTest, topic: str, size_bytes: int) -> set[bytes]:
    """Write so many bytes that do not compress to the topic; returns the records' values."""
    values = [os.urandom(RECORD_BYTES) for _ in range(size_bytes // RECORD_BYTES)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    return set(values)


def wait_replicas(
    cluster: BrokerClusterUnderTest, topic: str, count: int, limit_s: float = MOVED_LIMIT_S
) -> float:
    """Wait until each partition has this many replicas, all of them in sync, and no data is left
    elsewhere; returns the seconds it took."""

    def complete() -> bool:
        states = cluster.partitions_of(topic)
        open_moves = [state for state in states if not _is_settled(state, count)]
        assert not open_moves, open_moves[:3]
        return True

    return eventually(f"{topic} has {count} replicas", complete, limit_s, every_s=0.2)


def _is_settled(state: Manifest, count: int) -> bool:
    is_moving = state.get("adding") or state.get("removing") or state.get("leftovers")
    return not is_moving and len(state["replicas"]) == count and place(state).is_whole


def wait_quiesced(cluster: BrokerClusterUnderTest, limit_s: float = MOVED_LIMIT_S) -> float:
    """Wait until the cluster is Ready and nothing moves any more; returns the seconds it took."""

    def quiesced() -> bool:
        found = cluster.kubectl.get("cbc", cluster.name)
        generation = found["metadata"]["generation"]
        done = {
            one["type"]
            for one in found["status"]["conditions"]
            if one["status"] == "True" and one["observedGeneration"] == generation
        }
        assert {"Ready", "Quiesced"} <= done, shown(found)
        return True

    return eventually("nothing moves", quiesced, limit_s, every_s=0.5)


def wait_pods(
    cluster: BrokerClusterUnderTest, *brokers: int, limit_s: float = MOVED_LIMIT_S
) -> float:
    """Wait until exactly these brokers have a pod; returns the seconds it took."""
    wanted = sorted(pod_of(cluster, broker) for broker in brokers)

    def are_left() -> bool:
        found = sorted(cluster.broker_pods())
        assert found == wanted, found
        return True

    return eventually(f"only brokers {brokers} have a pod", are_left, limit_s, every_s=0.5)


def broker_ids(cluster: BrokerClusterUnderTest) -> set[int]:
    """The ids of all brokers that have a pod. An id is never used twice."""
    return {int(one.rsplit("-", 2)[-2]) for one in cluster.broker_pods()}
