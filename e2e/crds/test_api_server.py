"""Every example is accepted, every invalid manifest refused with its message."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CRDS = Path(__file__).resolve().parents[2] / "crds"
EXAMPLES = sorted((CRDS / "examples").glob("*.yaml"))
INVALID = sorted((CRDS / "invalid").glob("*.yaml"))
EXPECTED = "# expect: "
KINDS = ("brokerclusters", "topics", "consumergroups", "brokers", "partitionmaps")


def file_name(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def definitions(target: Target) -> None:
    """The CRDs of this checkout, established."""
    kubectl = Kubectl(target.kubeconfig, "default")
    definitions = [f"{kind}.chiplog.dev" for kind in KINDS]
    for name in definitions:
        kubectl("apply", "--server-side", "-f", str(CRDS / f"{name}.yaml"))
    for name in definitions:
        kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=30s")

    def served() -> bool:
        return all(kubectl("get", kind) is not None for kind in KINDS)

    eventually("all kinds are served", served, 30)


@pytest.fixture(scope="module")
def namespace(target: Target, definitions: None) -> Iterator[Kubectl]:
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
    printed = namespace("explain", "topic.spec.partitions")
    assert "FIELD: partitions" in printed
    description = printed.partition("DESCRIPTION:")[2]
    assert len(description.split()) >= 8, printed


def test_columns_tell_what_a_user_asks_first(namespace: Kubectl) -> None:
    namespace("apply", *(word for path in EXAMPLES for word in ("-f", str(path))))
    try:
        # A status as the operator writes it, so that the columns have something to show.
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "all is well"}
        ready |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        conditions = [{**ready, "observedGeneration": 1}]
        status = json.dumps({"status": {"conditions": conditions}})
        namespace("patch", "topic", "orders", "--subresource=status", "--type=merge", "-p", status)
        header, *rows = namespace("get", "topics").splitlines()
        assert header.split()[:2] == ["NAME", "CLUSTER"]
        for column in ("PARTITIONS", "REPLICATION FACTOR", "READY"):
            assert column in header
        orders = next(row for row in rows if row.startswith("orders ")).split()
        assert "6" in orders
        assert "True" in orders
        for kind in ("bc", "cg", "kt", "chiplog"):
            assert "READY" in namespace("get", kind).splitlines()[0], kind
    finally:
        namespace(
            "delete", *(word for path in EXAMPLES for word in ("-f", str(path))), "--wait=false"
        )


def test_a_typo_in_a_field_is_reported(namespace: Kubectl) -> None:
    manifest = """
apiVersion: chiplog.dev/v1alpha1
kind: Topic
metadata: {name: typo}
spec: {clusterRef: {name: orders}, partition: 3}
"""
    assert 'unknown field "spec.partition"' in namespace.fails(
        "apply", "--validate=strict", "-f", "-", input_text=manifest
    )
