"""Fixtures: one cluster that all tests share, and topics of their own."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Protocol

import pytest

from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from chiplog_core.topic_name import CONSUMER_OFFSETS
from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest, example, topic_manifest
from e2e.main.cluster_metadata import told
from e2e.main.operator import Operator

NAMESPACE = "e2e-main"
CONFIG: dict[str, object] = {
    # Retention is seen at once, not after five minutes.
    "log.retention.check.interval.ms": 500,
    # Only consumers that name a rack notice it.
    REPLICA_SELECTOR_CLASS.name: RACK_AWARE_SELECTOR,
}


@pytest.fixture(scope="session")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """`examples/orders.yaml` in a namespace of its own: three brokers, a topic of six partitions.

    The namespace admits nothing that is not within the restricted Pod Security Standard.

    Tests may use `orders` and leave records in it; everything else they make they remove.
    """
    kubectl = Kubectl(target.kubeconfig, NAMESPACE)
    kubectl.recreate_namespace()
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    one = BrokerClusterUnderTest(kubectl)
    try:
        kubectl.apply(example(CONFIG))
        cluster_s, topic_s = one.wait_cluster_ready(), one.wait_ready("kt", "orders")
        measured.note(
            f"{NAMESPACE}: cluster Ready after {cluster_s:.1f} s, orders {topic_s:.1f} s more"
        )
        # The second is made with the cluster, whether anybody is in a group or not.
        for topic, partitions in (("orders", 6), (CONSUMER_OFFSETS, 50)):
            eventually(
                f"clients are told of {topic}",
                partial(is_whole, one.bootstrap, topic, partitions),
                30,
            )
    except BaseException:
        # Setting up fails outside of a test: what was found is printed where it happened.
        for title, text in evidence.gather(kubectl):
            print(f"---- {title}\n{text}")
        raise
    yield one
    kubectl.delete_namespace()


def is_whole(bootstrap: str, topic: str, partitions: int) -> bool:
    return told(bootstrap).is_whole(topic, partitions)


class NewTopic(Protocol):
    def __call__(self, name: str, partitions: int = 1, **spec: object) -> str: ...


@pytest.fixture
def new_topic(cluster: BrokerClusterUnderTest) -> Iterator[NewTopic]:
    """Applies a Topic, waits until clients can use it, and deletes it after the test."""
    made: list[str] = []

    def apply(name: str, partitions: int = 1, **spec: object) -> str:
        manifest = topic_manifest(name, partitions, cluster.name, **spec)
        made.append(name)
        cluster.kubectl.apply(json.dumps(manifest))
        cluster.wait_ready("kt", name, 60)
        kafka_name = str(spec.get("topicName", name))
        bootstrap = cluster.bootstrap
        eventually(
            f"clients are told of {kafka_name}",
            lambda: told(bootstrap).is_whole(kafka_name, partitions),
            20,
        )
        return kafka_name

    yield apply
    if made:
        cluster.kubectl("delete", "kt", *made, "--ignore-not-found", "--wait=false")
