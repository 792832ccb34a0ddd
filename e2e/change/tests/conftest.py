"""Fixtures: a cluster whose replicas and brokers these tests change."""

from collections.abc import Iterator
from typing import Protocol

import pytest

from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in, make_topic

NAMESPACE = "e2e-change"


@pytest.fixture(scope="session")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """`examples/orders.yaml` in a namespace of its own. Tests leave three brokers behind."""
    with cluster_in(target, NAMESPACE, example({}), operator=operator) as one:
        yield one


class NewTopic(Protocol):
    def __call__(self, name: str, partitions: int = 1, **spec: object) -> str: ...


@pytest.fixture
def new_topic(cluster: BrokerClusterUnderTest) -> Iterator[NewTopic]:
    """Applies a Topic, waits until clients can use it, and deletes it after the test."""
    made: list[str] = []

    def apply(name: str, partitions: int = 1, **spec: object) -> str:
        made.append(name)
        return make_topic(cluster, name, partitions, **spec)

    yield apply
    if made:
        cluster.kubectl("delete", "ct", *made, "--ignore-not-found", "--wait=false")
