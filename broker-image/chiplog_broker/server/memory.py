"""Limits the memory of connections: one budget, and an account for each connection.

The budget covers three things: buffers of incomplete requests, beyond a small part that is free for
each connection; answers that wait to be written; and written answers that the peer does not
receive. A request that finds no memory is not read further until memory is available. If none
becomes available for a moment, the connection with the largest use over time that has not completed
a request is closed: slow peers use little memory, and fast peers with large requests finish soon.

Everything runs on the event loop's thread.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

KIB: Final = 1024
FREE_BYTES: Final = 16 * KIB
"""Bytes of its buffer that each connection has without the budget: enough for small requests."""
COUNTED_FROM_BYTES: Final = 16 * KIB
"""Smaller answers are not counted: a connection has few of them."""
PATIENCE_S: Final = 0.15
"""How long a connection waits for memory before others are evicted. Other clients notice no longer
delay during an attack."""
MAX_EVICTIONS: Final = 8
"""Evicted clients reconnect and send again, which costs time: so only this many at a time."""
UNBOUNDED: Final = 2**62


class Holder(Protocol):
    """A connection, as the budget sees it."""

    frames_in: int
    """Number of requests that were received completely. A client that completes requests is no
    attacker."""

    def trim(self) -> None:
        """Release memory that is only kept for later use."""

    def abort(self) -> None:
        """It uses too much memory: close the connection."""


class ClosedHolder:
    """Takes the place of a connection that is closed."""

    frames_in = 0

    def trim(self) -> None:
        """Does nothing: there is nothing to release."""

    def abort(self) -> None:
        """Does nothing: it is closed already."""


GONE: Final = ClosedHolder()


class MemoryBudget:
    """The memory budget of all connections of one kind."""

    def __init__(self, limit_bytes: int, answer_bytes: int = UNBOUNDED) -> None:
        """`answer_bytes`: the maximum memory for one answer."""
        self.limit_bytes = limit_bytes
        self.answer_bytes = answer_bytes
        self.taken_bytes = 0
        self.evictions = 0
        self._holders: dict[Account, float] = {}
        """Accounts that use memory, with the time since when."""
        self._waiting: dict[Account, tuple[int, Callable[[], None]]] = {}
        self._newest_first = True
        self._is_short = False
        self._timer: asyncio.TimerHandle | None = None
        self._frames_before: dict[Account, int] = {}

    @property
    def room_bytes(self) -> int:
        """Bytes that are still available."""
        return max(self.limit_bytes - self.taken_bytes, 0)

    @property
    def is_wanted(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._waiting)

    def room_for_answer(self) -> int:
        """The maximum size of an answer that is made now."""
        room_bytes = self.room_bytes
        if room_bytes < self.limit_bytes // 8:
            self._is_short = True
            self._check_again_soon()
        return min(room_bytes, self.answer_bytes)

    # -- for accounts

    def changed(self, account: "Account", change_bytes: int) -> None:
        """An account uses this much more, or less."""
        self.taken_bytes += change_bytes
        if not account.held_bytes:
            self._holders.pop(account, None)
        elif account not in self._holders:
            self._holders[account] = now_s()
        if change_bytes < 0 and self._waiting:
            self._serve()

    def reserve(self, account: "Account", size_bytes: int, granted: Callable[[], None]) -> bool:
        """Reserve the bytes now and return True; otherwise call `granted` once they are
        reserved."""
        if self._timer is None and size_bytes > self.room_bytes:
            self._trim()
        if not self._waiting and size_bytes <= self.room_bytes:
            account.reserved(size_bytes)
            return True
        self._waiting[account] = size_bytes, granted
        self._check_again_soon()
        return False

    def connection_closed(self, account: "Account") -> None:
        """The connection of this account is closed."""
        self._waiting.pop(account, None)

    # -- when memory is short

    def _serve(self) -> None:
        """Serve alternately those that wait for the shortest and for the longest time.

        Otherwise a new request would wait for ever behind hundreds that never complete, or an old
        one behind hundreds of new ones.
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
            # Later: the caller that released memory may be in the middle of other work.
            asyncio.get_running_loop().call_soon(granted)

    def _check_again_soon(self) -> None:
        """Check again in a moment."""
        if self._timer is None:
            self._frames_before = {account: account.holder.frames_in for account in self._holders}
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
            # Any request fits into half of the budget, so smaller users may be no attackers.
            if not is_wanted or freed_bytes >= self.limit_bytes // 2:
                break
            freed_bytes += worst.held_bytes
            self.evictions += 1
            worst.holder.abort()
            worst.close()
        self._is_short = False
        if self._waiting:
            self._check_again_soon()

    def _trim(self) -> None:
        """Take back memory that connections only keep for later use."""
        for account in list(self._holders):
            account.holder.trim()

    def _stuck(self) -> "list[Account]":
        """Connections that completed nothing since they began to use memory, the largest
        byte-seconds first."""
        until_s, before = now_s(), self._frames_before
        stuck = [
            account
            for account in self._holders
            if before.get(account) == account.holder.frames_in and not account.is_trusted
        ]
        stuck.sort(
            key=lambda account: account.held_bytes * (until_s - self._holders[account]),
            reverse=True,
        )
        return stuck


class Account:
    """The memory of one connection."""

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
        """One of the cluster's brokers: its memory is counted, but it neither waits nor is
        evicted."""

    @property
    def budget(self) -> MemoryBudget:
        """The budget of this account."""
        return self._budget

    # -- requests: the memory of a `FrameReader`

    def may_grow(self, change_bytes: int) -> bool:
        """Whether a buffer may grow although it need not."""
        return change_bytes <= self._budget.room_bytes // 4

    def holds(self, capacity_bytes: int) -> None:
        """The size of the buffer has changed."""
        self._set_frame(max(capacity_bytes - FREE_BYTES, 0))

    def claim(self, capacity_bytes: int, granted: Callable[[], None]) -> bool:
        """Whether the buffer may have this size now; its request cannot be read without it. If not,
        `granted` is called later."""
        more_bytes = capacity_bytes - FREE_BYTES - self._frame
        if more_bytes <= 0 or self.is_trusted:
            return True
        return self._budget.reserve(self, more_bytes, granted)

    def reserved(self, size_bytes: int) -> None:
        """The buffer may grow by this many bytes, and is about to."""
        self._set_frame(self._frame + size_bytes)

    @property
    def is_wanted(self) -> bool:
        """Whether others wait for the memory of this buffer."""
        return self._frame > 0 and self._budget.is_wanted

    # -- answers

    def answer_made(self, size_bytes: int) -> None:
        """An answer of this size was made; it is sent after earlier ones."""
        if size_bytes >= COUNTED_FROM_BYTES and self._is_open:
            self._promised += size_bytes
            self._changed(size_bytes)

    def written(self) -> None:
        """An answer of this size was given to the transport."""
        if self._promised and self._is_open:
            change_bytes, self._promised = -self._promised, 0
            self._changed(change_bytes)

    def unsent(self, size_bytes: int) -> None:
        """The bytes in the transport that the peer does not receive."""
        change_bytes = size_bytes - self._unsent
        if change_bytes and self._is_open:
            self._unsent = size_bytes
            self._changed(change_bytes)

    def close(self) -> None:
        """The connection is closed, or is closing; nothing is counted after this."""
        if self._is_open:
            self._is_open = False
            self._budget.connection_closed(self)
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
    """The clock of the running loop."""
    return asyncio.get_running_loop().time()
