"""Requests that take long run in slices; between slices the event loop serves other requests."""

import asyncio
from collections import deque
from typing import Any, Final, TypeVar

from chiplog_broker.event_loop import SLICE_S
from chiplog_broker.ports.clock import Clock
from chiplog_wire.steps import Steps

T = TypeVar("T")

MAX_CONCURRENT_INFLATIONS: Final = 2
"""Batches decompressed in threads at the same time. Each may hold 32 MiB."""


class LongWork:
    """Schedules the slices of all long requests: one slice per iteration of the event loop.

    So a short request waits for one slice at most, however many requests take long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Limits memory: each function that runs in a thread decompresses a batch.
        self._inflating = asyncio.Semaphore(MAX_CONCURRENT_INFLATIONS)

    @property
    def clock(self) -> Clock:
        """The clock that measures slices."""
        return self._clock

    def slices(self) -> "Slices":
        """The slices of one request.

        If other requests wait for a slice, the first `pause` puts this one at the end of the queue.
        """
        return Slices(self._clock, self, begins_late=bool(self._waiting))

    async def run(self, steps: Steps[T], slices: "Slices") -> T:
        """Run a generator's steps with pauses in between, and return its result.

        A function that the generator yields runs in another thread; the generator gets its result.
        """
        done: Any = None
        try:
            while True:
                call = steps.send(done)
                done = None
                if call is not None:
                    try:
                        async with self._inflating:
                            done = await asyncio.get_running_loop().run_in_executor(None, call)
                    except Exception as failed:  # noqa: BLE001 - the generator decides what a failure means
                        steps.throw(failed)
                await slices.pause()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    async def next_slice(self) -> None:
        """Wait for the next slice: requests get theirs in the order in which they called this."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._start_next)
        self._waiting.append(future)
        await future

    def _start_next(self) -> None:
        """Let the request that has waited longest run its slice, and schedule the next one."""
        future = self._waiting.popleft()
        if not future.done():  # it is done if its request was cancelled
            future.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._start_next)


class Slices:
    """The slices of one task: after `SLICE_S` of work it pauses, and other tasks run."""

    __slots__ = ("_clock", "_queue", "_until_s")

    def __init__(
        self, clock: Clock, queue: LongWork | None = None, *, begins_late: bool = False
    ) -> None:
        """Without a `queue` a pause only lets other tasks run once. `begins_late`: the first
        `pause` waits although no slice has been used."""
        self._clock = clock
        self._queue = queue
        self._until_s = clock.monotonic_s() + (0.0 if begins_late else SLICE_S)

    async def pause(self) -> None:
        """Wait for the next slice if this one is used up, else return at once.

        To be called between steps that take well below a millisecond each.
        """
        if self._clock.monotonic_s() >= self._until_s:
            if self._queue is None:
                await asyncio.sleep(0)
            else:
                await self._queue.next_slice()
            self._until_s = self._clock.monotonic_s() + SLICE_S
