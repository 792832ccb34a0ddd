"""The quotas of a User hold on Kubernetes, and a change of them needs no restart."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, Producer

from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

TOPIC, NAME = "of-limited", "limited"
WAIT_S = 60
LIMITED = user(NAME, "scram-sha-512", ("topic", TOPIC, ["Write", "Describe"]))


def throttled_ms(settings: dict[str, Any]) -> int:
    """The longest throttle time in answers to librdkafka while it sent 200 kB to one partition."""
    told = [0]
    producer = Producer(
        {
            **settings,
            "linger.ms": 100,
            "throttle_cb": lambda event: told.append(int(event.throttle_time * 1000)),
        }
    )
    outcomes: list[KafkaError | None] = []
    for _ in range(20):
        producer.produce(
            TOPIC, b"x" * 10_000, partition=0, on_delivery=lambda error, _: outcomes.append(error)
        )
    producer.flush(30)
    producer.poll(0.1)
    assert outcomes == [None] * 20
    return max(told)


def test_a_quota_of_a_user_holds_until_it_is_changed(
    cluster: BrokerClusterUnderTest, tmp_path: Path
) -> None:
    kubectl, before = cluster.kubectl, cluster.broker_pods()
    LIMITED["spec"]["quotas"] = {"producerByteRate": 50_000}
    kubectl.apply(yaml.safe_dump_all([topic_manifest(TOPIC, 1, replicas=3), LIMITED]))
    try:
        cluster.wait_ready("ct", TOPIC)
        cluster.wait_ready("users.chiplog.dev", NAME)
        conditions = kubectl.get("users.chiplog.dev", NAME)["status"]["conditions"]
        assert "Warning" not in {one["type"] for one in conditions}
        settings = Credentials(cluster, NAME, tmp_path / NAME).librdkafka()
        eventually("the user is throttled", lambda: throttled_ms(settings) > 1_000, WAIT_S)
        LIMITED["spec"]["quotas"] = {"producerByteRate": 1_000_000_000}
        kubectl.apply(yaml.safe_dump_all([LIMITED]))
        eventually("it is not any more", lambda: throttled_ms(settings) == 0, WAIT_S)
        assert cluster.broker_pods() == before, "no broker restarts for a quota"
    finally:
        kubectl("delete", "users.chiplog.dev", NAME, "--wait=false")
        kubectl("delete", "ct", TOPIC, "--wait=false")
