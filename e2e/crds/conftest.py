"""Fixtures: the CRDs of this checkout on a real API server, without an operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crds.schema.kinds import DEFINITIONS
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target

CRDS = Path(__file__).resolve().parents[2] / "crds"
KINDS = tuple(definition.model.KIND.plural for definition in DEFINITIONS)


@pytest.fixture(scope="module")
def definitions(target: Target) -> None:
    """Apply the CRDs of this checkout, and wait until the API server serves them."""
    kubectl = Kubectl(target.kubeconfig, "default")
    for definition in DEFINITIONS:
        path = str(CRDS / definition.file_name)
        kubectl("apply", "--server-side", "--force-conflicts", "-f", path)
    for definition in DEFINITIONS:
        name = f"crd/{definition.model.KIND.definition_name}"
        kubectl("wait", name, "--for=condition=Established", "--timeout=30s")

    def served() -> bool:
        return all(kubectl("get", kind) is not None for kind in KINDS)

    eventually("all kinds are served", served, 30)


@pytest.fixture(scope="module")
def no_operator(target: Target) -> Iterator[None]:
    """Scale operators to 0 while the tests run, and back afterwards.

    An operator left by a demo or an earlier run would overwrite what these tests write.
    """
    kubectl = Kubectl(target.kubeconfig, "chiplog-system")
    labelled = ("-l", "app.kubernetes.io/name=chiplog-operator")
    found = kubectl.get("deployments", *labelled)["items"]
    scales = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}
    for name in scales:
        kubectl("scale", f"deployment/{name}", "--replicas=0")
    eventually("no operator pod is left", lambda: not kubectl.get("pods", *labelled)["items"], 90)
    yield
    for name, replicas in scales.items():
        kubectl("scale", f"deployment/{name}", f"--replicas={replicas}")
