"""Outgoing connections. `server/` accepts the incoming ones."""

import asyncio
import ssl
from typing import Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Net(Protocol):
    """Connects to other processes."""

    async def connect(
        self, protocol: P, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> P:
        """Connect `protocol` to an address, with TLS if `tls` is given; then the server's
        certificate must have the host. Raises `OSError`."""


class SystemNet:
    """TCP on the running event loop."""

    async def connect(
        self, protocol: P, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> P:
        _, connected = await asyncio.get_running_loop().create_connection(
            lambda: protocol, host, port, ssl=tls
        )
        return connected
