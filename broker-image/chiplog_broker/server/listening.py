"""The listening sockets and the connections they accept.

Connections are bounded in number, in idle time and in how long one request may take to
arrive: a peer that sends a byte a second is no client.
"""

import asyncio
import logging
from dataclasses import dataclass

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.clock import Clock
from chiplog_broker.protocol.errors import ProtocolViolation
from chiplog_broker.server.connection import AnyRequest, Connection, Started
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 5.0
# Of peers that break the protocol, one line in this time is logged.
VIOLATION_LOG_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one listener allows its clients."""

    max_connections: int
    max_frame_bytes: int
    max_idle_s: float
    slow_after_s: float = 30.0
    """How long a request may be on its way before its speed is looked at."""
    slowest_bytes_per_s: float = 1024.0
    """A client slower than this is dropped then: it would hold its connection for ever."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A connection as it was when its last whole request had come."""

    frames: int
    size_bytes: int
    since_s: float


class Acceptor:
    """The `Service` of one listener's connections."""

    def __init__(
        self,
        listener: Listener,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        clock: Clock,
        metrics: RequestMetrics,
    ) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._connections: dict[Connection, Mark] = {}
        self._logged_s = float("-inf")
        self._sweeper: asyncio.Task[None]
        self._server: asyncio.Server

    async def listen(self) -> None:
        """Accept clients until `close`. Raises `OSError` for a taken address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._new_connection, self._listener.host, self._listener.port, backlog=1024
        )
        self._sweeper = loop.create_task(self._sweep())

    async def close(self) -> None:
        """Stop accepting and drop all connections."""
        self._sweeper.cancel()
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        await self._server.wait_closed()

    def _new_connection(self) -> Connection:
        return Connection(self, self._limits.max_frame_bytes)

    # -- Service

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        return self._dispatcher.start(request, peer)

    def connected(self, connection: Connection) -> Peer | None:
        if len(self._connections) >= self._limits.max_connections:
            return None
        self._connections[connection] = Mark(0, 0, self._clock.monotonic_s())
        self._metrics.connections += 1
        self._metrics.connections_total += 1
        host, port = connection.transport.get_extra_info("peername")[:2]
        return Peer(host, port, self._listener)

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        if self._connections.pop(connection, None) is None:
            return
        self._metrics.connections -= 1
        if isinstance(why, ProtocolViolation):
            self._metrics.violations_total += 1
            self._log_violation(connection, why)

    def _log_violation(self, connection: Connection, why: ProtocolViolation) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s >= VIOLATION_LOG_INTERVAL_S:
            self._logged_s = now_s
            log.warning(
                "connection_closed", extra={"peer": str(connection.peer), "reason": str(why)}
            )

    # -- idle and slow peers

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_INTERVAL_S)
            now_s = self._clock.monotonic_s()
            for connection, mark in list(self._connections.items()):
                if connection.frames_in != mark.frames:
                    moved = Mark(connection.frames_in, connection.bytes_in, now_s)
                    self._connections[connection] = moved
                elif self._is_lost(connection, mark, now_s - mark.since_s):
                    connection.abort()

    def _is_lost(self, connection: Connection, mark: Mark, elapsed_s: float) -> bool:
        """Whether a peer has been silent for too long, or sends a request too slowly."""
        if connection.mid_frame:
            slow = connection.bytes_in - mark.size_bytes < (
                elapsed_s * self._limits.slowest_bytes_per_s
            )
            return slow and elapsed_s > self._limits.slow_after_s
        return connection.idle and elapsed_s > self._limits.max_idle_s
