"""Requests that wait for a partition: producers for safety, consumers for records.

A Produce waits for the high watermark to pass its last record; offsets only grow, so the
first in the queue is always the next to be answered. A Fetch waits for any of many
partitions; it is woken at most once a turn of the event loop, however many appends that
turn saw, and later where many or wide ones are woken, so that others have their turns, too.
A fetch of a session (KIP-227) does not wait at each of its partitions: they tell the
session, and the session knows which fetch waits in it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import TURN_S

Settled: TypeAlias = Callable[[ErrorCode], None]
"""Called once: with `none` when the records are safe, else with why they will not be here."""


class ProduceWaiters:
    """Callbacks of one partition, each due when the high watermark reaches its offset."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[int, Settled]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, offset: int, settled: Settled) -> None:
        """Call `settled` once the high watermark is at least `offset`.

        A duplicate waits for an earlier offset than what is queued: it is put in its place.
        """
        if not self._queue or self._queue[-1][0] <= offset:
            self._queue.append((offset, settled))
            return
        position = next(i for i, (queued, _) in enumerate(self._queue) if queued > offset)
        self._queue.insert(position, (offset, settled))

    def advance(self, high_watermark: int) -> None:
        """Answer everything that is safe now."""
        while self._queue and self._queue[0][0] <= high_watermark:
            self._queue.popleft()[1](ErrorCode.none)

    def fail(self, code: ErrorCode) -> None:
        """The partition is led elsewhere now, or its disk failed: nothing becomes safe here."""
        while self._queue:
            self._queue.popleft()[1](code)


class FetchWaiter(Protocol):
    """A Fetch that found too few bytes."""

    def changed(self) -> None:
        """A partition it reads has more, or can no longer be read here. Must not raise."""


class Watcher(Protocol):
    """A partition in a fetch session, which is to know when there may be news of it."""

    def changed(self) -> FetchWaiter | None:
        """There may be; returns the fetch that waits in the session. Must not raise."""


class FetchWaiters:
    """All waiting fetches, woken together at the end of the event loop's turn."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        """`monotonic_s` is a clock that is not that of the event loop, which stands still in a
        turn."""
        self._monotonic_s = monotonic_s
        self._woken: dict[FetchWaiter, None] = {}

    def wake(self, waiters: dict[FetchWaiter, None]) -> None:
        """A partition changed: wake these fetches, once, when this turn is over."""
        if not waiters:
            return
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._run)
        self._woken.update(waiters)

    def tell(self, watchers: dict[Watcher, None], *, wakes: bool) -> None:
        """A partition changed: sessions look at it again, and with `wakes` they do so now."""
        if not watchers:
            return
        woken: dict[FetchWaiter, None] = {}
        for watcher in watchers:
            waiter = watcher.changed()
            if waiter is not None and wakes:
                woken[waiter] = None
        self.wake(woken)

    def _run(self) -> None:
        until_s = self._monotonic_s() + TURN_S
        woken, self._woken = deque(self._woken), {}
        while woken:
            woken.popleft().changed()
            if woken and self._monotonic_s() >= until_s:
                if not self._woken:
                    asyncio.get_running_loop().call_soon(self._run)
                self._woken = dict.fromkeys(woken) | self._woken
                return
