"""A connection to a broker's health port that shows which process answers, and then when it ends.

`GET /incarnation` is answered with the process's incarnation, and the answer continues for as long
as the process does: the end of the connection is what is waited for.
"""

import asyncio
import re
import socket
from typing import Final, Protocol, TypeVar, cast

from chiplog_core.ids import INCARNATION_PATTERN, Incarnation

P = TypeVar("P", bound=asyncio.BaseProtocol)

# HTTP/1.0, so that the body follows the head without chunks.
REQUEST: Final = b"GET /incarnation HTTP/1.0\r\nAccept: text/plain\r\n\r\n"
MAX_ANSWER_BYTES: Final = 8192
_ANSWER: Final = re.compile(
    rb"HTTP/1\.[01] 200 [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n(%s)\n" % INCARNATION_PATTERN.encode()
)

KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3


class Net(Protocol):
    """The network, which a simulator replaces."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        """Connect `protocol` to an address. Raises `OSError`."""


class SystemNet:
    """TCP, by the running loop."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        """Connect by TCP with keepalive. Returns the given protocol. Raises `OSError`."""
        transport, connected = await asyncio.get_running_loop().create_connection(
            lambda: protocol, host, port
        )
        _keep_alive(transport.get_extra_info("socket"))
        return connected


def _keep_alive(connected: socket.socket | None) -> None:
    """Enable TCP keepalive. Nothing is ever sent on the connection, so firewalls would forget it
    otherwise."""
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


class ConnectProbe(asyncio.Protocol):
    """Connects and sends nothing, to find out whether the port accepts connections."""

    _transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def close(self) -> None:
        """Drop the connection, if there is one, without waiting."""
        if self._transport is not None:
            self._transport.abort()


class IncarnationProbe(ConnectProbe):
    """Requests the incarnation when connected, and then waits for the connection's end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Incarnation | None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._received = bytearray()

    async def incarnation(self) -> Incarnation | None:
        """The incarnation of the process that answers; None if the connection ends without it."""
        return await asyncio.shield(self._answer)

    async def ended(self) -> None:
        """Wait until the connection has ended for any reason."""
        await asyncio.shield(self._ended)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast("asyncio.Transport", transport).write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Collect the answer until it contains an incarnation or is too long for one."""
        if self._answer.done():
            return
        self._received += data
        found = _ANSWER.match(self._received)
        if found:
            self._answered(Incarnation(found.group(1).decode()))
        elif len(self._received) > MAX_ANSWER_BYTES:
            self._answered(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all that wait for the incarnation (None unless received) or the end."""
        self._answered(None)
        if not self._ended.done():
            self._ended.set_result(None)

    def _answered(self, incarnation: Incarnation | None) -> None:
        """Set the result of `incarnation`, unless it is set already."""
        if not self._answer.done():
            self._answer.set_result(incarnation)
            self._received.clear()
