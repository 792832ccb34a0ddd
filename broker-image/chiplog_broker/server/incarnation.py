"""`/incarnation`: which process this is, in an answer that goes on for as long as the process does.

The operator reads the name and then waits for the connection to end: the kernel closes it at once
when the process dies, however it does. There is no limit of time, so the number is limited: of
too many, the oldest answer ends. Whoever is still there asks again.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from chiplog_broker.server.health import Health

if TYPE_CHECKING:
    from aiohttp import web

MAX_OPEN: Final = 8
"""One is the operator's. One that it left behind when its machine lost power stays for long."""


class Incarnation:
    """The answers that are open."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._open: deque[asyncio.Event] = deque()

    def serve_in(self, app: "web.Application") -> None:
        app.router.add_get("/incarnation", self.answer)
        # The listening socket is closed by then: whoever connects anew is refused.
        app.on_shutdown.append(self._end_all)

    async def answer(self, request: "web.Request") -> "web.StreamResponse":
        """The name and a line feed; the rest of the answer never comes."""
        from aiohttp import web  # noqa: PLC0415 - a tenth of a second of the log's start

        if self._health.incarnation is None:
            return web.Response(
                status=404, text="this is a standalone broker without an operator\n"
            )
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        over = asyncio.Event()
        self._open.append(over)
        if len(self._open) > MAX_OPEN:
            self._open.popleft().set()
        try:
            await response.prepare(request)
            await response.write(f"{self._health.incarnation}\n".encode())
            await over.wait()
        except ConnectionResetError:
            pass  # whoever asked is gone already
        finally:
            if over in self._open:
                self._open.remove(over)
        return response

    async def _end_all(self, _app: "web.Application") -> None:
        for over in self._open:
            over.set()
