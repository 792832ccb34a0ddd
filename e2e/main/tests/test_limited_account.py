"""An account with few rights, on real nodes: what its pods get, and what it gets by trying."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.limited_account import Limited
from e2e.main.operator import Operator
from e2e.main.setting_up import restricted_namespace, take_down

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

NAMESPACE = "e2e-limited"
OWN = "own"
STORAGE = {"size": "1Gi"}
CLUSTER: dict[str, Any] = {"replicas": 1, "storage": STORAGE}


@pytest.fixture
def limited(target: Target, operator: Operator) -> Iterator[Limited]:
    assert operator.pods()
    one = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE), OWN)
    found = Limited(restricted_namespace(one))
    found.begin()
    yield found
    take_down(one)


def secrets_of(pod: dict[str, Any]) -> set[str]:
    """Every Secret that a pod names."""
    spec = pod["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    named = {
        reference["secretRef"]["name"]
        for one in containers
        for reference in one.get("envFrom", [])
        if "secretRef" in reference
    } | {
        variable["valueFrom"]["secretKeyRef"]["name"]
        for one in containers
        for variable in one.get("env", [])
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    sources = [
        source
        for volume in spec["volumes"]
        for source in (volume, *volume.get("projected", {}).get("sources", []))
    ]
    return named | {
        one["secret"].get("secretName") or one["secret"]["name"]
        for one in sources
        if "secret" in one
    }


def test_its_brokers_run_and_get_nothing_of_others(
    limited: Limited, cluster: BrokerClusterUnderTest
) -> None:
    kubectl = limited.kubectl
    limited.create("BrokerCluster", OWN, **CLUSTER)
    # Pods that would get another application's traffic, or push everything else off the node.
    for field, template in (
        ("labels", {"labels": {"app.kubernetes.io/name": "shop"}}),
        ("priorityClassName", {"priorityClassName": "system-node-critical"}),
    ):
        said = limited.refused("BrokerCluster", "posing", **CLUSTER, template=template)
        assert f"spec.template.{field}: Forbidden" in said
    limited.create("BrokerCluster", "payments", **CLUSTER)
    # A cluster of another namespace, which admits no Topic from here.
    foreign = {"name": cluster.name, "namespace": cluster.kubectl.namespace}
    limited.create("Topic", "theirs", clusterRef=foreign, partitions=1)
    limited.create("Topic", "ours", clusterRef={"name": OWN}, partitions=1, replicas=1)
    account = {"serviceAccountName": "powerful"}
    said = limited.refused("Verification", "borrowed", clusterRef={"name": OWN}, spark=account)
    assert "spec.spark.serviceAccountName is powerful, and you may not create pods" in said

    own = BrokerClusterUnderTest(kubectl, OWN)
    own.wait_cluster_ready()
    own.wait_ready("ct", "ours")
    limited.has_condition("brokercluster", "payments", "payments-internal")
    limited.has_condition("topic", "theirs", "allowedTopicNamespaces")

    pods = kubectl.get("pods")["items"]
    assert {pod["metadata"]["labels"]["chiplog.dev/cluster"] for pod in pods} == {OWN}
    for pod in pods:
        assert pod["spec"]["serviceAccountName"].startswith(f"{OWN}-")
        secrets = secrets_of(pod)
        assert secrets, "its own"
        assert all(name.startswith(f"{OWN}-") for name in secrets), secrets
        assert "hostPath" not in json.dumps(pod["spec"]["volumes"])
    limited.has_nothing()
