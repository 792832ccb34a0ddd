"""HTTP ports with limits: on connections, request sizes and times.

The HTTP library lets a client send headers for ever, send a thousand requests before it reads an
answer, and open as many connections as there are descriptors. So each connection has a guard
between the transport and the library. If there are too many connections, the guards close one of
the address that has the most. So probes and scrapers, which have one or two, can always connect.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]

HEADER_BYTES: Final = 16 * 1024
HEADER_TIMEOUT_S: Final = 5.0
"""The time from the first byte of a request, or of the connection, to the end of its headers."""
UNREAD_TIMEOUT_S: Final = 10.0
"""A client that has not received an answer after this time is disconnected."""
MAX_PIPELINED_REQUESTS: Final = 4
"""Requests that a client may send without waiting for answers. No legitimate client sends more."""
READ_PAUSE_S: Final = 0.005
"""How long a connection is not read after an answer, times the connections of its address. So an
address sends at most 200 requests a second, whatever the number of its connections."""
IDLE_TIMEOUT_S: Final = 75.0
"""The longest time between two requests of a connection: enough for a scrape every minute."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one port."""

    connections: int
    body_bytes: int = 0
    """Maximum bytes of a request's body."""


class Guards:
    """The guards of all connections of one port."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open: dict[Guard, str] = {}
        self._of_host: Counter[str] = Counter()
        self._of_transport: dict[asyncio.BaseTransport, Guard] = {}

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, guard: "Guard", host: str) -> None:
        """Count a new connection. If there are too many, close the oldest one of the address that
        has the most."""
        self._open[guard] = host
        self._of_host[host] += 1
        self._of_transport[guard.transport] = guard
        if len(self._open) > self.bounds.connections:
            busiest_host, _ = self._of_host.most_common(1)[0]
            next(other for other, of_host in self._open.items() if of_host == busiest_host).abort()

    def leave(self, guard: "Guard") -> None:
        """Remove a closed connection; does nothing if it was removed before."""
        host = self._open.pop(guard, None)
        if host is None:
            return
        self._of_transport.pop(guard.transport, None)
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def read_pause_s(self, guard: "Guard") -> float:
        """How long a connection is not read after an answer, in seconds. It grows with the number
        of connections from its address, so that these have one limit of requests together."""
        return READ_PAUSE_S * self._of_host[self._open.get(guard, "")]

    async def notify_guard(self, request: "web.Request", handler: Handler) -> "web.StreamResponse":
        """An aiohttp middleware that notifies a connection's guard of the beginning and the end of
        an answer."""
        guard = None if request.transport is None else self._of_transport.get(request.transport)
        if guard is None:
            return await handler(request)
        guard.began()
        try:
            return await handler(request)
        finally:
            guard.ended()


class Guard(asyncio.Protocol):
    """The protocol between the transport and the library's protocol, for one connection."""

    def __init__(self, guards: Guards, protocol: asyncio.Protocol) -> None:
        self._guards = guards
        self._protocol = protocol
        self._timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._is_answering = False
        self._bytes = 0
        """Bytes of this request that were received."""
        self._requests_since_receive = 0
        """Requests that were answered since data was received last: they came together."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport is no subclass of it
        host, *_ = transport.get_extra_info("peername") or ("",)
        self._guards.enter(self, host)
        self._close_after(HEADER_TIMEOUT_S)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass data to the library, unless the request is too large; its first byte starts the time
        limit."""
        if not (self._is_answering or self._bytes):
            self._close_after(HEADER_TIMEOUT_S)
        self._bytes += len(data)
        self._requests_since_receive = 0
        if self._bytes > HEADER_BYTES + self._guards.bounds.body_bytes:
            self.abort()
        else:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """The client does not read its answer: close the connection if that lasts."""
        self._close_after(UNREAD_TIMEOUT_S)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again: the time limit of the present state applies, if it has one."""
        self._close_after(None if self._is_answering else IDLE_TIMEOUT_S)
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_after(None)
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._guards.leave(self)
        self._protocol.connection_lost(exc)

    def abort(self) -> None:
        """Close the connection; it is not counted any more."""
        self._guards.leave(self)
        self.transport.abort()

    def began(self) -> None:
        """Note that the headers of a request are complete, and that it is being answered."""
        self._is_answering = True
        self._close_after(None)
        self._requests_since_receive += 1
        if self._requests_since_receive > MAX_PIPELINED_REQUESTS:
            self.abort()

    def ended(self) -> None:
        """Note that an answer was made, and pause reading to limit the requests per second.

        The answer may not be sent completely yet.
        """
        self._is_answering = False
        self._bytes = 0
        self._close_after(IDLE_TIMEOUT_S)
        if not self.transport.is_closing():
            self.transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._read_timer = loop.call_later(
                self._guards.read_pause_s(self), self._resume_reading
            )

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _close_after(self, seconds: float | None) -> None:
        """Close the connection after this time, unless another call replaces it; None means
        never."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.abort)
