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
    """A refusal is one line and exit status 2, never a traceback."""
    try:
        yield
    except Refused as refused:
        console.print(f"cluster: {refused}", markup=False)
        sys.exit(2)


@app.command()
def up(
    fresh: Annotated[bool, typer.Option(help="Drop what an earlier cluster stored.")] = False,
) -> None:
    """Start the cluster and wait until its nodes are Ready."""
    with refusals():
        started_s = time.monotonic()
        current_target().up(fresh=fresh)
        console.print(f"up after {time.monotonic() - started_s:.1f} s")


@app.command()
def down(
    forget: Annotated[bool, typer.Option(help="Delete everything it stored, images too.")] = False,
) -> None:
    """Stop the cluster: nothing of it runs, is mounted or is configured. What it stored stays."""
    with refusals():
        target = current_target()
        target.down()
        if not isinstance(target, Local):
            return  # kind keeps nothing, and what another cluster stores is not ours
        if forget:
            sweep.remove_state()
        elif layout.STATE.exists():
            console.print(f"{layout.STATE} keeps what it stored: --forget (FORGET=1) deletes it")


@app.command("images")
def images_command(
    spark: Annotated[bool, typer.Option(help="Also the large one of the Spark jobs.")] = False,
) -> None:
    """Build the images that changed and load them into the nodes."""
    with refusals():
        target = current_target()
        for image in [*images.built(), *([spark_image.build()] if spark else [])]:
            target.load([image])
            console.print(f"{image.reference} {image.bill}")


@app.command("kill-node")
def kill_node(name: str) -> None:
    """End everything on a node at once, as a power failure would."""
    with refusals():
        require_local()
        node.kill(node_named(name))


@app.command("start-node")
def start_node(name: str) -> None:
    """Bring a killed node back."""
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
    raise Refused(f"no node {name}: {', '.join(one.name for one in layout.NODES)}")


def require_local() -> None:
    if not isinstance(current_target(), Local):
        raise Refused("only the nodes of CLUSTER=local are ours to change")
