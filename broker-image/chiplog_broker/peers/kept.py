"""Connections to other brokers that are kept for the next request: at most one to each address."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from chiplog_broker.metadata.listeners import INTERNAL_NAME
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerUnreachable
from chiplog_wire.protocol.messages import NodeEndpoint

DIAL_TIMEOUT_S: Final = 1.0


class KeptConnections:
    """Opens a connection with the first request to a broker."""

    def __init__(self, cluster: ClusterView, dialer: Dialer) -> None:
        self._cluster = cluster
        self._dialer = dialer
        self._connections: dict[NodeEndpoint, PeerConnection] = {}
        self._dialing: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def to(self, node: NodeEndpoint) -> PeerConnection:
        """The open connection to this broker, or a new one. Raises `PeerError`."""
        # The lock keeps two requests that are made at the same time from opening two connections.
        async with self._dialing[node.node_id]:
            existing = self._connections.get(node)
            if existing is not None and existing.is_open:
                return existing
            broker = self._cluster.brokers.get(node.node_id)
            if broker is None:
                raise PeerUnreachable(f"broker {node.node_id} has ended")
            connection = await self._dialer.dial(
                node.host, node.port, DIAL_TIMEOUT_S, has_tls=broker.uses_tls
            )
            self._connections[node] = connection
            return connection

    async def to_broker(self, broker_id: int) -> PeerConnection:
        """The connection to this broker's internal listener. Raises `PeerError`."""
        broker = self._cluster.brokers.get(broker_id)
        node = None if broker is None else broker.on(INTERNAL_NAME)
        if node is None:
            raise PeerUnreachable(f"broker {broker_id} has ended")
        return await self.to(node)

    def close_unused(self, used: Iterable[NodeEndpoint]) -> None:
        """Close connections to brokers that are not in `used`, or have another address there."""
        for node in self._connections.keys() - set(used):
            self._connections.pop(node).close()

    def close(self) -> None:
        """Close all connections; waiting requests fail with `PeerLost`."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
