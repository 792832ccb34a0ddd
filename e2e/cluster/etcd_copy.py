"""Restores etcd from a copy made earlier, as an administrator restores a backup.

Nodes and pods continue to run: only the API server's objects return to their earlier state. The
components of Kubernetes that hold watches are restarted afterwards, as its documentation demands;
what runs in pods is not restarted.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.cluster import control_plane, layout, node, processes

DATA = layout.STATE / "etcd"
COPY = layout.STATE / "etcd-copy"
SERVERS = ("kube-apiserver", "etcd")


@contextmanager
def taken() -> Iterator[Callable[[], None]]:
    """Copy etcd's data on entry, and yield the function that restores etcd from this copy.

    The API server and etcd are stopped for the copy; when the block begins, they run again.
    """
    processes.stop(SERVERS, patience_s=2)
    try:
        shutil.rmtree(COPY, ignore_errors=True)
        shutil.copytree(DATA, COPY)
    finally:
        control_plane.start_api_server()
    try:
        yield put_back
    finally:
        shutil.rmtree(COPY, ignore_errors=True)


def put_back() -> None:
    """Replace etcd's data with the copy; returns when control plane and kubelets run again."""
    kubelets = [node.kubelet_name(one) for one in layout.NODES]
    processes.stop(kubelets)
    control_plane.stop()
    try:
        shutil.rmtree(DATA)
        shutil.copytree(COPY, DATA)
    finally:
        control_plane.start_api_server()
        control_plane.start_rest()
        # No kubelet may start a pod before its volumes are mounted.
        control_plane.wait_volumes()
        for one in layout.NODES:
            node.start_kubelet(one)
        control_plane.wait_services()
