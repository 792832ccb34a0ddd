"""A broker that hears everything from the API server late, as if the network or it were slow."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import ParamSpec

from e2e.kafka.ports import LOOPBACK
from e2e.loopback.cluster import LoopbackCluster

CHUNK_BYTES = 65_536

P = ParamSpec("P")


class LateCluster(LoopbackCluster):
    """Three brokers; what the API server sends to one of them arrives `late_s` later."""

    def __init__(self, directory: Path, late_broker: int, late_s: float) -> None:
        super().__init__(directory)
        self.late_broker, self.late_s = late_broker, late_s

    def api_port(self, broker_id: int) -> int:
        if broker_id != self.late_broker:
            return self.server.port
        listening = socket.create_server((LOOPBACK, 0))
        # `shutdown` ends `accept`, which `close` alone would not.
        self.running.callback(listening.shutdown, socket.SHUT_RDWR)
        background(self._accept, listening)
        return int(listening.getsockname()[1])

    def _accept(self, listening: socket.socket) -> None:
        """Connect everybody who comes with the API server, until `listening` is shut down."""
        with listening, suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection((LOOPBACK, self.server.port))
                background(forward, client, server, 0.0)
                background(forward, server, client, self.late_s)


def background(function: Callable[P, None], *arguments: P.args, **_: P.kwargs) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def forward(source: socket.socket, target: socket.socket, late_s: float) -> None:
    """Copy what comes from `source` to `target`, `late_s` later, until `source` ends; closes it."""
    received: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
    background(send_when_due, received, target)
    with source, suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            received.put((time.monotonic() + late_s, data))
    received.put((time.monotonic() + late_s, b""))


def send_when_due(received: "SimpleQueue[tuple[float, bytes]]", target: socket.socket) -> None:
    """Send each chunk when its time has come; an empty one ends the connection."""
    with suppress(OSError):
        while True:
            due_s, data = received.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
