"""kubectl for tests: the front door, with waits that say what they waited for."""

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
        """Run kubectl; raises `CommandFailed` with all that it printed."""
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
        """One object, or a list's object, as the API server returns it."""
        return json.loads(self("get", *what, "-o", "json"))

    def fails(self, *arguments: str, input_text: str | None = None) -> str:
        """What kubectl prints for a call that must be refused.

        Raises `AssertionError` where it is accepted.
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
        self.delete_namespace()
        self("create", "namespace", self.namespace)
        # Pods are refused until the controller made the account they run as.
        eventually("default service account", lambda: bool(self.get("serviceaccount", "default")))

    def delete_namespace(self) -> None:
        """Delete the namespace with all that is in it.

        Kubernetes looks for pods in it after five seconds. If there are any, it looks again only
        when all the time is over that they have to end, so they are ended before.
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
    """Wait until `holds()`; an exception of kubectl or an assertion counts as "not yet".

    Each poll is a process: where others are measured meanwhile, it should be rare.

    Returns the seconds it took. Raises `TimeoutError` naming `what` and the last failure.
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
    raise TimeoutError(f"{what}: not within {limit_s:.0f} s; last: {last}") from last
