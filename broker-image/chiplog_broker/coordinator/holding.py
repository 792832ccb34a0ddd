"""Answers that wait until the records behind them are below the high watermark.

A coordinator acts on records as soon as they are appended, but answers only after the high
watermark has passed them. Otherwise a later coordinator could know less than a client
(replication.md, section 5).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice

from chiplog_broker.coordinator.errors import to_group_error
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_wire.protocol.errors import ErrorCode

TIMEOUT_S = 5.0
"""The default of Kafka's offsets.commit.timeout.ms."""

FORGOTTEN_PER_APPEND = 8
"""Each append removes up to this many entries of safe records and adds one, so the number of
entries falls."""


async def outcome(start: Callable[[OnSafe], None]) -> ErrorCode:
    """Call `start` with a callback, and wait for the code that the callback gets."""
    done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def on_safe(code: ErrorCode) -> None:
        # The waiting task may have been cancelled; then `set_result` would raise.
        if not done.done():
            done.set_result(code)

    start(on_safe)
    return await done


def call_when_safe(partition: Partition, offset: int, then: OnSafe) -> None:
    """Call `then` with `none` once the high watermark reaches `offset`, or with an error if it
    cannot."""
    if partition.call_when_safe(offset, then):  # it has reached the offset already
        then(ErrorCode.none)


async def until_safe(partition: Partition, end_offset: int, check: Callable[[], None]) -> None:
    """Wait until the high watermark reaches `end_offset`.

    While this leader is isolated, waiting for an offset fails again and again; this function
    continues to wait. `check` raises if the leader epoch has ended.
    """
    check()
    while partition.high_watermark < end_offset:
        await outcome(partial(call_when_safe, partition, end_offset))
        check()


class Safety:
    """For each group, the offset that the high watermark must reach before answers about it."""

    __slots__ = ("_ends", "_partition", "_waiting")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._ends: dict[str, int] = {}
        """Group -> end offset of its last records, the lowest first. Groups whose records are below
        the high watermark may be missing."""
        self._waiting: dict[int, dict[_Held, None]] = {}
        """Answers by the offset that they wait for. Each offset is registered with the partition
        once, however often clients time out and retry."""

    def __len__(self) -> int:
        """The number of groups with an entry."""
        return len(self._ends)

    def appended(self, group_id: str, end_offset: int) -> None:
        """Records of this group were appended, up to the log end offset `end_offset`."""
        # Removed and added again, so that the entries stay in the order of their offsets.
        self._ends.pop(group_id, None)
        for oldest, safe_offset in list(islice(self._ends.items(), FORGOTTEN_PER_APPEND)):
            if safe_offset > self._partition.high_watermark:
                break
            del self._ends[oldest]
        self._ends[group_id] = end_offset

    def call_when_safe(self, group_id: str, then: OnSafe) -> None:
        """Call `then` with `none` once all records of the group are below the high watermark, or
        with an error after `TIMEOUT_S`."""
        self._call_when_safe_at(self._ends.get(group_id, 0), then)

    def call_when_all_safe(self, then: OnSafe) -> None:
        """Call `then` with `none` once the records of all groups are below the high watermark, or
        with an error after `TIMEOUT_S`."""
        # The last entry has the highest offset.
        self._call_when_safe_at(next(reversed(self._ends.values()), 0), then)

    def _call_when_safe_at(self, end_offset: int, then: OnSafe) -> None:
        """Call `then` once the high watermark reaches this offset, or with an error after a
        timeout."""
        if self._partition.high_watermark >= end_offset:
            then(ErrorCode.none)
            return
        held = _Held(then)
        waiting = self._waiting.get(end_offset)
        if waiting is None:
            waiting = self._waiting[end_offset] = {}
            self._partition.call_when_safe(end_offset, partial(self._on_safe, end_offset))
        waiting[held] = None
        held.give_up_after(TIMEOUT_S, waiting)

    def _on_safe(self, end_offset: int, code: ErrorCode) -> None:
        """The high watermark has reached this offset, or `code` says why it cannot."""
        for held in self._waiting.pop(end_offset):
            held.answer(code)


class _Held:
    """One waiting answer. It is given once: when the high watermark reaches its offset, or
    after a timeout."""

    __slots__ = ("_then", "_timeout")

    def __init__(self, then: OnSafe) -> None:
        self._then = then
        self._timeout: asyncio.TimerHandle | None = None

    def give_up_after(self, timeout_s: float, waiting: "dict[_Held, None]") -> None:
        """After this time remove this answer from `waiting`, and answer with a timeout error."""
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(timeout_s, self._give_up, waiting)

    def _give_up(self, waiting: "dict[_Held, None]") -> None:
        """The timeout has passed: give the answer as an error."""
        del waiting[self]
        self._then(to_group_error(ErrorCode.request_timed_out))

    def answer(self, code: ErrorCode) -> None:
        """Give the answer with this code of the partition, before the timeout."""
        if self._timeout is not None:
            self._timeout.cancel()
        self._then(code if code is ErrorCode.none else to_group_error(code))
