"""Fixtures: one cluster that all tests share, and topics of their own."""

from collections.abc import Iterator

import pytest

from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from chiplog_core.topic_name import CONSUMER_OFFSETS
from e2e import measured
from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.setting_up import NewTopic, cluster_in, new_topics, wait_for_metadata

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

    def settled(one: BrokerClusterUnderTest) -> None:
        topic_s = one.wait_ready("ct", "orders")
        # The second is made with the cluster, whether anybody is in a group or not.
        for topic, partitions in (("orders", 6), (CONSUMER_OFFSETS, 50)):
            wait_for_metadata(one, topic, partitions)
        measured.note(f"{NAMESPACE}: orders Ready {topic_s:.1f} s after its cluster")

    manifests = example(CONFIG)
    with cluster_in(target, NAMESPACE, manifests, operator=operator, settled=settled) as one:
        yield one


@pytest.fixture
def new_topic(cluster: BrokerClusterUnderTest) -> Iterator[NewTopic]:
    """Creates topics, which are deleted after the test."""
    with new_topics(cluster) as make:
        yield make
