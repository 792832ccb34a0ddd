"""Fixtures: a cluster that nothing but files describes, as GitOps tools apply them."""

from collections.abc import Iterator
from typing import Any

import pytest

from chiplog_core.naming import ports
from e2e.cluster.helm import Helm
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import kept_whole, restricted_namespace, take_down, wait_for_metadata
from e2e.platform.files import Files, Values
from e2e.platform.releases import Release

NAMESPACE = "e2e-platform"
TOPIC, PARTITIONS, GROUP = "dev.orders", 3, "dev.readers"
LAG_OBJECTIVE = 50
METRICS_PORT = ports.METRICS


def values() -> Values:
    """Three small brokers on volumes that end where they say, one topic, one group."""
    config = {"min.insync.replicas": 2, "retention.ms": 3_600_000}
    external: dict[str, Any] = {"name": "external", "type": "nodeport", "port": 9094}
    return {
        "cluster": {
            "name": "dev",
            "spec": {
                "replicas": 3,
                "storage": {"class": "local-sized", "size": "1Gi"},
                "listeners": [
                    {"name": "plain", "type": "internal", "port": 9092},
                    {**external, "advertisedHost": "127.0.0.1"},
                ],
                "metrics": {"partitions": True},
            },
        },
        "topicPrefix": "dev.",
        "groupPrefix": "dev.",
        "topics": [
            {
                "name": "orders",
                "spec": {"partitions": PARTITIONS, "replicas": 3, "config": config},
            }
        ],
        "consumerGroups": [{"name": "readers", "spec": {"maxLag": {"records": LAG_OBJECTIVE}}}],
    }


@pytest.fixture(scope="session")
def files(target: Target) -> Files:
    """What a repository would hold, rendered from the chart."""
    kubectl = Kubectl(target.kubeconfig, NAMESPACE)
    release = Release(Helm(target.kubeconfig, NAMESPACE), "dev", "chiplog-cluster")
    return Files(kubectl, release, values())


@pytest.fixture(scope="package")
def cluster(operator: Operator, files: Files) -> Iterator[BrokerClusterUnderTest]:
    """A cluster in a namespace that admits restricted pods only; applied from files. It is removed
    before the tests of other lanes."""
    one = BrokerClusterUnderTest(files.kubectl, "dev")

    def set_up() -> None:
        kubectl = restricted_namespace(one)
        with evidence.printed(kubectl):
            operator.wait_whole()
            files.values = values()
            files.apply()
            one.wait_cluster_ready()
            one.wait_ready("ct", TOPIC)
            wait_for_metadata(one, TOPIC, PARTITIONS)

    set_up()
    with kept_whole(one, set_up, operator):
        yield one
    take_down(one)
