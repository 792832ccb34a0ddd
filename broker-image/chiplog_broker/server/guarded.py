"""Ports that speak HTTP to whoever connects: bounded in number, size and time.

A library parses and answers; it lets a peer send headers for ever, ask a thousand things before it
reads an answer, and open as many connections as there are descriptors. Here each connection has a
guard in front of it. Where there are too many, the oldest connection of the address that has most
gives way to the newest: probes and scrapers, which have one or two, are always let in.
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
"""From the first byte of a request, or of the connection, until its headers are there."""
UNREAD_TIMEOUT_S: Final = 10.0
"""How long a peer may not take what it is answered."""
PIPELINED: Final = 4
"""So many requests may come at once. Nobody who asks here has more."""
REST_S: Final = 0.005
"""After each answer, for each connection of the same address: it asks 200 times a second at most,
however many it has."""
IDLE_TIMEOUT_S: Final = 75.0
"""Between two requests: those who scrape every minute keep their connection."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one port."""

    connections: int
    body_bytes: int = 0
    """What a request may have behind its headers."""


class Guards:
    """The connections of one port."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open: dict[Guard, str] = {}
        self._of_host: Counter[str] = Counter()
        self._of_transport: dict[asyncio.BaseTransport, Guard] = {}

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, guard: "Guard", host: str) -> None:
        """A connection was made; another one may have to go."""
        self._open[guard] = host
        self._of_host[host] += 1
        self._of_transport[guard.transport] = guard
        if len(self._open) > self.bounds.connections:
            greediest, _ = self._of_host.most_common(1)[0]
            next(one for one, of in self._open.items() if of == greediest).abort()

    def leave(self, guard: "Guard") -> None:
        host = self._open.pop(guard, None)
        if host is None:
            return
        self._of_transport.pop(guard.transport, None)
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def rest_s(self, guard: "Guard") -> float:
        """How long nothing is read from a connection that was answered."""
        return REST_S * self._of_host[self._open.get(guard, "")]

    async def watched(self, request: "web.Request", handler: Handler) -> "web.StreamResponse":
        """An aiohttp middleware: tells a connection's guard that its headers are there."""
        guard = None if request.transport is None else self._of_transport.get(request.transport)
        if guard is None:
            return await handler(request)
        guard.began()
        try:
            return await handler(request)
        finally:
            guard.ended()


class Guard(asyncio.Protocol):
    """Before the library's protocol of one connection."""

    def __init__(self, guards: Guards, behind: asyncio.Protocol) -> None:
        self._guards = guards
        self._behind = behind
        self._timer: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._is_answering = False
        self._bytes = 0
        """Of this request."""
        self._requests_since_receive = 0
        """Requests since something was received."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        host, *_ = transport.get_extra_info("peername") or ("",)
        self._guards.enter(self, host)
        self._within(HEADER_TIMEOUT_S)
        self._behind.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not (self._is_answering or self._bytes):
            self._within(HEADER_TIMEOUT_S)
        self._bytes += len(data)
        self._requests_since_receive = 0
        if self._bytes > HEADER_BYTES + self._guards.bounds.body_bytes:
            self.abort()
        else:
            self._behind.data_received(data)

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._within(UNREAD_TIMEOUT_S)
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._within(None if self._is_answering else IDLE_TIMEOUT_S)
        self._behind.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._within(None)
        if self._rest is not None:
            self._rest.cancel()
        self._guards.leave(self)
        self._behind.connection_lost(exc)

    def abort(self) -> None:
        """Drop it; it counts no longer."""
        self._guards.leave(self)
        self.transport.abort()

    def began(self) -> None:
        """A request is there but for its body, and is answered now."""
        self._is_answering = True
        self._within(None)
        self._requests_since_receive += 1
        if self._requests_since_receive > PIPELINED:
            self.abort()

    def ended(self) -> None:
        """It has its answer, which may still be on its way."""
        self._is_answering = False
        self._bytes = 0
        self._within(IDLE_TIMEOUT_S)
        if not self.transport.is_closing():
            self.transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._rest = loop.call_later(self._guards.rest_s(self), self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _within(self, seconds: float | None) -> None:
        """The connection ends in so much time if nothing happens; None for not at all."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.abort)
