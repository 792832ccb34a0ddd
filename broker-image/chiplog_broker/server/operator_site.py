"""An aiohttp site with TLS, for the operator only. In its own module, because importing aiohttp
takes long.

Connections go through a `TlsDoor`, so that certificates and CAs change without a restart and
handshakes are limited. Those whose certificate is not the operator's end there.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web

from chiplog_broker.security.tls import check_names
from chiplog_broker.server.guarded import Guard, Guards
from chiplog_broker.server.operator_tls import OperatorTls
from chiplog_broker.server.tls_accepting import TlsDoor

logger = logging.getLogger(__name__)

BACKLOG: Final = 128
MAX_HANDSHAKES: Final = 16
LOG_INTERVAL_S: Final = 10.0
"""At most one line about refused clients is logged in this time."""


class OperatorSite(web.BaseSite):
    """A TCP site with TLS and a `Guard` for each connection. It is the `Owner` of its door."""

    def __init__(
        self, runner: web.AppRunner, guards: Guards, tls: OperatorTls, host: str, port: int
    ) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._guards = guards
        self._tls = tls
        self._host, self._port = host, port
        self._logged_s = -LOG_INTERVAL_S
        self._door = TlsDoor(tls.files, self, tls.clock, MAX_HANDSHAKES)

    @property
    def name(self) -> str:
        """The URL, which aiohttp requires of a site."""
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen on the address. Raises `OSError` if the address cannot be used."""
        await super().start()
        # It only binds the address; the door accepts.
        self._server = server = await asyncio.get_running_loop().create_server(
            self.new_connection, self._host, self._port, backlog=BACKLOG, start_serving=False
        )
        self._door.open(one.fileno() for one in server.sockets)

    async def stop(self) -> None:
        await self._door.close()
        await super().stop()

    # -- Owner

    def admit(self, host: str, descriptor: int) -> bool:
        """Every connection may begin its handshake; the door limits these, the guards what comes
        after."""
        del host, descriptor
        return True

    def leave(self, host: str) -> None:
        """Nothing was counted."""

    def new_connection(self) -> asyncio.BaseProtocol:
        return _Entrance(self._enter)

    def handshake_failed(self, peer: str, reason: str) -> None:
        """Log it, at most once in `LOG_INTERVAL_S`."""
        now_s = self._tls.clock.monotonic_s()
        if reason and now_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now_s
            logger.warning("tls_handshake_failed", extra={"peer": peer, "reason": reason})

    def _enter(self, entrance: "_Entrance", transport: asyncio.Transport) -> None:
        """The handshake of a connection is complete: let HTTP begin if it is the operator's."""
        address = self._door.completed(entrance)
        try:
            check_names(transport.get_extra_info("ssl_object"), self._tls.settings)
        except ValueError as problem:
            self.handshake_failed("{}:{}".format(*(address or ("", 0))), str(problem))
            address = None
        if address is None:
            transport.abort()
            return
        server = self._runner.server
        assert server is not None, "the runner was set up"
        guard = Guard(self._guards, server())
        transport.set_protocol(guard)
        guard.connection_made(transport)


class _Entrance(asyncio.Protocol):
    """The protocol of a connection until its handshake is complete. If it is refused then, what it
    still sends is ignored."""

    def __init__(self, enter: Callable[["_Entrance", asyncio.Transport], None]) -> None:
        self._enter = enter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is no subclass of asyncio's.
        self._enter(self, cast("asyncio.Transport", transport))
