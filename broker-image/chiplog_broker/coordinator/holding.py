"""Answers that wait until what they tell of is safe.

A coordinator acts on what it has appended, and tells nobody before the high watermark has passed
it: another coordinator could otherwise know less than a client (replication.md, section 5).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TypeAlias

from chiplog_broker.coordinator.errors import told
from chiplog_broker.partitions.partition import Partition
from chiplog_wire.protocol.errors import ErrorCode

TIMEOUT_S = 5.0
"""Kafka's offsets.commit.timeout.ms, which nobody changes."""

FORGOTTEN_PER_APPEND = 8
"""With each append more are forgotten than are added."""

Told: TypeAlias = Callable[[ErrorCode], None]
"""Called once: with `none`, or with what is to be answered instead."""


async def outcome(ask: Callable[[Told], None]) -> ErrorCode:
    """What somebody who is asked with a callback tells."""
    done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def told(code: ErrorCode) -> None:
        # Who asked may have been cancelled; whoever tells does so in the middle of other work.
        if not done.done():
            done.set_result(code)

    ask(told)
    return await done


def when_safe(partition: Partition, offset: int, then: Told) -> None:
    """Call `then` when the high watermark is there, at once if it is, or when it cannot be."""
    if partition.when_safe(offset, then):
        then(ErrorCode.none)


class Safety:
    """How far each group's part of a partition must be safe before anything is told of it."""

    __slots__ = ("_ends", "_partition", "_waiting")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._ends: dict[str, int] = {}
        """Where the last records of groups end, ascending; not of all that are safe."""
        self._waiting: dict[int, dict[_Held, None]] = {}
        """Answers by the offset that they wait for. The partition knows of each offset once,
        however often somebody asks, gives up and asks again."""

    def __len__(self) -> int:
        """Groups that are remembered."""
        return len(self._ends)

    def appended(self, group_id: str, end_offset: int) -> None:
        """Something of this group ends there, at the end of the log."""
        self._ends.pop(group_id, None)
        for oldest, safe_offset in list(islice(self._ends.items(), FORGOTTEN_PER_APPEND)):
            if safe_offset > self._partition.high_watermark:
                break
            del self._ends[oldest]
        self._ends[group_id] = end_offset

    def when_safe(self, group_id: str, then: Told) -> None:
        """Call `then`, at once if nothing is in the way. After some seconds it is told that not."""
        self._when_at(self._ends.get(group_id, 0), then)

    def when_all_safe(self, then: Told) -> None:
        """The same, for what is told of all groups."""
        self._when_at(next(reversed(self._ends.values()), 0), then)

    def _when_at(self, end_offset: int, then: Told) -> None:
        if self._partition.high_watermark >= end_offset:
            then(ErrorCode.none)
            return
        held = _Held(then)
        waiting = self._waiting.get(end_offset)
        if waiting is None:
            waiting = self._waiting[end_offset] = {}
            self._partition.when_safe(end_offset, partial(self._settled, end_offset))
        waiting[held] = None
        held.give_up_after(TIMEOUT_S, waiting)

    def _settled(self, end_offset: int, code: ErrorCode) -> None:
        for held in self._waiting.pop(end_offset):
            held.settled(code)


class _Held:
    """One answer; whichever comes first, it is given once."""

    __slots__ = ("_then", "_timeout")

    def __init__(self, then: Told) -> None:
        self._then = then
        self._timeout: asyncio.TimerHandle | None = None

    def give_up_after(self, timeout_s: float, waiting: "dict[_Held, None]") -> None:
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(timeout_s, self._give_up, waiting)

    def _give_up(self, waiting: "dict[_Held, None]") -> None:
        del waiting[self]
        self._then(told(ErrorCode.request_timed_out))

    def settled(self, code: ErrorCode) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        self._then(code if code is ErrorCode.none else told(code))
