"""Limits the memory of connections: one budget, and an account for each connection.

The budget covers three things: buffers of incomplete requests, without the first `FREE_BYTES` of
each connection; answers that wait to be written; and written answers that the client does not
receive. If there is no memory for the rest of a request, its connection is not read until memory is
available. If none becomes available within `PATIENCE_S`, the connections that have used most memory
for the longest time without completing a request are closed. These are attackers: slow clients use
little memory, and fast clients with large requests finish soon.

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
"""How long a connection waits for memory before others are closed. During an attack other clients
are delayed by about this time."""
MAX_EVICTIONS: Final = 8
"""Evicted clients reconnect and send again, which costs time: so only this many at a time."""
UNBOUNDED: Final = 2**62


class Holder(Protocol):
    """The part of a connection that the budget uses."""

    frames_in: int
    """Number of requests that were received completely. A client that completes requests is no
    attacker."""

    def trim(self) -> None:
        """Release memory that is only kept for later use."""

    def abort(self) -> None:
        """Close the connection, because it uses too much memory."""


class ClosedHolder:
    """Takes the place of a closed connection in its account, so that its memory is released."""

    frames_in = 0

    def trim(self) -> None:
        """Does nothing: there is nothing to release."""

    def abort(self) -> None:
        """Does nothing: it is closed already."""


GONE: Final = ClosedHolder()


class MemoryBudget:
    """The memory of all connections together, and which of them wait for memory."""

    def __init__(self, limit_bytes: int, answer_bytes: int = UNBOUNDED) -> None:
        """`answer_bytes`: the maximum memory for one answer."""
        self.limit_bytes = limit_bytes
        self.answer_bytes = answer_bytes
        self.taken_bytes = 0
        self.evictions = 0
        self._holders: dict[Account, float] = {}
        """Accounts that use memory, with the time in seconds since when they do."""
        self._waiting: dict[Account, tuple[int, Callable[[], None]]] = {}
        """Accounts that wait for memory: the bytes, and the function to call when they get them."""
        self._newest_first = True
        """Whether the account that has waited for the shortest time is served next."""
        self._is_short = False
        """Whether less than an eighth of the budget was available for an answer."""
        self._timer: asyncio.TimerHandle | None = None
        self._frames_before: dict[Account, int] = {}
        """Complete requests of each account when the timer was started."""

    @property
    def available_bytes(self) -> int:
        """Bytes of the budget that are not in use."""
        return max(self.limit_bytes - self.taken_bytes, 0)

    @property
    def is_wanted(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._waiting)

    def available_for_answer(self) -> int:
        """The maximum size in bytes of an answer that is made now. Connections may be closed soon
        if this is little."""
        available_bytes = self.available_bytes
        if available_bytes < self.limit_bytes // 8:
            self._is_short = True
            self._start_timer()
        return min(available_bytes, self.answer_bytes)

    # -- for accounts

    def changed(self, account: "Account", change_bytes: int) -> None:
        """Count that an account uses this many bytes more; fewer if negative."""
        self.taken_bytes += change_bytes
        if not account.held_bytes:
            self._holders.pop(account, None)
        elif account not in self._holders:
            self._holders[account] = now_s()
        if change_bytes < 0 and self._waiting:
            self._serve()

    def reserve(self, account: "Account", size_bytes: int, granted: Callable[[], None]) -> bool:
        """Reserve memory. Returns True if it is reserved now; if False, `granted` is called once it
        is."""
        if self._timer is None and size_bytes > self.available_bytes:
            self._trim()
        if not self._waiting and size_bytes <= self.available_bytes:
            account.reserved(size_bytes)
            return True
        self._waiting[account] = size_bytes, granted
        self._start_timer()
        return False

    def connection_closed(self, account: "Account") -> None:
        """Forget what the account of a closed connection waits for."""
        self._waiting.pop(account, None)

    # -- when memory is short

    def _serve(self) -> None:
        """Give available memory to waiting accounts: alternately to the newest and to the oldest
        one.

        If the oldest always came first, a new request would wait for ever behind hundreds that
        never complete. If the newest always came first, an old one would wait for ever.
        """
        while self._waiting:
            ends = reversed(self._waiting) if self._newest_first else iter(self._waiting)
            account = next(ends)
            size_bytes, granted = self._waiting[account]
            if size_bytes > self.available_bytes:
                return
            self._newest_first = not self._newest_first
            del self._waiting[account]
            account.reserved(size_bytes)
            # Not called at once: the caller that released memory may be in the middle of its work.
            asyncio.get_running_loop().call_soon(granted)

    def _start_timer(self) -> None:
        """Start the timer after which connections are closed if memory is still short."""
        if self._timer is None:
            self._frames_before = {account: account.holder.frames_in for account in self._holders}
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PATIENCE_S, self._evict)

    def _evict(self) -> None:
        """Close the connections with the largest use of memory while others wait for memory."""
        self._timer = None
        self._trim()
        freed_bytes = 0
        for worst in self._eviction_candidates()[:MAX_EVICTIONS]:
            # Memory is wanted by waiting requests, or by answers while three quarters are in use.
            is_wanted = self._waiting or (
                self._is_short and self.available_bytes < self.limit_bytes // 4
            )
            # Any request fits into half of the budget. More need not be freed, and connections with
            # little memory may be no attackers.
            if not is_wanted or freed_bytes >= self.limit_bytes // 2:
                break
            freed_bytes += worst.held_bytes
            self.evictions += 1
            worst.holder.abort()
            worst.close()
        self._is_short = False
        if self._waiting:
            self._start_timer()

    def _trim(self) -> None:
        """Take back memory that connections only keep for later use."""
        for account in list(self._holders):
            account.holder.trim()

    def _eviction_candidates(self) -> "list[Account]":
        """The accounts that have completed no request since the timer was started, without those of
        brokers. Those with the most used bytes times seconds come first."""
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
    """Counts the memory of one connection, and requests more from the budget."""

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
        # Bytes of the read buffer, of answers that wait for earlier ones, and in the transport.
        self._frame = self._promised = self._unsent = 0
        self._is_open = True
        self.is_trusted = False
        """Whether the client is a broker of this cluster: its memory is counted, but it neither
        waits for memory nor is closed."""

    @property
    def budget(self) -> MemoryBudget:
        """The budget of this account."""
        return self._budget

    # -- requests: the memory of a `FrameReader`

    def may_grow(self, change_bytes: int) -> bool:
        """Whether a buffer may grow by this much only to save system calls."""
        return change_bytes <= self._budget.available_bytes // 4

    def holds(self, capacity_bytes: int) -> None:
        """Count the new size of the read buffer, without the first `FREE_BYTES`, which each
        connection has in addition to the budget."""
        self._set_frame(max(capacity_bytes - FREE_BYTES, 0))

    def claim(self, capacity_bytes: int, granted: Callable[[], None]) -> bool:
        """Reserve memory for a buffer of this size, without which a request cannot be read further.

        Returns True if it may grow now; if False, `granted` is called once it may.
        """
        more_bytes = capacity_bytes - FREE_BYTES - self._frame
        if more_bytes <= 0 or self.is_trusted:
            return True
        return self._budget.reserve(self, more_bytes, granted)

    def reserved(self, size_bytes: int) -> None:
        """Count the bytes by which the buffer may and will grow."""
        self._set_frame(self._frame + size_bytes)

    @property
    def is_wanted(self) -> bool:
        """Whether other connections wait for memory, and this one's buffer uses some."""
        return self._frame > 0 and self._budget.is_wanted

    # -- answers

    def answer_made(self, size_bytes: int) -> None:
        """Count an answer that was made, but is sent only after earlier ones."""
        if size_bytes >= COUNTED_FROM_BYTES and self._is_open:
            self._promised += size_bytes
            self._changed(size_bytes)

    def written(self) -> None:
        """All answers that were made have been given to the transport, which counts them itself."""
        if self._promised and self._is_open:
            change_bytes, self._promised = -self._promised, 0
            self._changed(change_bytes)

    def unsent(self, size_bytes: int) -> None:
        """Count the bytes in the transport that the client has not received yet."""
        change_bytes = size_bytes - self._unsent
        if change_bytes and self._is_open:
            self._unsent = size_bytes
            self._changed(change_bytes)

    def close(self) -> None:
        """Release all memory of the account; changes after this are not counted."""
        if self._is_open:
            self._is_open = False
            self._budget.connection_closed(self)
            self._changed(-self.held_bytes)
            self.holder = GONE

    def _set_frame(self, size_bytes: int) -> None:
        """Count the read buffer; `size_bytes` is its size without the first `FREE_BYTES`."""
        change_bytes = size_bytes - self._frame
        if change_bytes and self._is_open:
            self._frame = size_bytes
            self._changed(change_bytes)

    def _changed(self, change_bytes: int) -> None:
        """Count a change of this account's memory, here and in the budget."""
        self.held_bytes += change_bytes
        self._budget.changed(self, change_bytes)


def now_s() -> float:
    """The clock of the running loop."""
    return asyncio.get_running_loop().time()
