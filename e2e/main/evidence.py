"""Collects what explains a failed test: objects with their conditions, Events and logs."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import CommandFailed
from e2e.main import operator

LINES = 60
CONDITIONS = (
    "custom-columns=KIND:.kind,NAME:.metadata.name,GENERATION:.metadata.generation,"
    "DELETED:.metadata.deletionTimestamp,TYPES:.status.conditions[*].type,"
    "STATUS:.status.conditions[*].status,MESSAGES:.status.conditions[*].message"
)


def gather(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """(title, text) of objects, Events and logs; where kubectl fails, the text is its error."""
    yield "objects", said(kubectl, "get", "cbc,ct", "-o", CONDITIONS)
    yield "brokers and maps", said(kubectl, "get", "brk,pmap,sts,pods,pvc", "-o", "wide")
    yield "Spark jobs", said(kubectl, "get", "verifications,jobs", "-o", "yaml")
    yield "events", said(kubectl, "get", "events", "--sort-by=.lastTimestamp")
    yield from logs(Kubectl(kubectl.kubeconfig, operator.NAMESPACE), "operator")
    yield from logs(kubectl, "broker")


@contextmanager
def printed(kubectl: Kubectl) -> Iterator[None]:
    """If the block fails, print the evidence; for fixtures, where no test report has it."""
    try:
        yield
    except BaseException:
        for title, text in gather(kubectl):
            print(f"---- {title}\n{text}")
        raise


def logs(kubectl: Kubectl, what: str) -> Iterator[tuple[str, str]]:
    """The last log lines of all pods in a namespace, and of their previous containers, if any."""
    for pod in said(kubectl, "get", "pods", "-o", "name").split():
        if not pod.startswith("pod/"):
            continue
        yield f"{what} {pod}", said(kubectl, "logs", pod, f"--tail={LINES}")
        before = said(kubectl, "logs", pod, "--previous", f"--tail={LINES // 2}")
        if "previous terminated container" not in before:
            yield f"{what} {pod}, the process before", before


def said(kubectl: Kubectl, *arguments: str) -> str:
    """What kubectl printed; if it fails, its error as text, so that the test's own error stays."""
    try:
        return kubectl(*arguments, timeout_s=30)
    except (CommandFailed, OSError, subprocess.TimeoutExpired) as failed:
        return str(failed)
