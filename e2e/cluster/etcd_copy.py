"""etcd put back to a copy of an earlier moment, as an administrator restores a backup.

Nodes and pods run on meanwhile: only what the API server knows goes back. Everything of
Kubernetes that holds a watch is started again after it, as its documentation asks for; what runs
in pods is not.
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
    """Copy etcd's data now; what is yielded puts the copy in the place of what came since."""
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
    """Returns when the API server and what belongs to it run again."""
    kubelets = [node.kubelet_name(one) for one in layout.NODES]
    processes.stop(kubelets)
    control_plane.stop()
    try:
        shutil.rmtree(DATA)
        shutil.copytree(COPY, DATA)
    finally:
        control_plane.start_api_server()
        control_plane.start_rest()
        control_plane.wait_volumes()
        for one in layout.NODES:
            node.start_kubelet(one)
        control_plane.wait_services()
