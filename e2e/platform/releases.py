"""The three charts as releases, with the commands that the documentation gives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from e2e.cluster import layout
from e2e.cluster.helm import Helm

CHARTS: Final = layout.CHECKOUT / "charts"


@dataclass(frozen=True, slots=True)
class Release:
    """One chart under a name, in the namespace of `helm`."""

    helm: Helm
    name: str
    chart: str

    def install(self, values: Mapping[str, object]) -> None:
        """Install it, or upgrade what is installed, and wait until it works."""
        self.helm.install(self.name, CHARTS / self.chart, values=values)

    def rollback(self, revision: int) -> None:
        self.helm("rollback", self.name, str(revision), "--wait", "--timeout", "3m")

    def test(self) -> None:
        """Run `helm test`; raises `CommandFailed` where the release does not work."""
        self.helm("test", self.name, "--logs", "--timeout", "3m")

    def uninstall(self) -> None:
        self.helm("uninstall", self.name, "--wait", "--ignore-not-found")

    def rendered(self, values: Mapping[str, object]) -> str:
        """The manifests, as a GitOps tool renders them."""
        return self.helm(
            *("template", self.name, str(CHARTS / self.chart), "--skip-tests", "--values", "-"),
            input_text=json.dumps(values),
        )
