"""Time, as far as keeping a cache current needs it: a port, so that tests and simulators own it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time and waiting."""

    def monotonic_s(self) -> float:
        """Seconds that only go forward; the start is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait at least this long."""


class SystemClock:
    """The machine's own clock."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
