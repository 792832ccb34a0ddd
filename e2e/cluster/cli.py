"""The commands of `python -m e2e.cluster`, which the Makefile calls."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from e2e.cluster import cluster, images, layout, node, spark_image, sweep, tools
from e2e.cluster.console import Refused, console
from e2e.cluster.target import Local, current_target

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="The Kubernetes cluster that Chiplog's end-to-end tests run on.",
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a `Refused` that the block raises into one printed line and exit status 2, without a
    traceback."""
    try:
        yield
    except Refused as refused:
        console.print(f"cluster: {refused}", markup=False)
        sys.exit(2)


@app.command()
def up(
    fresh: Annotated[
        bool,
        typer.Option(help="Delete the data of an earlier cluster (etcd, volumes, logs) first."),
    ] = False,
) -> None:
    """Start the cluster and wait until its nodes are Ready."""
    with refusals():
        started_s = time.monotonic()
        current_target().up(fresh=fresh)
        console.print(f"up after {time.monotonic() - started_s:.1f} s")


@app.command()
def down(
    forget: Annotated[
        bool, typer.Option(help="Also delete all that it stored: etcd, volumes, images.")
    ] = False,
) -> None:
    """Stop the cluster and undo its mounts, addresses and firewall rules. Its stored data stays."""
    with refusals():
        target = current_target()
        target.down()
        if not isinstance(target, Local):
            return  # a deleted kind cluster leaves no data; the data of CLUSTER=current is not ours
        if forget:
            sweep.remove_state()
        elif layout.STATE.exists():
            console.print(
                f"{layout.STATE} keeps the stored data: "
                "`make cluster-down FORGET=1` (--forget) deletes it"
            )


@app.command("images")
def images_command(
    spark: Annotated[
        bool, typer.Option(help="Also build the large image of the Spark jobs.")
    ] = False,
) -> None:
    """Build the images that changed and load all into the nodes. Prints each image and the path of
    its bill of materials."""
    with refusals():
        target = current_target()
        for image in [*images.built(), *([spark_image.build()] if spark else [])]:
            target.load([image])
            console.print(f"{image.reference} {image.bill}")


@app.command("kill-node")
def kill_node(name: str) -> None:
    """Kill all processes of a node (kubelet, containerd, containers) at once, like a power
    failure."""
    with refusals():
        require_local()
        node.kill(node_named(name))


@app.command("start-node")
def start_node(name: str) -> None:
    """Start a killed node again and wait until it is Ready."""
    with refusals():
        require_local()
        cluster.start_node(node_named(name))


@app.command("tools")
def tools_command(directory: Path) -> None:
    """Put kubectl, helm and promtool into a directory."""
    with refusals():
        for link in tools.link_all(directory):
            console.print(str(link))


def node_named(name: str) -> layout.Node:
    for one in layout.NODES:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in layout.NODES)
    raise Refused(f"there is no node {name}: name one of {names}")


def require_local() -> None:
    """Raises `Refused` unless the cluster is the local one, whose nodes are processes of ours."""
    if not isinstance(current_target(), Local):
        raise Refused("kill-node and start-node work only with CLUSTER=local")
