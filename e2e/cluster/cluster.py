"""Bringing the local cluster up and down, and its nodes one by one."""

import datetime
from concurrent.futures import ThreadPoolExecutor

from e2e.cluster import (
    build,
    control_plane,
    host,
    images,
    layout,
    node,
    packages,
    pki,
    preflight,
    processes,
    sweep,
)
from e2e.cluster.console import console, step
from e2e.cluster.layout import Node


def expected_processes() -> list[str]:
    names = [*control_plane.NAMES]
    for one in layout.NODES:
        names += [node.containerd_name(one), node.kubelet_name(one)]
    return names


def is_running() -> bool:
    """Whether every process of a cluster runs and the API server answers."""
    whole = all(processes.recorded(name) for name in expected_processes())
    return whole and control_plane.api_server_ready()


def runs_this_build() -> bool:
    """Whether the running programs are the ones this checkout would start."""
    return all(
        (one := processes.recorded(name))
        and str(build.program(name)) in processes.command_line(one.pid)
        for name in ("kube-apiserver", "agent", "coredns")
    )


def up(*, fresh: bool = False) -> None:
    """Start the cluster and wait until three nodes are Ready.

    A healthy cluster made from the same programs is kept as it is. Anything else of
    a cluster, of whichever checkout and however it ended, is cleared first. `fresh`
    also drops what the cluster stored. Raises `Refused` where it cannot run here.
    """
    preflight.require_this_machine()
    packages.install()
    build.build_all()
    images.build_pause()
    if not fresh and is_running() and runs_this_build():
        console.print("the cluster is up already")
        return
    with step("clearing what an earlier cluster left"):
        sweep.sweep()
        if fresh:
            sweep.forget()
    preflight.require_free_machine()
    started = datetime.datetime.now(datetime.UTC)
    with step("starting the control plane"):
        host.prepare()
        pki.ensure()
        for one in layout.NODES:
            node.start_containerd(one)
        control_plane.start_api_server()
        control_plane.start_rest()
        control_plane.wait_volumes()
    with step("starting three nodes"):
        with ThreadPoolExecutor() as pool:
            list(pool.map(prepare_node, layout.NODES))
        wait_ready(layout.NODES, started)
        control_plane.wait_services()
    console.print(f"export KUBECONFIG={layout.KUBECONFIG}")


def prepare_node(one: Node) -> None:
    """Runtime up, the image of every pod's sandbox there, kubelet started."""
    node.wait_containerd(one)
    images.import_pause(one)
    node.start_kubelet(one)


def wait_ready(nodes: tuple[Node, ...], since: datetime.datetime) -> None:
    names = {one.name for one in nodes}
    processes.wait_until(
        f"{', '.join(sorted(names))} Ready",
        lambda: names <= control_plane.ready_nodes(since),
        90,
    )


def start_node(one: Node) -> None:
    """Bring a killed node back and wait until it is Ready."""
    started = datetime.datetime.now(datetime.UTC)
    node.start_containerd(one)
    prepare_node(one)
    wait_ready((one,), started)


def down() -> None:
    """Stop everything and leave no trace but what is stored on disk."""
    with step("stopping the cluster"):
        control_plane.stop()
        sweep.sweep()
