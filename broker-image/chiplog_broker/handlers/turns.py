"""Long work on the event loop, which others need too."""

import asyncio
from collections import deque
from typing import Any, Final, TypeVar

from chiplog_broker.ports.clock import Clock
from chiplog_wire.steps import TURN_S, Steps

T = TypeVar("T")

INFLATING_AT_ONCE: Final = 2
"""Each may hold 32 MiB."""


class LongWork:
    """That of all requests: in each turn of the event loop one of them goes on, for one turn.

    So others wait for one turn only, however many requests have much to do.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._inflating = asyncio.Semaphore(INFLATING_AT_ONCE)

    @property
    def clock(self) -> Clock:
        """By which turns are measured."""
        return self._clock

    def turns(self) -> "Turns":
        """Those of one request. Where others wait already it begins at the end of the queue."""
        return Turns(self._clock, self, begins_late=bool(self._waiting))

    async def run(self, steps: Steps[T], turns: "Turns") -> T:
        """Take all steps, with pauses; what may be done in another thread is done there."""
        done: Any = None
        try:
            while True:
                call = steps.send(done)
                done = None
                if call is not None:
                    try:
                        async with self._inflating:
                            done = await asyncio.get_running_loop().run_in_executor(None, call)
                    except Exception as failed:  # noqa: BLE001 - it is for the steps to judge
                        steps.throw(failed)
                await turns.pause()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    async def next_turn(self) -> None:
        """Wait until it is this one's turn."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._go_on)
        self._waiting.append(future)
        await future

    def _go_on(self) -> None:
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)


class Turns:
    """One task's turns: after some milliseconds of work everybody else has one."""

    __slots__ = ("_clock", "_queue", "_until_s")

    def __init__(
        self, clock: Clock, queue: LongWork | None = None, *, begins_late: bool = False
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._until_s = clock.monotonic_s() + (0.0 if begins_late else TURN_S)

    async def pause(self) -> None:
        """To be called between steps of well below a millisecond each."""
        if self._clock.monotonic_s() >= self._until_s:
            if self._queue is None:
                await asyncio.sleep(0)
            else:
                await self._queue.next_turn()
            self._until_s = self._clock.monotonic_s() + TURN_S
