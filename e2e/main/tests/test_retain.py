"""With deletionPolicy Retain a deleted object leaves its topic, and an equal one takes it over."""

import json

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import client_metadata

pytestmark = [pytest.mark.main, pytest.mark.timeout(200)]

TOPIC = "retained"
RECORDS = [Record(b"first"), Record(b"second")]


def apply(cluster: BrokerClusterUnderTest, policy: str) -> str:
    """Apply the Topic and return its id once it is Ready."""
    manifest = topic_manifest(TOPIC, 1, cluster.name, deletionPolicy=policy)
    cluster.kubectl.apply(json.dumps(manifest))
    cluster.wait_ready("ct", TOPIC, 60)
    return str(cluster.kubectl.get("ct", TOPIC)["status"]["topicId"])


def test_a_retained_topic_serves_on_and_is_taken_over(cluster: BrokerClusterUnderTest) -> None:
    bootstrap = cluster.bootstrap
    topic_id = apply(cluster, "Retain")
    eventually("clients see it", lambda: client_metadata(bootstrap).is_whole(TOPIC, 1), 20)
    Librdkafka().produce(bootstrap, TOPIC, RECORDS[:1])

    cluster.kubectl("delete", "ct", TOPIC, "--timeout=60s")
    Librdkafka().produce(bootstrap, TOPIC, RECORDS[1:])
    assert [one.record for one in Librdkafka().consume(bootstrap, TOPIC, 0, 2)] == RECORDS

    assert apply(cluster, "Delete") == topic_id
    assert [one.record for one in Librdkafka().consume(bootstrap, TOPIC, 0, 2)] == RECORDS
    cluster.kubectl("delete", "ct", TOPIC, "--timeout=60s")
    eventually("the topic is gone", lambda: TOPIC not in client_metadata(bootstrap).leaders, 30)
