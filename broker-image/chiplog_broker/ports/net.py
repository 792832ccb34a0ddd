"""Connections to others. Those that others make to us are `server/`'s."""

import asyncio
from typing import Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Net(Protocol):
    """What can be reached from here."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        """Connect `protocol` to an address. Raises `OSError`."""


class SystemNet:
    """TCP, by the running loop."""

    async def connect(self, protocol: P, host: str, port: int) -> P:
        _, connected = await asyncio.get_running_loop().create_connection(
            lambda: protocol, host, port
        )
        return connected
