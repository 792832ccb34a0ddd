"""The Kubernetes cluster that the tests run on: ours, kind's, or one that the user names.

`CLUSTER=local` (the default) is the cluster of this directory. `CLUSTER=kind` makes one
with kind and a Docker engine. `CLUSTER=current` takes the context of the user's own
kubeconfig that `CONTEXT` names: nothing is installed into the context that happens to be
selected.
"""

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import cluster, images, layout
from e2e.cluster.console import Refused, console, step
from e2e.cluster.images import Image
from e2e.cluster.shell import CommandFailed, run

KIND_NAME = "chiplog"
KIND_CONFIG = layout.CHECKOUT / "e2e" / "kind" / "cluster.yaml"


class Target(ABC):
    """A cluster to run on."""

    # Whether tests can kill nodes, fill disks and cut networks here.
    has_faults = False
    # True: `load` brings images to the nodes. False: the nodes pull them from a registry.
    loads_images = True

    @abstractmethod
    def up(self, *, fresh: bool) -> None:
        """Start the cluster if it does not run; with `fresh`, without the data of an earlier
        one."""

    @abstractmethod
    def down(self) -> None:
        """Remove what `up` made."""

    @abstractmethod
    def load(self, wanted: Sequence[Image]) -> None:
        """Load images into all nodes, so that pods can use them without a registry."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The kubeconfig file of the cluster."""


class Local(Target):
    """The cluster of this directory."""

    has_faults = True

    def up(self, *, fresh: bool) -> None:
        cluster.up(fresh=fresh)

    def down(self) -> None:
        cluster.down()

    def load(self, wanted: Sequence[Image]) -> None:
        images.load(wanted)

    @property
    def kubeconfig(self) -> Path:
        return layout.KUBECONFIG


class Kind(Target):
    """A kind cluster of three nodes.

    Needs the programs `kind` and `docker`, and a Docker engine.
    """

    def up(self, *, fresh: bool) -> None:
        """Create the kind cluster unless it exists, and write its kubeconfig.

        `fresh` deletes an existing cluster first. Raises `Refused` if Docker or kind is missing.
        """
        for program in ("docker", "kind"):
            if shutil.which(program) is None:
                raise Refused(f"CLUSTER=kind needs the program {program}: install it into PATH")
        try:
            run("docker", "info", timeout_s=30)
        except CommandFailed as failed:
            raise Refused(
                "CLUSTER=kind needs a Docker engine, and `docker info` fails: start the engine"
            ) from failed
        if fresh:
            self.down()
        if KIND_NAME not in run("kind", "get", "clusters").split():
            with step("creating a kind cluster"):
                command = ("kind", "create", "cluster", "--name", KIND_NAME)
                run(*command, "--config", str(KIND_CONFIG), "--wait", "5m", timeout_s=900)
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        export = ("kind", "export", "kubeconfig", "--name", KIND_NAME)
        run(*export, "--kubeconfig", str(self.kubeconfig))
        console.print(f"export KUBECONFIG={self.kubeconfig}")

    def down(self) -> None:
        run("kind", "delete", "cluster", "--name", KIND_NAME, timeout_s=300)

    def load(self, wanted: Sequence[Image]) -> None:
        """Import the images with each node's containerd, since `kind load image-archive` does not
        accept OCI archives."""
        nodes = run("kind", "get", "nodes", "--name", KIND_NAME).split()
        for image in wanted:
            with step(f"loading {image.reference} into {len(nodes)} nodes"):
                for node in nodes:
                    self._load_into(node, image)

    def _load_into(self, node: str, image: Image) -> None:
        """Import an image into a node, which is a Docker container, unless it has the image."""
        ctr = ("docker", "exec", "--privileged", "--interactive", node, "ctr", "-n", "k8s.io")
        name = f"docker.io/{image.name}:{image.tag}"
        if name in run(*ctr, "images", "list", "--quiet").split():
            return
        with image.archive.open("rb") as archive:
            subprocess.run([*ctr, "images", "import", "-"], stdin=archive, timeout=600, check=True)

    @property
    def kubeconfig(self) -> Path:
        return layout.cache() / "kind" / "kubeconfig"


class Current(Target):
    """A cluster of the user's own: a context of their kubeconfig, given by name."""

    loads_images = False

    def __init__(self, context: str) -> None:
        self.context = context

    def up(self, *, fresh: bool) -> None:
        """Only check that the API server of the user's own cluster is ready. Raises `Refused`.

        `fresh` is refused, since it would delete that cluster.
        """
        if fresh:
            raise Refused(
                "a fresh start would delete your own cluster: not possible with CLUSTER=current"
            )
        flags = ("--context", self.context, "--kubeconfig", str(self.kubeconfig))
        try:
            run("kubectl", *flags, "get", "--raw", "/readyz", timeout_s=30)
        except (CommandFailed, FileNotFoundError) as failed:
            raise Refused(
                f"the API server of CONTEXT={self.context} is not ready or not reachable: {failed}"
            ) from failed
        console.print("CLUSTER=current: tests that kill nodes or cut networks are skipped")

    def down(self) -> None:
        console.print("CLUSTER=current is your own cluster: it is not stopped")

    def load(self, wanted: Sequence[Image]) -> None:
        """Does nothing: the nodes pull the images from the registry in `IMAGE_PREFIX`."""

    @property
    def kubeconfig(self) -> Path:
        return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def current_target() -> Target:
    """The target that `CLUSTER` and `CONTEXT` name; raises `Refused` for anything else."""
    match os.environ.get("CLUSTER") or "local":
        case "local":
            return Local()
        case "kind":
            return Kind()
        case "current":
            if context := os.environ.get("CONTEXT"):
                return Current(context)
            raise Refused("CLUSTER=current needs CONTEXT=NAME: name a context of your kubeconfig")
        case other:
            raise Refused(f"CLUSTER={other} is unknown: use local, kind or current")
