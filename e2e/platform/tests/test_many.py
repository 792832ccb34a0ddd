"""200 topics and 50 groups: what a scrape takes, and what the operator takes while nothing is."""

import json
import time
from statistics import median

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e import measured
from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import eventually
from e2e.main.at_rest import HANG, note_at_rest
from e2e.main.broker_cluster import BrokerClusterUnderTest, is_ready, topic_manifest
from e2e.main.operator import Operator
from e2e.platform.prometheus import scrape
from e2e.platform.tests.conftest import METRICS_PORT

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]

TOPICS, GROUPS = 200, 50
READY_LIMIT_S, SCRAPE_LIMIT_S = 60, 0.2
SCRAPES = 11
LABELS = {"e2e": "many"}
SELECTOR = ("-l", "e2e=many")


def manifests(cluster: BrokerClusterUnderTest) -> str:
    """All of them in one List."""
    topics = [topic_manifest(f"many-{number:03}", 1, cluster.name) for number in range(TOPICS)]
    groups = [
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": f"many-{number:02}"},
            "spec": {"clusterRef": {"name": cluster.name}, "maxLag": {"records": 10}},
        }
        for number in range(GROUPS)
    ]
    items = [*topics, *groups]
    for one in items:
        one["metadata"]["labels"] = LABELS
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def commit(bootstrap: str) -> None:
    """Commit offsets of four topics for each group."""
    for number in range(GROUPS):
        settings = {"bootstrap.servers": bootstrap, "group.id": f"many-{number:02}", **QUIET}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        wanted = [TopicPartition(f"many-{number * 4 + n:03}", 0, 0) for n in range(4)]
        for done in consumer.commit(offsets=wanted, asynchronous=False) or ():
            assert done.error is None, done
        consumer.close()


def lines(address: str, beginning: str) -> int:
    return sum(line.startswith(beginning) for line in scrape(address).page.decode().splitlines())


def test_many_topics_and_groups(cluster: BrokerClusterUnderTest, operator: Operator) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", input_text=manifests(cluster))
    try:
        eventually("all topics are Ready", lambda: all_ready(cluster), HANG * READY_LIMIT_S)
        commit(cluster.bootstrap)
        leader = f"{operator.leader()['status']['podIP']}:{METRICS_PORT}"
        eventually(
            "the operator shows the lag of every group",
            lambda: lines(leader, "kafka_consumergroup_lag_sum{") >= 4 * GROUPS,
            60,
        )
        assert lines(leader, "chiplog_topic_ready{") >= TOPICS
        broker = f"{cluster.pods()[0]['status']['podIP']}:{METRICS_PORT}"
        for name, address in (("the operator", leader), ("a broker", broker)):
            scrapes = [scrape(address) for _ in range(SCRAPES)]
            middle_ms, worst_ms = (1000 * f(one.seconds for one in scrapes) for f in (median, max))
            measured.note(
                f"{TOPICS} topics, {GROUPS} groups: a scrape of {name} takes {middle_ms:.0f} ms, "
                f"at most {worst_ms:.0f} (limit {1000 * SCRAPE_LIMIT_S:.0f} ms), "
                f"{len(scrapes[0].page) / 1e3:.0f} kB"
            )
            assert worst_ms / 1000 <= HANG * SCRAPE_LIMIT_S
        note_at_rest(operator)
    finally:
        cluster.kubectl("delete", "ct,ccg", *SELECTOR, "--wait=false", timeout_s=180)
    began_s = time.monotonic()
    eventually("they are gone", lambda: none_left(cluster), HANG * READY_LIMIT_S)
    measured.note(f"gone {time.monotonic() - began_s:.1f} s after they were deleted")


def all_ready(cluster: BrokerClusterUnderTest) -> bool:
    items = cluster.kubectl.get("ct", *SELECTOR)["items"]
    ready = sum(map(is_ready, items))
    assert ready == TOPICS, f"{ready} of {len(items)} are Ready"
    return True


def none_left(cluster: BrokerClusterUnderTest) -> bool:
    left = cluster.kubectl.get("ct,ccg", *SELECTOR)["items"]
    assert not left, f"{len(left)} are left"
    return True
