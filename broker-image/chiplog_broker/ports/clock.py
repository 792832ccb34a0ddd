"""The clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for timestamps in records, monotonic time for everything that waits."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. May jump, also backwards."""

    def monotonic_s(self) -> float:
        """Seconds that only go forward; the start is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait at least this long."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
