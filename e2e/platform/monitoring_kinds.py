"""PrometheusRule and PodMonitor as the Prometheus operator defines them.

Its Go module brings the definitions; without them an API server knows no such kinds.
"""

import json
from pathlib import Path
from typing import Final

from e2e.cluster import build
from e2e.cluster.kubectl import Kubectl

MODULE: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
SUM: Final = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
KINDS: Final = ("podmonitors", "prometheusrules")


def definitions() -> list[Path]:
    """The files of the two CRDs, downloaded once.

    Raises `AssertionError` if the Go module's checksum is not the expected one.
    """
    found = json.loads(build.go("mod", "download", "-json", MODULE))
    assert found["Sum"] == SUM, f"{MODULE} has the checksum {found['Sum']}, expected {SUM}"
    directory = Path(found["Dir"]) / "example" / "prometheus-operator-crd"
    return [directory / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]


def install(kubectl: Kubectl) -> None:
    for path in definitions():
        # Too large for the annotation that a client-side apply would write.
        kubectl("apply", "--server-side", "-f", str(path))
    for kind in KINDS:
        name = f"crd/{kind}.monitoring.coreos.com"
        kubectl("wait", "--for=condition=Established", name, "--timeout=30s")


def remove(kubectl: Kubectl) -> None:
    for path in definitions():
        kubectl("delete", "--ignore-not-found", "-f", str(path))
