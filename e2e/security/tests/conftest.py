"""Fixtures: a cluster whose clients need credentials."""

from collections.abc import Iterator

import pytest
import yaml

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in
from e2e.security.outside import LoadBalancers, gateway_api
from e2e.security.secured import CLUSTER

NAMESPACE = "e2e-security"


@pytest.fixture(scope="package")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """`secured.CLUSTER` in a namespace of its own, removed before the tests of other lanes."""
    kubectl = Kubectl(target.kubeconfig, NAMESPACE)
    with (
        gateway_api(kubectl),
        LoadBalancers(kubectl).running(),
        cluster_in(target, NAMESPACE, yaml.safe_dump(CLUSTER), operator=operator) as one,
    ):
        yield one
