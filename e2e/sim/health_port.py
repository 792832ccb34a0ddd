"""A simulated broker's health port: `GET /incarnation` as the real one answers it, and no more."""

import asyncio
from typing import cast

from chiplog_broker.server.health import Health
from chiplog_core.naming import ports


class _Answering(asyncio.Protocol):
    """Answers each request with the incarnation of the broker's process."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _data: bytes) -> None:
        head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"
        self._transport.write(f"{head}{self._health.incarnation}\n".encode())


async def serve_health(health: Health) -> None:
    """Listen until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Answering(health), "", ports.HEALTH)
    await server.start_serving()
