"""How a loop waits between two passes: for some time, or until it is woken."""

import asyncio

from chiplog_operator.clock import Clock


class Wake:
    """Wakes one loop. It may be set before the loop begins; a pass clears it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._is_urgent = False

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    @property
    def is_urgent(self) -> bool:
        """Whether something urgent happened since the last pass."""
        return self._is_urgent

    def set(self, *, urgent: bool = False) -> None:
        """Wake the loop, because something happened. `urgent` is remembered until `clear`."""
        self._is_urgent = self._is_urgent or urgent
        self._event.set()

    def clear(self) -> None:
        """Begin a pass, which takes everything that happened before into account."""
        self._is_urgent = False
        self._event.clear()

    async def wait(self) -> None:
        """Wait until `set` is called, or return immediately if it was called since `clear`."""
        await self._event.wait()

    async def within(self, seconds: float) -> bool:
        """Wait until `set` is called, at most this long. Returns whether it was called since
        `clear`."""
        waking = asyncio.ensure_future(self._event.wait())
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waking, timer}, return_when=asyncio.FIRST_COMPLETED)
            return waking.done()
        finally:
            waking.cancel()
            timer.cancel()
