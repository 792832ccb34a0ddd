"""A repository's files as a GitOps tool applies them: rendered, server-side, under one name."""

import copy
from collections.abc import Callable
from typing import Any, Final

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import CommandFailed
from e2e.platform.releases import Release

Values = dict[str, Any]
AS_GITOPS: Final = ("--server-side", "--field-manager=gitops", "--force-conflicts", "-f", "-")
DIFFERS: Final = 1
"""The exit status of `kubectl diff` where there are differences; a higher one is an error."""


class Files:
    """Values in a repository, of one chart."""

    def __init__(self, kubectl: Kubectl, release: Release, values: Values) -> None:
        self.kubectl, self.release = kubectl, release
        self.values = values

    def apply(self) -> str:
        """Apply the rendered chart; returns what kubectl printed."""
        return self.kubectl("apply", *AS_GITOPS, input_text=self.release.rendered(self.values))

    def diff(self) -> str:
        """What differs between the files and the cluster; empty where nothing does."""
        manifests = self.release.rendered(self.values)
        try:
            self.kubectl("diff", *AS_GITOPS, input_text=manifests)
        except CommandFailed as failed:
            if failed.status != DIFFERS:
                raise
            return failed.output
        return ""

    def change(self, edit: Callable[[Values], None]) -> None:
        """Change the values, as a commit to the repository would, and apply them."""
        values = copy.deepcopy(self.values)
        edit(values)
        self.values = values
        self.apply()
