"""Time that passes only when everything waits: tests of hours take milliseconds."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
MAX_STEPS = 100_000
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class VirtualClock:
    """A `Clock` driven by `run`."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def monotonic_s(self) -> float:
        return self._now_s

    def now(self) -> datetime:
        return START + timedelta(seconds=self._now_s - 1000.0)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at_s = self._now_s + max(seconds, 0.0)
        heapq.heappush(self._sleepers, (at_s, next(self._numbers), woken))
        await woken

    def jump(self, seconds: float) -> None:
        """The process was paused: time has passed and nobody was woken."""
        self._now_s += seconds

    async def settle(self) -> None:
        """Let everything run that need not wait."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        for _ in range(MAX_STEPS):
            await asyncio.sleep(0)
            if not ready:
                return
        raise AssertionError("something runs for ever without waiting")

    async def advance(self, seconds: float) -> None:
        """Let this much time pass, waking whoever is due in order."""
        until_s = self._now_s + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            at_s, _, woken = heapq.heappop(self._sleepers)
            self._now_s = max(self._now_s, at_s)
            if not woken.done():
                woken.set_result(None)
                await self.settle()
        self._now_s = max(self._now_s, until_s)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a test's scenario, with a limit in real time."""
    return asyncio.run(_limited(scenario))


async def _limited(scenario: Coroutine[Any, Any, T]) -> T:
    # No threads: time would pass before they are done.
    asyncio.get_running_loop().run_in_executor = _run_at_once  # type: ignore[method-assign,assignment]
    async with asyncio.timeout(20):
        return await scenario


def _run_at_once(_executor: object, call: Callable[[], T]) -> "asyncio.Future[T]":
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done.set_result(call())
    return done
