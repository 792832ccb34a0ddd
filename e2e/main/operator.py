"""The operator, installed by its chart."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from chiplog_core.naming import names
from e2e.cluster import containers, images, layout
from e2e.cluster.helm import Helm
from e2e.cluster.images import Image
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target
from e2e.cluster.usage import Usage

NAMESPACE = "chiplog-system"
RELEASE = "chiplog"
SPARK = "chiplog/spark"
CHART = layout.CHECKOUT / "charts" / "chiplog-operator"


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator's Helm release, its pods and its Lease."""

    kubeconfig: Path
    references: Mapping[str, str]
    """Name of an image of ours -> its reference for pods."""

    @classmethod
    def on(cls, target: Target, also: Sequence[Image] = ()) -> Self:
        """Build the images, load them into the cluster's nodes, and return the operator.

        It is not installed yet. `also` are further images, which are loaded already, like that of
        the Spark jobs.
        """
        found = images.built()
        target.load(found)
        return cls(target.kubeconfig, {image.name: image.reference for image in (*found, *also)})

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.kubeconfig, NAMESPACE)

    def install(self) -> None:
        """Install the chart of this checkout, or upgrade the installed release."""
        spark = self.references.get(SPARK)
        Helm(self.kubeconfig, NAMESPACE).install(
            *(RELEASE, CHART),
            # CRDs that a test applied without Helm belong to the release from now on.
            *("--take-ownership", "--force-conflicts"),
            # Each test has its own namespace.
            *("--set", "watchAllNamespaces=true"),
            *("--set-string", f"image.reference={self.references['chiplog/operator']}"),
            *("--set-string", f"brokerImage.reference={self.references['chiplog/broker']}"),
            *(("--set-string", f"sparkImage.reference={spark}") if spark else ()),
        )

    def uninstall(self) -> None:
        Helm(self.kubeconfig, NAMESPACE)("uninstall", RELEASE, "--ignore-not-found", "--wait")

    def pods(self) -> list[dict[str, Any]]:
        """The operator's pods."""
        labels = f"app.kubernetes.io/name=chiplog-operator,app.kubernetes.io/instance={RELEASE}"
        items: list[dict[str, Any]] = self.kubectl.get("pods", "-l", labels)["items"]
        return items

    def leader(self) -> dict[str, Any]:
        """The pod of the active operator: the one that holds the Lease."""
        holder = str(self.kubectl.get("lease", names.OPERATOR_LEASE)["spec"]["holderIdentity"])
        found = [pod for pod in self.pods() if pod["metadata"]["name"] in holder]
        assert len(found) == 1, f"the Lease's holder {holder} is none of the operator's pods"
        return found[0]

    def usage(self) -> dict[str, Usage]:
        """Name of a pod -> CPU time and memory of its processes."""
        return {
            pod["metadata"]["name"]: containers.usage(pod["metadata"]["uid"]) for pod in self.pods()
        }

    def wait_whole(self, limit_s: float = 90) -> float:
        """Wait until all replicas are Ready and a running one holds the Lease; returns seconds.

        A pod whose process was just killed is still Ready and still holds the Lease for a moment:
        so the Lease must have been renewed after this call began.
        """
        began = datetime.now(UTC)

        def whole() -> bool:
            status = self.kubectl.get("deployment", "-l", f"app.kubernetes.io/instance={RELEASE}")
            (deployment,) = status["items"]
            ready = deployment["status"].get("readyReplicas", 0)
            assert ready == deployment["spec"]["replicas"], json.dumps(deployment["status"])
            renewed = self.kubectl.get("lease", names.OPERATOR_LEASE)["spec"]["renewTime"]
            assert datetime.fromisoformat(renewed) > began, f"the Lease was renewed at {renewed}"
            return bool(self.leader())

        return eventually("all operator pods are Ready and one renews the Lease", whole, limit_s)
