"""`/incarnation`: the incarnation of this process, in an answer that ends only with the process.

The operator reads the name and then waits for the end of the connection: the kernel closes it at
once when the process ends, for whatever reason. There is no time limit, so the number of answers is
limited: if there are too many, the oldest ends, and its client has to request again.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from chiplog_broker.server.health import Health

if TYPE_CHECKING:
    from aiohttp import web

MAX_OPEN: Final = 8
"""Answers that may be open at once. The operator needs one; an answer whose client lost power stays
open for a long time."""


class Incarnation:
    """Serves `/incarnation`, and keeps its answers open."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._open: deque[asyncio.Event] = deque()

    def serve_in(self, app: "web.Application") -> None:
        app.router.add_get("/incarnation", self.answer)
        # The listening socket is closed by then, so new connections are refused.
        app.on_shutdown.append(self._end_all)

    async def answer(self, request: "web.Request") -> "web.StreamResponse":
        """Send the incarnation and a line feed, and keep the answer open until this process
        stops."""
        from aiohttp import web  # noqa: PLC0415 - slow to import

        if self._health.incarnation is None:
            return web.Response(
                status=404, text="this is a standalone broker without an operator\n"
            )
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        end = asyncio.Event()
        self._open.append(end)
        if len(self._open) > MAX_OPEN:
            self._open.popleft().set()
        try:
            await response.prepare(request)
            await response.write(f"{self._health.incarnation}\n".encode())
            await end.wait()
        except ConnectionResetError:
            pass  # the client has disconnected already
        finally:
            if end in self._open:
                self._open.remove(end)
        return response

    async def _end_all(self, _app: "web.Application") -> None:
        """End all open answers, because the process stops."""
        for end in self._open:
            end.set()
