"""Which Kubernetes the tests run on: ours, kind's, or one the user names.

`CLUSTER=local` (the default) is the cluster of this directory. `CLUSTER=kind` makes one
with kind and a Docker engine. `CLUSTER=current` takes a context of the user's own
kubeconfig, and only one that was named in `CONTEXT`: nothing is ever installed into
whatever happens to be selected.
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

    # Whether nodes can be killed, disks filled and networks cut here.
    has_faults = False
    # Whether images are brought to its nodes, or pulled by them.
    loads_images = True

    @abstractmethod
    def up(self, *, fresh: bool) -> None:
        """Make it run; does nothing where it does."""

    @abstractmethod
    def down(self) -> None:
        """Remove what `up` made."""

    @abstractmethod
    def load(self, wanted: Sequence[Image]) -> None:
        """Bring images to its nodes."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The file that reaches it."""


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
    """Three kind nodes. Needs the programs `kind` and `docker`, and an engine that answers."""

    def up(self, *, fresh: bool) -> None:
        for program in ("docker", "kind"):
            if shutil.which(program) is None:
                raise Refused(f"CLUSTER=kind needs the program {program}, which is not in PATH")
        try:
            run("docker", "info", timeout_s=30)
        except CommandFailed as failed:
            raise Refused("CLUSTER=kind needs a Docker engine: `docker info` fails") from failed
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
        """Load the image with each node's containerd: `kind load image-archive` takes no OCI
        archives."""
        nodes = run("kind", "get", "nodes", "--name", KIND_NAME).split()
        for image in wanted:
            with step(f"loading {image.reference} into {len(nodes)} nodes"):
                for one in nodes:
                    self._load_into(one, image)

    def _load_into(self, one: str, image: Image) -> None:
        ctr = ("docker", "exec", "--privileged", "--interactive", one, "ctr", "-n", "k8s.io")
        name = f"docker.io/{image.name}:{image.tag}"
        if name in run(*ctr, "images", "list", "--quiet").split():
            return
        with image.archive.open("rb") as archive:
            subprocess.run([*ctr, "images", "import", "-"], stdin=archive, timeout=600, check=True)

    @property
    def kubeconfig(self) -> Path:
        return layout.cache() / "kind" / "kubeconfig"


class Current(Target):
    """A context of the user's kubeconfig, asked for by name."""

    loads_images = False

    def __init__(self, context: str) -> None:
        self.context = context

    def up(self, *, fresh: bool) -> None:
        if fresh:
            raise Refused("CLUSTER=current is yours: it is never made anew")
        flags = ("--context", self.context, "--kubeconfig", str(self.kubeconfig))
        try:
            run("kubectl", *flags, "get", "--raw", "/readyz", timeout_s=30)
        except (CommandFailed, FileNotFoundError) as failed:
            raise Refused(f"context {self.context} does not answer: {failed}") from failed
        console.print("fault lanes are skipped: the nodes of CLUSTER=current are not ours to kill")

    def down(self) -> None:
        console.print("CLUSTER=current is yours: nothing to stop")

    def load(self, wanted: Sequence[Image]) -> None:
        """Nothing: its nodes pull them from where IMAGE_PREFIX says."""

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
            raise Refused("CLUSTER=current needs CONTEXT=<a context of your kubeconfig>")
        case other:
            raise Refused(f"CLUSTER={other} is unknown: use local, kind or current")
