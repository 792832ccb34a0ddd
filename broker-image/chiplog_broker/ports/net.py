"""Outgoing connections. `server/` accepts the incoming ones."""

import asyncio
from typing import Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Net(Protocol):
    """Connects to other processes."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        """Connect `protocol` to an address. Raises `OSError`."""


class SystemNet:
    """TCP on the running event loop."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        _, connected = await asyncio.get_running_loop().create_connection(
            lambda: protocol, host, port
        )
        return connected
