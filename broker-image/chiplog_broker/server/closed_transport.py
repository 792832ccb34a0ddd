"""Stands in for the transport of a connection that is closed.

A transport with TLS refers to its connection, which refers to the transport. As long as both do,
only a garbage collection frees them, and with them the buffers of TLS, a third of a megabyte.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final


class ClosedTransport(asyncio.Transport):
    """Sends and receives nothing."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """It is closed."""

    def abort(self) -> None:
        """It is closed."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody receives it."""

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Nobody receives it."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""


CLOSED: Final = ClosedTransport()
