"""kubectl for tests, and waiting for conditions with an error that names the condition."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.cluster import build
from e2e.cluster.shell import CommandFailed, run

NAMESPACE_LIMIT_S = 180


class Kubectl:
    """kubectl with a kubeconfig and a namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def __call__(
        self, *arguments: str, input_text: str | None = None, timeout_s: float = 120
    ) -> str:
        """Run kubectl and return what it printed; raises `CommandFailed` where it fails."""
        program = str(build.program("kubectl"))
        return run(
            *(program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"),
            *arguments,
            input_text=input_text,
            timeout_s=timeout_s,
        )

    def apply(self, manifest: str) -> str:
        return self("apply", "-f", "-", input_text=manifest)

    def get(self, *what: str) -> Any:
        """`kubectl get`: one object, or a List object with `items`, parsed from JSON."""
        return json.loads(self("get", *what, "-o", "json"))

    def fails(self, *arguments: str, input_text: str | None = None) -> str:
        """Run a kubectl call that must fail, and return what it printed.

        Raises `AssertionError` if the call succeeds.
        """
        try:
            output = self(*arguments, input_text=input_text)
        except CommandFailed as failed:
            return failed.output
        raise AssertionError(f"accepted: kubectl {' '.join(arguments)}\n{output}")

    def execute(self, pod: str, *command: str, timeout_s: float = 60) -> str:
        """Run a program in a pod and return what it printed."""
        return self("exec", pod, "--", *command, timeout_s=timeout_s)

    def recreate_namespace(self) -> None:
        """Delete the namespace with all its objects, and create it again, ready for pods."""
        self.delete_namespace()
        self("create", "namespace", self.namespace)
        # Pods are refused until the controller has created the ServiceAccount that they run as.
        eventually("default service account", lambda: bool(self.get("serviceaccount", "default")))

    def delete_namespace(self) -> None:
        """Delete the namespace with all that is in it.

        Kubernetes checks the namespace for pods after five seconds. If it finds any, its next
        check comes only after their whole grace period, so the pods are deleted here first.
        """
        self("delete", "namespace", self.namespace, "--ignore-not-found", "--wait=false")

        def is_gone() -> bool:
            if not self("get", "namespace", self.namespace, "--ignore-not-found", "-o", "name"):
                return True
            self("delete", "pods", "--all", "--grace-period=1", "--wait=false")
            return False

        eventually(f"namespace {self.namespace} is gone", is_gone, NAMESPACE_LIMIT_S, every_s=1)


def eventually(
    what: str, holds: Callable[[], bool], limit_s: float = 60, every_s: float = 0.2
) -> float:
    """Wait until `holds()` returns True, and return the seconds it took.

    An exception of kubectl or an assertion counts as "not yet". `every_s` is the pause between two
    calls: where each starts a process and something else is measured, it should be long. Raises
    `TimeoutError` after `limit_s`, with `what` (what was waited for) and the last failure.
    """
    started_s = time.monotonic()
    last: Exception | None = None
    while time.monotonic() - started_s < limit_s:
        try:
            if holds():
                return time.monotonic() - started_s
            last = None
        except (CommandFailed, AssertionError, OSError, KeyError) as failed:
            last = failed
        time.sleep(every_s)
    raise TimeoutError(f"{what}: not within {limit_s:.0f} s; last failure: {last}") from last
