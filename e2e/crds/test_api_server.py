"""Every example is accepted, every invalid manifest refused with its message."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CRDS = Path(__file__).resolve().parents[2] / "crds"
ORDERS = CRDS.parent / "examples" / "orders.yaml"
EXAMPLES = [ORDERS, *sorted((CRDS / "examples").glob("*.yaml"))]
INTERNAL = sorted((CRDS / "examples" / "internal").glob("*.yaml"))
INVALID = sorted((CRDS / "invalid").glob("*.yaml"))
EXPECTED = "# expect: "


def file_name(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def namespace(target: Target, definitions: None, no_operator: None) -> Iterator[Kubectl]:
    """One namespace for all files: each test removes its own objects."""
    kubectl = Kubectl(target.kubeconfig, "e2e-crds")
    kubectl.recreate_namespace()
    yield kubectl
    kubectl.delete_namespace()


@pytest.mark.parametrize("path", EXAMPLES, ids=file_name)
def test_an_example_is_accepted(namespace: Kubectl, path: Path) -> None:
    printed = namespace("apply", "--validate=strict", "-f", str(path))
    assert "created" in printed
    assert "unchanged" in namespace("apply", "-f", str(path))
    namespace("delete", "-f", str(path), "--wait=false")


@pytest.mark.parametrize("path", INTERNAL, ids=file_name)
def test_an_example_of_an_internal_object_is_accepted(namespace: Kubectl, path: Path) -> None:
    assert "created" in namespace("apply", "--validate=strict", "-f", str(path))
    namespace("delete", "-f", str(path), "--wait=false")


@pytest.mark.parametrize("path", INVALID, ids=file_name)
def test_an_invalid_manifest_is_refused_with_its_message(namespace: Kubectl, path: Path) -> None:
    first_line, *_ = text = path.read_text().splitlines()
    assert first_line.startswith(EXPECTED), "the first line says which message is expected"
    expected = first_line.removeprefix(EXPECTED).strip()
    assert expected
    *before, refused = [part for part in "\n".join(text).split("\n---\n") if part.strip()]
    for accepted in before:
        namespace.apply(accepted)
    try:
        printed = namespace.fails("apply", "--validate=strict", "-f", "-", input_text=refused)
    finally:
        for accepted in before:
            namespace("delete", "-f", "-", "--wait=false", input_text=accepted)
    assert expected in " ".join(printed.split()), printed


def test_explain_says_something_useful(namespace: Kubectl) -> None:
    partitions = namespace("explain", "topic.spec.partitions")
    config = namespace("explain", "topic.spec.config")
    assert "Number of partitions" in partitions
    assert "growth.strategy" in partitions
    assert "retention.ms" in config
    assert "keeps records for ever" in config


def test_columns_tell_what_a_user_asks_first(namespace: Kubectl) -> None:
    namespace("apply", "-f", str(ORDERS))
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NotSupported",
        "message": "spec.replicas asks for more",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    status = json.dumps({"status": {"readyReplicas": 2, "conditions": [condition]}})
    try:
        namespace("patch", "cbc", "demo", "--subresource=status", "--type=merge", "-p", status)
        topics, clusters = namespace("get", "ct").splitlines(), namespace("get", "cbc").splitlines()
        assert " ".join(topics[0].split()) == (
            "NAME CLUSTER PARTITIONS REPLICATION FACTOR READY REASON AGE"
        )
        assert topics[1].split()[:4] == ["orders", "demo", "6", "3"]
        assert clusters[1].split()[:5] == ["demo", "3", "2", "False", "NotSupported"]
        assert "topic.chiplog.dev/orders" in namespace("get", "chiplog")
    finally:
        namespace("delete", "-f", str(ORDERS), "--wait=false")


def test_a_cluster_is_scaled_like_a_deployment(namespace: Kubectl) -> None:
    namespace("apply", "-f", str(CRDS / "examples" / "brokercluster-minimal.yaml"))
    try:
        namespace("scale", "cbc/small", "--replicas=2")
        assert namespace.get("cbc", "small")["spec"]["replicas"] == 2
        refused = namespace.fails("scale", "cbc/small", "--replicas=0")
        assert "greater than or equal to 1" in refused
    finally:
        namespace("delete", "cbc", "small", "--wait=false")


def test_a_size_that_no_volume_has_reached_is_taken_back(namespace: Kubectl) -> None:
    namespace("apply", "-f", str(CRDS / "examples" / "brokercluster-minimal.yaml"))

    def resize(size: str) -> tuple[str, ...]:
        patch = json.dumps({"spec": {"storage": {"size": size}}})
        return ("patch", "cbc", "small", "--type=merge", "-p", patch)

    try:
        was = namespace.get("cbc", "small")["spec"]["storage"]["size"]
        namespace(*resize("900Gi"))
        assert "cannot shrink from 900Gi" in namespace.fails(*resize(was))
        status = json.dumps({"status": {"volumeSize": was}})
        namespace("patch", "cbc", "small", "--subresource=status", "--type=merge", "-p", status)
        refused = namespace.fails(*resize("64Mi"))
        assert f"cannot shrink from 900Gi to 64Mi: set it to {was} or more" in refused
        namespace(*resize(was))
        namespace(*resize(was))
        refused = namespace.fails(*resize("64Mi"))
        assert f"cannot shrink from {was} to 64Mi: set it to {was} or more" in refused
    finally:
        namespace("delete", "cbc", "small", "--wait=false")


def test_a_key_that_does_not_exist_reaches_the_operator(namespace: Kubectl) -> None:
    """Pruned, it would be lost without a word; kept, the operator refuses it by name."""
    topic = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "typo"},
        "spec": {"clusterRef": {"name": "demo"}, "config": {"retention.mss": 5}},
    }
    arguments = ("apply", "--dry-run=server", "-o", "json", "-f", "-")
    stored = json.loads(namespace(*arguments, input_text=json.dumps(topic)))
    assert stored["spec"]["config"] == {"retention.mss": 5}


def test_a_typo_in_a_field_is_reported(namespace: Kubectl) -> None:
    topic = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "typo"},
        "spec": {"clusterRef": {"name": "orders"}, "partition": 3},
    }
    refused = namespace.fails("apply", "--validate=strict", "-f", "-", input_text=json.dumps(topic))
    assert 'unknown field "spec.partition"' in refused
