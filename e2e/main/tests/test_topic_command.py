"""Kafka's own TopicCommand and kubectl see and change the same topics."""

import json

import pytest

from chiplog_core.naming import labels, names
from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]


def topics(cluster: BrokerClusterUnderTest, *arguments: str, check: bool = True) -> str:
    command = ("kafka-topics.sh", "--bootstrap-server", cluster.bootstrap)
    return run_tool(*command, *arguments, check=check).strip("\n")


def listed(cluster: BrokerClusterUnderTest) -> set[str]:
    return set(topics(cluster, "--list").split())


def managers(cluster: BrokerClusterUnderTest, topic: str) -> set[str]:
    """The field managers of an object's spec."""
    fields = cluster.kubectl("get", "ct", topic, "-o", "json", "--show-managed-fields")
    entries = json.loads(fields)["metadata"]["managedFields"]
    return {one["manager"] for one in entries if "f:spec" in one["fieldsV1"]}


def test_create_makes_an_object_and_kubectl_delete_takes_the_topic(
    cluster: BrokerClusterUnderTest,
) -> None:
    arguments = ("--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000")
    printed = topics(cluster, "--create", "--topic", "user-events", *arguments)
    assert "Created topic user-events." in printed

    made = cluster.kubectl.get("ct", "user-events")
    assert made["spec"]["clusterRef"]["name"] == cluster.name
    assert (made["spec"]["partitions"], made["spec"]["replicas"]) == (3, 1)
    assert {name: str(value) for name, value in made["spec"]["config"].items()} == {
        "retention.ms": "60000"
    }
    assert managers(cluster, "user-events") == {labels.KAFKA_ADMIN}
    cluster.wait_ready("ct", "user-events", 30)
    assert "PartitionCount: 3" in topics(cluster, "--describe", "--topic", "user-events")

    cluster.kubectl("delete", "topic", "user-events", "--timeout=60s")
    gone_s = eventually(
        "clients are not told of user-events", lambda: "user-events" not in listed(cluster), 30
    )
    measured.note(f"from the object's end to the topic's, as clients see it: {gone_s:.1f} s")
    # Of the data too nothing stays, and the name is free: the map says so by being gone.
    cluster.wait_gone("pmap", names.partition_map(cluster.name, "user-events"), 60)


def test_delete_by_a_client_takes_the_object(cluster: BrokerClusterUnderTest) -> None:
    topics(cluster, "--create", "--topic", "short-lived", "--partitions", "1")
    cluster.wait_ready("ct", "short-lived", 30)
    topics(cluster, "--delete", "--topic", "short-lived")
    cluster.wait_gone("ct", "short-lived", 30)
    assert "short-lived" not in listed(cluster)


def test_a_name_kubernetes_cannot_have_works_from_a_client(cluster: BrokerClusterUnderTest) -> None:
    name = names.object_name("order_placed")
    topics(cluster, "--create", "--topic", "order_placed", "--partitions", "2")
    made = cluster.kubectl.get("ct", name)
    assert made["spec"]["topicName"] == "order_placed"
    cluster.wait_ready("ct", name, 30)
    topics(cluster, "--alter", "--topic", "order_placed", "--partitions", "3")
    assert cluster.kubectl.get("ct", name)["spec"]["partitions"] == 3
    topics(cluster, "--delete", "--topic", "order_placed")
    cluster.wait_gone("ct", name, 30)


def test_a_name_kubernetes_cannot_have_works_from_kubectl(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    assert new_topic("order-placed", 2, topicName="order_placed") == "order_placed"
    assert "PartitionCount: 2" in topics(cluster, "--describe", "--topic", "order_placed")
    # The status of a second object for the same topic names the first.
    second = topic_manifest("order-placed-again", 2, cluster.name, topicName="order_placed")
    cluster.kubectl.apply(json.dumps(second))
    try:
        eventually("the second one is refused", lambda: refused(cluster, "order-placed-again"), 30)
    finally:
        cluster.kubectl("delete", "ct", "order-placed-again", "--timeout=60s")
    assert "PartitionCount: 2" in topics(cluster, "--describe", "--topic", "order_placed")


def refused(cluster: BrokerClusterUnderTest, topic: str) -> bool:
    """Whether a Topic's Ready condition says False and names the object that has the name."""
    status = cluster.kubectl.get("ct", topic).get("status", {})
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert ready["status"] == "False", status
    assert "order-placed" in ready["message"], status
    return True
