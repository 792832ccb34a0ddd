"""Fixtures: a cluster whose replicas and brokers these tests change."""

from collections.abc import Iterator

import pytest

from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.setting_up import NewTopic, cluster_in, new_topics

NAMESPACE = "e2e-change"


@pytest.fixture(scope="package")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """`examples/orders.yaml` in a namespace of its own. Tests leave three brokers behind.

    It is removed before the tests of other lanes, so that it takes no CPU from them."""
    with cluster_in(target, NAMESPACE, example({}), operator=operator) as one:
        yield one


@pytest.fixture
def new_topic(cluster: BrokerClusterUnderTest) -> Iterator[NewTopic]:
    """Creates topics, which are deleted after the test."""
    with new_topics(cluster) as make:
        yield make
