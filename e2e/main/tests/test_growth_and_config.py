"""A topic grows and never shrinks, and its configuration changes while brokers run on."""

import json
import time

import pytest

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

GROWTH_LIMIT_S = 5
HANG_LIMIT_S = 25
SEGMENT_BYTES = 1_048_576
# Small segments, and files that go at once when their segment goes.
QUICK = {"segment.bytes": SEGMENT_BYTES, "file.delete.delay.ms": 0}


def apply(cluster: BrokerClusterUnderTest, name: str, partitions: int) -> None:
    cluster.kubectl.apply(json.dumps(topic_manifest(name, partitions, cluster.name)))


def test_six_partitions_become_twelve_and_never_six_again(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("growing", 6)
    bootstrap, before = cluster.bootstrap, cluster.broker_pods()

    started_s = time.monotonic()
    apply(cluster, topic, 12)
    eventually(
        "clients are told of 12 partitions",
        lambda: client_metadata(bootstrap).is_whole(topic, 12),
        HANG_LIMIT_S,
    )
    took_s = time.monotonic() - started_s
    cluster.wait_ready("ct", topic, HANG_LIMIT_S)
    measured.note(
        f"6 to 12 partitions: {took_s:.1f} s after kubectl apply began (limit {GROWTH_LIMIT_S} s)"
    )
    assert client_metadata(bootstrap).led(topic) == {1: 4, 2: 4, 3: 4}
    # The new ones take records like the old ones.
    for partition in (0, 11):
        Librdkafka().produce(bootstrap, topic, [Record(b"grown")], partition=partition)
        assert end_offsets(bootstrap, topic, [partition]) == [1]

    manifest = json.dumps(topic_manifest(topic, 6, cluster.name))
    refused = cluster.kubectl.fails("apply", "-f", "-", input_text=manifest)
    assert "partitions" in refused, refused
    command = ("kafka-topics.sh", "--bootstrap-server", bootstrap, "--alter", "--topic", topic)
    assert "InvalidPartitions" in run_tool(*command, "--partitions", "6", check=False)
    assert client_metadata(bootstrap).is_whole(topic, 12)
    assert cluster.broker_pods() == before


def fill(bootstrap: str, topic: str) -> int:
    """Write several segments into the one partition; returns its end offset."""
    Librdkafka().produce(bootstrap, topic, [Record(b"." * 60_000) for _ in range(60)])
    (end,) = end_offsets(bootstrap, topic, [0])
    assert end == 60
    return end


def leader_pod(cluster: BrokerClusterUnderTest, topic: str) -> str:
    (leader,) = cluster.partitions_of(topic)
    return f"{cluster.name}-broker-{leader['leader'].partition('@')[0]}-0"


def wait_expired(cluster: BrokerClusterUnderTest, topic: str, end: int) -> float:
    """Wait until everything below `end` is gone for clients, and its files off the volume."""
    pod = leader_pod(cluster, topic)

    def expired() -> bool:
        left = cluster.segments(pod, topic, 0)
        assert sum(left.values()) == 0, f"on {pod}: {left}"
        offsets = run_tool(
            "kafka-get-offsets.sh",
            *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--time", "earliest"),
        )
        assert offsets.split() == [f"{topic}:0:{end}"], offsets
        return True

    return eventually(f"{topic} expired", expired, HANG_LIMIT_S)


def test_retention_changed_by_kubectl(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("expiring-by-kubectl", config=QUICK)
    before, end = cluster.broker_pods(), fill(cluster.bootstrap, topic)
    assert len(cluster.segments(leader_pod(cluster, topic), topic, 0)) > 2
    patch = '{"spec": {"config": {"retention.ms": 1}}}'
    cluster.kubectl("patch", "ct", topic, "--type=merge", "-p", patch)
    measured.note(f"expired {wait_expired(cluster, topic, end):.1f} s after kubectl patch")
    assert cluster.broker_pods() == before


def test_retention_changed_by_config_command(cluster: BrokerClusterUnderTest) -> None:
    topic, bootstrap = "expiring-by-command", cluster.bootstrap
    config = [word for name, value in QUICK.items() for word in ("--config", f"{name}={value}")]
    create = ("kafka-topics.sh", "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    run_tool(*create, "--partitions", "1", *config)
    try:
        before, end = cluster.broker_pods(), fill(bootstrap, topic)
        assert len(cluster.segments(leader_pod(cluster, topic), topic, 0)) > 2
        alter = ("kafka-configs.sh", "--bootstrap-server", bootstrap, "--topic", topic, "--alter")
        run_tool(*alter, "--add-config", "retention.ms=1")
        measured.note(f"expired {wait_expired(cluster, topic, end):.1f} s after kafka-configs.sh")
        assert str(cluster.kubectl.get("ct", topic)["spec"]["config"]["retention.ms"]) == "1"
        assert cluster.broker_pods() == before
    finally:
        cluster.kubectl("delete", "ct", topic, "--ignore-not-found", "--wait=false")


def test_what_kubectl_owns_a_client_may_not_change(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("owned-by-kubectl", config={"retention.ms": 60_000})
    alter = ("kafka-configs.sh", "--bootstrap-server", cluster.bootstrap, "--topic", topic)
    refused = run_tool(*alter, "--alter", "--add-config", "retention.ms=1", check=False)
    assert "PolicyViolationException" in refused, refused
    assert "kubectl" in refused, "it names who owns the field"
    assert topic in refused, "it names the object"
    assert cluster.kubectl.get("ct", topic)["spec"]["config"] == {"retention.ms": 60_000}
