"""Two kinds of API server outages: it refuses connections, or it does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import control_plane, processes

API_SERVER = "kube-apiserver"


@contextmanager
def stopped() -> Iterator[None]:
    """Stop the API server while the block runs: connections to it are refused."""
    processes.stop((API_SERVER,), patience_s=1)
    try:
        yield
    finally:
        control_plane.start_api_server()


@contextmanager
def frozen() -> Iterator[None]:
    """Suspend the API server while the block runs: connections to it hang without an answer."""
    server = processes.recorded(API_SERVER)
    if server is None:
        raise RuntimeError("the API server does not run, so it cannot be suspended")
    with processes.paused([server]):
        yield
    processes.wait_until("API server ready", control_plane.api_server_ready, 60, name=API_SERVER)
