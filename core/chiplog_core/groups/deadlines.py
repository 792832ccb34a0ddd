"""Deadlines by name, most of which are moved to a later time again and again before they are due.

A heartbeat moves one deadline out of thousands, so this must be cheap: the queue keeps the old
entry, and moves it to the new time only when the old time has come.
"""

from heapq import heappop, heappush, heapreplace


class Deadlines:
    """A deadline for each of several names. Times are milliseconds."""

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._queue: list[tuple[int, str]] = []
        """A heap of (time, name)."""
        self._queued_ms: dict[str, int] = {}
        """The time of a name's valid entry in the queue. If a deadline was moved to an earlier
        time, the name has older entries in the queue, too, which are ignored."""

    def set(self, name: str, due_ms: int) -> None:
        """Set the deadline of the name, in place of the one it may have."""
        self._due_ms[name] = due_ms
        # An entry with an earlier time stays; `next_ms` moves it when its time has come.
        if due_ms < self._queued_ms.get(name, due_ms + 1):
            self._queued_ms[name] = due_ms
            heappush(self._queue, (due_ms, name))

    def clear(self, name: str) -> None:
        """Remove the deadline of the name, if it has one."""
        self._due_ms.pop(name, None)

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none. Corrects the head of the queue before."""
        while self._queue:
            queued_ms, name = self._queue[0]
            due_ms = self._due_ms.get(name)
            if queued_ms != self._queued_ms.get(name):  # an ignored entry
                heappop(self._queue)
            elif due_ms is None:  # the deadline was removed
                heappop(self._queue)
                del self._queued_ms[name]
            elif due_ms != queued_ms:  # the deadline was moved to a later time
                heapreplace(self._queue, (due_ms, name))
                self._queued_ms[name] = due_ms
            else:
                return due_ms
        return None

    def pop(self) -> str:
        """Remove the earliest deadline and return its name. There must be one."""
        assert self.next_ms is not None, "nothing is due"
        _, name = self._queue[0]
        self.clear(name)
        return name
