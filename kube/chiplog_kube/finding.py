"""Which API server, and as whom: by a kubeconfig file, or as a pod knows it."""

import os
from collections.abc import Mapping
from pathlib import Path

from chiplog_kube.connection import Connection, in_cluster


def find(kubeconfig: Path | None, environment: Mapping[str, str] = os.environ) -> Connection:
    """The connection of a kubeconfig, or of the pod if none is given. Raises `NoConnection`."""
    if kubeconfig is None:
        return in_cluster(environment)
    from chiplog_kube.kubeconfig import connect  # noqa: PLC0415 - nothing that a pod needs

    return connect([kubeconfig])
