"""Requests that wait for a partition: produces for the high watermark, fetches for records.

A Produce waits until the high watermark passes its last record. Offsets only grow, so the first in
the queue is always the next to be answered. A Fetch waits for any of many partitions. It is woken
at most once in an iteration of the event loop, however many appends happen in it. Where many or
large fetches are woken, some run in a later iteration, so that other tasks run in between.
A fetch of a session (KIP-227) does not wait at each of its partitions: the partitions notify the
session, and the session knows the fetch that waits in it.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from chiplog_broker.event_loop import SLICE_S
from chiplog_wire.protocol.errors import ErrorCode

OnSafe: TypeAlias = Callable[[ErrorCode], None]
"""A callback that is called once: with `none` when the high watermark covers the records of the
request, or with the error if that will not happen here."""


class ProduceWaiters:
    """Callbacks of one partition, each due when the high watermark reaches its offset."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[int, OnSafe]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, offset: int, on_safe: OnSafe) -> None:
        """Call `on_safe` once the high watermark is at least `offset`.

        A new batch has the highest offset and is queued last. A duplicate waits for the offset of
        the first copy, which may be lower: it is inserted so that the queue stays in order.
        """
        if not self._queue or self._queue[-1][0] <= offset:
            self._queue.append((offset, on_safe))
            return
        position = next(i for i, (queued, _) in enumerate(self._queue) if queued > offset)
        self._queue.insert(position, (offset, on_safe))

    def advance(self, high_watermark: int) -> None:
        """Answer all produces whose records are below the high watermark now."""
        while self._queue and self._queue[0][0] <= high_watermark:
            self._queue.popleft()[1](ErrorCode.none)

    def fail(self, code: ErrorCode) -> None:
        """Answer all waiting produces with the error `code`: this broker does not lead the
        partition any more, is isolated, or its disk failed."""
        while self._queue:
            self._queue.popleft()[1](code)


class RoleWaiters:
    """Requests for one partition that wait until a newer map says whether this replica leads."""

    __slots__ = ("_waiting", "led_until_s")

    def __init__(self) -> None:
        self.led_until_s = -math.inf
        """When its last leadership here ended, by the monotonic clock."""
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, limit_s: float) -> bool:
        """Wait for the next call of `end`, at most this long. Returns whether it came."""
        known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(known)
        try:
            done, _ = await asyncio.wait([known], timeout=limit_s)
        finally:
            self._waiting.discard(known)
        return bool(done)

    def end(self) -> None:
        """A newer map is applied: end all waits."""
        waiting, self._waiting = self._waiting, set()
        for known in waiting:
            known.set_result(None)


class FetchWaiter(Protocol):
    """A Fetch that waits because it found fewer than `min_bytes`."""

    def changed(self) -> None:
        """A partition of this fetch has more records, or cannot be read any more. Must not
        raise."""


class Watcher(Protocol):
    """A partition in a fetch session: the session is notified when it may have changed."""

    def changed(self) -> FetchWaiter | None:
        """The partition may have changed. Returns the fetch that waits in the session, or None.

        Must not raise.
        """


class FetchWaiters:
    """All waiting fetches, woken together at the end of an iteration of the event loop."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        """`monotonic_s` must not be the event loop's clock: that one does not advance within an
        iteration."""
        self._monotonic_s = monotonic_s
        self._woken: dict[FetchWaiter, None] = {}

    def wake(self, waiters: dict[FetchWaiter, None]) -> None:
        """A partition changed: wake each of these fetches once, in the next iteration."""
        if not waiters:
            return
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._run)
        self._woken.update(waiters)

    def notify(self, watchers: dict[Watcher, None], *, wakes: bool) -> None:
        """A partition changed: its fetch sessions read it with their next fetch.

        `wakes`: wake the fetches that wait in these sessions, so that they read it now.
        """
        if not watchers:
            return
        woken: dict[FetchWaiter, None] = {}
        for watcher in watchers:
            waiter = watcher.changed()
            if waiter is not None and wakes:
                woken[waiter] = None
        self.wake(woken)

    def _run(self) -> None:
        """Notify woken fetches for `SLICE_S`; the rest are the first in a later iteration of the
        event loop."""
        until_s = self._monotonic_s() + SLICE_S
        woken, self._woken = deque(self._woken), {}
        while woken:
            woken.popleft().changed()
            if woken and self._monotonic_s() >= until_s:
                if not self._woken:
                    asyncio.get_running_loop().call_soon(self._run)
                self._woken = dict.fromkeys(woken) | self._woken
                return
