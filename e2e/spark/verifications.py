"""Verifications as their users make them: kubectl apply, and reading what the status says."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chiplog_core.model.spark_result import RESULT_KEY
from chiplog_core.spark.application import APPLICATION_LABEL
from e2e.cluster.kubectl import Kubectl

Manifest = dict[str, Any]

POLL_EVERY_S = 0.5


@dataclass(slots=True)
class Followed:
    """A finished run."""

    status: Manifest
    executors: set[str] = field(default_factory=set)
    """Pods of executors that were seen running."""

    @property
    def application(self) -> str:
        return str(self.status["application"]["name"])

    @property
    def reason(self) -> str:
        """How the run ended, in one word."""
        return str(self.status["outcome"]["reason"])

    def violations(self) -> set[tuple[str, str, int, int | None, int | None]]:
        """(check, topic, partition, offset, replica) of each; None for what has no value."""
        listed = self.status.get("violations", [])
        assert len(listed) == self.status.get("violationsTotal", 0), self.status
        return {
            (
                *(one["check"], one["topic"], one["partition"]),
                *(one.get("offset"), one.get("replica")),
            )
            for one in listed
        }

    def condition(self, kind: str) -> tuple[str, str]:
        """(status, reason) of the condition of this type."""
        found = condition(self.status, kind)
        return found["status"], found["reason"]


@dataclass(frozen=True, slots=True)
class Verifications:
    """The verifications of one BrokerCluster, in its namespace."""

    kubectl: Kubectl
    cluster: str

    def apply(self, name: str, topics: Sequence[str], **spec: object) -> None:
        """A Verification of some topics; it runs once."""
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Verification",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": self.cluster}, "topics": list(topics), **spec},
        }
        self.kubectl.apply(json.dumps(manifest))

    def get(self, name: str) -> Manifest:
        found: Manifest = self.kubectl.get("verification", name)
        return found

    def follow(self, name: str, limit_s: float) -> Followed:
        """Watch a run until it is over. Raises `TimeoutError` with the last status."""
        deadline_s, executors, status = time.monotonic() + limit_s, set[str](), Manifest()
        while time.monotonic() < deadline_s:
            status = self.get(name).get("status", {})
            if status.get("finishedAt"):
                return Followed(status, executors)
            if application := status.get("application", {}).get("name"):
                executors |= self.running(application, "executor")
            time.sleep(POLL_EVERY_S)
        raise TimeoutError(f"verification/{name} is not over after {limit_s:.0f} s: {status}")

    def pods(self, application: str, role: str | None = None) -> list[Manifest]:
        """The pods of an application; `role` is `driver` or `executor`."""
        selector = f"{APPLICATION_LABEL}={application}"
        if role is not None:
            selector += f",spark-role={role}"
        items: list[Manifest] = self.kubectl.get("pods", "-l", selector)["items"]
        return items

    def running(self, application: str, role: str) -> set[str]:
        """Names of pods that run."""
        return {
            str(pod["metadata"]["name"])
            for pod in self.pods(application, role)
            if pod["status"].get("phase") == "Running"
        }

    def summary(self, application: str) -> Manifest:
        """The job's own figures, from the ConfigMap that it wrote."""
        data = self.kubectl.get("configmap", f"{application}-result")["data"]
        summary: Manifest = json.loads(data[RESULT_KEY])["summary"]
        return summary


def condition(status: Manifest, kind: str) -> Manifest:
    """The condition of type `kind` in a status; raises `KeyError` if there is none."""
    for one in status.get("conditions", ()):
        if one["type"] == kind:
            found: Manifest = one
            return found
    raise KeyError(f"no condition {kind}: {json.dumps(status)}")
