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
    """The recorded names of all processes that a running cluster has."""
    names = [*control_plane.NAMES]
    for one in layout.NODES:
        names += [node.containerd_name(one), node.kubelet_name(one)]
    return names


def is_running() -> bool:
    """Whether every process of a cluster runs and the API server answers."""
    all_run = all(processes.recorded(name) for name in expected_processes())
    return all_run and control_plane.api_server_ready()


def runs_this_build() -> bool:
    """Whether the running programs are the ones that this checkout would start.

    Three programs stand for all: their paths contain the hash of the sources they were built from.
    """
    return all(
        (one := processes.recorded(name))
        and str(build.program(name)) in processes.command_line(one.pid)
        for name in ("kube-apiserver", "agent", "coredns")
    )


def up(*, fresh: bool = False) -> None:
    """Start the cluster and wait until three nodes are Ready.

    A healthy cluster made from the same programs is kept as it is. The remains of any other
    cluster, of any checkout, are cleared first. `fresh` also deletes the data that the
    earlier cluster stored. Raises `Refused` if the cluster cannot run on this machine.
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
    """Wait for the node's containerd, import the image of the pod sandboxes and start the
    kubelet."""
    node.wait_containerd(one)
    images.import_pause(one)
    node.start_kubelet(one)


def wait_ready(nodes: tuple[Node, ...], since: datetime.datetime) -> None:
    """Wait up to 90 s until these nodes are Ready and renewed their Leases after `since`."""
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
    """Stop the cluster and undo all its changes to this machine; its stored data stays."""
    with step("stopping the cluster"):
        control_plane.stop()
        sweep.sweep()
