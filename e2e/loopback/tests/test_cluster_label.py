"""The cluster's label and the selectable fields, as kubectl and GitOps tools meet them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.loopback.cluster import NAMESPACE, WithoutBrokers

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

LABEL = "chiplog.dev/cluster"
LIMIT_S = 60


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with WithoutBrokers(tmp_path / "cluster") as one:
        yield Kubectl(one.server.administrator(), NAMESPACE)


def manifest(kind: str, name: str, spec: dict[str, Any]) -> str:
    about = {"name": name, "labels": {"team": "a"}}
    return json.dumps(
        {"apiVersion": "chiplog.dev/v1alpha1", "kind": kind, "metadata": about, "spec": spec}
    )


TOPIC = manifest("Topic", "orders", {"clusterRef": {"name": "demo"}, "partitions": 1})
GROUP = manifest("ConsumerGroup", "billing", {"clusterRef": {"name": "demo"}})
OTHERS = manifest("Topic", "others", {"clusterRef": {"name": "absent"}, "partitions": 1})


def found(kubectl: Kubectl, *selector: str) -> list[str]:
    said = kubectl("get", "ct,ccg", "-o", "name", *selector)
    return sorted(line.rpartition("/")[2] for line in said.splitlines())


def test_what_names_a_cluster_is_found_by_it_and_nobody_sees_a_difference(
    kubectl: Kubectl,
) -> None:
    kubectl.apply(manifest("BrokerCluster", "demo", {"replicas": 1, "storage": {"size": "1Gi"}}))
    for one in (TOPIC, OTHERS):
        kubectl.apply(one)
    kubectl("apply", "--server-side", "-f", "-", input_text=GROUP)

    assert found(kubectl, "--field-selector", "spec.clusterRef.name=demo") == ["billing", "orders"]
    assert found(kubectl, "--field-selector", "spec.clusterRef.name=absent") == ["others"]
    by_label = (f"--selector={LABEL}=demo",)
    eventually(
        "both are labelled", lambda: found(kubectl, *by_label) == ["billing", "orders"], LIMIT_S
    )

    # Nobody who applies the manifest again sees or changes anything.
    kubectl("diff", "-f", "-", input_text=TOPIC)  # fails where there is a difference
    kubectl("diff", "--server-side", "-f", "-", input_text=GROUP)
    assert "unchanged" in kubectl.apply(TOPIC)
    kubectl("apply", "--server-side", "-f", "-", input_text=GROUP)
    assert found(kubectl, *by_label) == ["billing", "orders"]
    for kind, name in (("ct", "orders"), ("ccg", "billing")):
        about = kubectl("get", kind, name, "--show-managed-fields", "-o", "json")
        writers = [
            one["manager"]
            for one in json.loads(about)["metadata"]["managedFields"]
            if LABEL in json.dumps(one)
        ]
        assert writers == ["chiplog-operator"]

    # Taken away, it comes back; another value is another writer's.
    kubectl("label", "ct/orders", f"{LABEL}-")
    eventually("it is back", lambda: "orders" in found(kubectl, *by_label), LIMIT_S)
    kubectl("label", "--overwrite", "ct/orders", f"{LABEL}=mine")
    kubectl("annotate", "ct/orders", "seen=now")  # the operator reconciles again
    kubectl.apply(manifest("Topic", "late", {"clusterRef": {"name": "demo"}, "partitions": 1}))
    eventually("it looked", lambda: "late" in found(kubectl, *by_label), LIMIT_S)
    assert found(kubectl, f"--selector={LABEL}=mine") == ["orders"]
