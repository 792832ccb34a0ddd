"""The API server away for a while, by each of the two ways in which it goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import control_plane, processes

API_SERVER = "kube-apiserver"


@contextmanager
def stopped() -> Iterator[None]:
    """Without the API server: connections to it are refused."""
    processes.stop((API_SERVER,), patience_s=1)
    try:
        yield
    finally:
        control_plane.start_api_server()


@contextmanager
def frozen() -> Iterator[None]:
    """Freeze the API server within the block: connections to it hang."""
    server = processes.recorded(API_SERVER)
    if server is None:
        raise RuntimeError("the API server does not run")
    with processes.paused([server]):
        yield
    processes.wait_until("API server ready", control_plane.api_server_ready, 60, name=API_SERVER)
