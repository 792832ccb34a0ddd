"""Long work on the event loop, which others need too."""

import asyncio
from typing import Final

from chiplog_broker.ports.clock import Clock

TURN_S: Final = 0.005


class Turns:
    """One task's turns: after some milliseconds of work everybody else has one."""

    __slots__ = ("_clock", "_until_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + TURN_S

    async def pause(self) -> None:
        """To be called between steps of well below a millisecond each."""
        if self._clock.monotonic_s() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = self._clock.monotonic_s() + TURN_S
