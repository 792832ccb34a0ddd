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
        """Run helm and return what it printed; raises `CommandFailed` where it fails."""
        return run(
            *(str(build.program("helm")), f"--kubeconfig={self.kubeconfig}"),
            *(f"--namespace={self.namespace}", *arguments),
            input_text=input_text,
            timeout_s=timeout_s,
        )

    def install(
        self, release: str, chart: Path, *arguments: str, values: Mapping[str, object] | None = None
    ) -> str:
        """Install a chart, or upgrade the release if it exists, and wait until it is ready.

        `upgrade --install` is not used: it ignores some flags where it turns into an install.
        """
        subcommand = ("upgrade",) if self.has(release) else ("install", "--create-namespace")
        return self(
            *(
                *subcommand,
                release,
                str(chart),
                "--wait",
                "--timeout",
                "3m",
                "--values",
                "-",
                *arguments,
            ),
            input_text=json.dumps(values or {}),
        )

    def has(self, release: str) -> bool:
        """Whether the namespace has a release of this name, in any state."""
        return release in self("list", "--short").split()
