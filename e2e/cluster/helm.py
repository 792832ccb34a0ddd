"""helm for tests and the demo: charts are installed as users install them."""

import json
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import build
from e2e.cluster.shell import run


class Helm:
    """helm with a kubeconfig and a namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def __call__(
        self, *arguments: str, input_text: str | None = None, timeout_s: float = 240
    ) -> str:
        """Run helm; raises `CommandFailed` with all that it printed."""
        return run(
            *(str(build.program("helm")), f"--kubeconfig={self.kubeconfig}"),
            *(f"--namespace={self.namespace}", *arguments),
            input_text=input_text,
            timeout_s=timeout_s,
        )

    def install(
        self, release: str, chart: Path, *arguments: str, values: Mapping[str, object] | None = None
    ) -> str:
        """Install a chart, or bring an installed one to this state, and wait until it works.

        `upgrade --install` would not do: it does not hand all flags to the install it becomes.
        """
        act = ("upgrade",) if self.has(release) else ("install", "--create-namespace")
        return self(
            *(*act, release, str(chart), "--wait", "--timeout", "3m", "--values", "-", *arguments),
            input_text=json.dumps(values or {}),
        )

    def has(self, release: str) -> bool:
        """Whether there is such a release, in whatever state."""
        return release in self("list", "--short").split()
