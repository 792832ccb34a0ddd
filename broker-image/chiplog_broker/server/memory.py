"""The memory that connections make a broker hold: one budget, and an account for each.

Charged are buffers of requests that are not whole yet, beyond a small part that each connection
has for itself; answers that wait to be written; and answers that were written and that the peer
does not take. A request for which there is no room is not read on until there is some. Where
none comes for a moment, whoever holds most for longest, and got nothing done in the meantime,
loses its connection: peers that are merely slow hold little, and those that hold much and are
quick are done soon.

Everything runs on the event loop's thread.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

KIB: Final = 1024
FREE_BYTES: Final = 16 * KIB
"""Of its buffer, what each connection has for itself: small requests do not need the budget."""
COUNTED_FROM_BYTES: Final = 16 * KIB
"""Smaller answers are not worth counting: a connection has few of them."""
PATIENCE_S: Final = 0.15
"""How long a peer waits for room before others are made to leave. Clients next to an attack
notice no more than this."""
MAX_EVICTIONS: Final = 8
"""Who is evicted comes again, and sends as much again: that takes time from everybody."""
UNBOUNDED: Final = 2**62


class Holder(Protocol):
    """A connection, as the budget sees it."""

    frames_in: int
    """How many requests have come. Who completes one is no attacker."""

    def trim(self) -> None:
        """Give back what it keeps for later only."""

    def abort(self) -> None:
        """It holds too much: drop it."""


class Gone:
    """Who held something once."""

    frames_in = 0

    def trim(self) -> None:
        """There is nothing."""

    def abort(self) -> None:
        """It is gone."""


GONE: Final = Gone()


class MemoryBudget:
    """Of all connections of one kind."""

    def __init__(self, limit_bytes: int, answer_bytes: int = UNBOUNDED) -> None:
        """`answer_bytes` is the most that one answer may be made of in memory."""
        self.limit_bytes = limit_bytes
        self.answer_bytes = answer_bytes
        self.taken_bytes = 0
        self.evictions = 0
        self._holders: dict[Account, float] = {}
        """Who holds anything, since when."""
        self._waiting: dict[Account, tuple[int, Callable[[], None]]] = {}
        self._newest_first = True
        self._is_short = False
        self._timer: asyncio.TimerHandle | None = None
        self._frames_before: dict[Account, int] = {}

    @property
    def room_bytes(self) -> int:
        """What may still be taken."""
        return max(self.limit_bytes - self.taken_bytes, 0)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)

    def room_for_answer(self) -> int:
        """How large an answer may be that is made now."""
        room_bytes = self.room_bytes
        if room_bytes < self.limit_bytes // 8:
            self._is_short = True
            self._press()
        return min(room_bytes, self.answer_bytes)

    # -- for accounts

    def changed(self, account: "Account", change_bytes: int) -> None:
        """An account holds so much more, or less."""
        self.taken_bytes += change_bytes
        if not account.held_bytes:
            self._holders.pop(account, None)
        elif account not in self._holders:
            self._holders[account] = now_s()
        if change_bytes < 0 and self._waiting:
            self._serve()

    def reserve(self, account: "Account", size_bytes: int, granted: Callable[[], None]) -> bool:
        """Take it now; or else later, and call `granted` then."""
        if self._timer is None and size_bytes > self.room_bytes:
            self._trim()
        if not self._waiting and size_bytes <= self.room_bytes:
            account.reserved(size_bytes)
            return True
        self._waiting[account] = size_bytes, granted
        self._press()
        return False

    def left(self, account: "Account") -> None:
        """Its connection is gone."""
        self._waiting.pop(account, None)

    # -- where there is no room

    def _serve(self) -> None:
        """In turn those that wait for the shortest and for the longest time.

        Behind hundreds that will never be done, a newcomer would wait for ever; before hundreds of
        newcomers, so would who is there already.
        """
        while self._waiting:
            ends = reversed(self._waiting) if self._newest_first else iter(self._waiting)
            account = next(ends)
            size_bytes, granted = self._waiting[account]
            if size_bytes > self.room_bytes:
                return
            self._newest_first = not self._newest_first
            del self._waiting[account]
            account.reserved(size_bytes)
            # Later: whoever gives something back may be in the middle of anything.
            asyncio.get_running_loop().call_soon(granted)

    def _press(self) -> None:
        """Look again in a moment."""
        if self._timer is None:
            self._frames_before = {one: one.holder.frames_in for one in self._holders}
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PATIENCE_S, self._make_room)

    def _make_room(self) -> None:
        self._timer = None
        self._trim()
        freed_bytes = 0
        for worst in self._stuck()[:MAX_EVICTIONS]:
            is_wanted = self._waiting or (
                self._is_short and self.room_bytes < self.limit_bytes // 4
            )
            # Any request fits into half of it; who is among the others may be no attacker.
            if not is_wanted or freed_bytes >= self.limit_bytes // 2:
                break
            freed_bytes += worst.held_bytes
            self.evictions += 1
            worst.holder.abort()
            worst.close()
        self._is_short = False
        if self._waiting:
            self._press()

    def _trim(self) -> None:
        """Take back what connections keep only because they may need it again."""
        for one in list(self._holders):
            one.holder.trim()

    def _stuck(self) -> "list[Account]":
        """Those that got nothing done meanwhile, the one with the most byte-seconds first."""
        until_s, before = now_s(), self._frames_before
        stuck = [
            one
            for one in self._holders
            if before.get(one) == one.holder.frames_in and not one.is_trusted
        ]
        stuck.sort(key=lambda one: one.held_bytes * (until_s - self._holders[one]), reverse=True)
        return stuck


class Account:
    """What one connection holds of its budget."""

    __slots__ = (
        "_budget",
        "_frame",
        "_is_open",
        "_promised",
        "_unsent",
        "held_bytes",
        "holder",
        "is_trusted",
    )

    def __init__(self, budget: MemoryBudget, holder: Holder) -> None:
        self._budget = budget
        self.holder = holder
        self.held_bytes = 0
        self._frame = self._promised = self._unsent = 0
        self._is_open = True
        self.is_trusted = False
        """One of the cluster's own brokers: counted, but it neither waits nor has to go."""

    @property
    def budget(self) -> MemoryBudget:
        """What it is an account of."""
        return self._budget

    # -- requests: the room of a `FrameReader`

    def may_grow(self, change_bytes: int) -> bool:
        """Whether a buffer may grow that need not."""
        return change_bytes <= self._budget.room_bytes // 4

    def holds(self, capacity_bytes: int) -> None:
        """The buffer has another size now."""
        self._set_frame(max(capacity_bytes - FREE_BYTES, 0))

    def claim(self, capacity_bytes: int, granted: Callable[[], None]) -> bool:
        """Whether the buffer, which cannot do without, may have this size. If not, it will be
        `granted` later."""
        more_bytes = capacity_bytes - FREE_BYTES - self._frame
        if more_bytes <= 0 or self.is_trusted:
            return True
        return self._budget.reserve(self, more_bytes, granted)

    def reserved(self, size_bytes: int) -> None:
        """So much more is granted to the buffer, which is about to grow."""
        self._set_frame(self._frame + size_bytes)

    @property
    def is_wanted(self) -> bool:
        """Whether others wait for what its buffer takes."""
        return self._frame > 0 and self._budget.is_wanted

    # -- answers

    def promised(self, size_bytes: int) -> None:
        """An answer of this size was made and waits for those before it."""
        if size_bytes >= COUNTED_FROM_BYTES and self._is_open:
            self._promised += size_bytes
            self._changed(size_bytes)

    def written(self) -> None:
        """What was promised is with the transport."""
        if self._promised and self._is_open:
            change_bytes, self._promised = -self._promised, 0
            self._changed(change_bytes)

    def unsent(self, size_bytes: int) -> None:
        """So much is with the transport that the peer does not take."""
        change_bytes = size_bytes - self._unsent
        if change_bytes and self._is_open:
            self._unsent = size_bytes
            self._changed(change_bytes)

    def close(self) -> None:
        """The connection is gone, or as good as gone; nothing is charged after this."""
        if self._is_open:
            self._is_open = False
            self._budget.left(self)
            self._changed(-self.held_bytes)
            self.holder = GONE

    def _set_frame(self, size_bytes: int) -> None:
        change_bytes = size_bytes - self._frame
        if change_bytes and self._is_open:
            self._frame = size_bytes
            self._changed(change_bytes)

    def _changed(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes
        self._budget.changed(self, change_bytes)


def now_s() -> float:
    """Of the running loop's clock."""
    return asyncio.get_running_loop().time()
