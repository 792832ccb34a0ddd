"""Deadlines by name, of which most are put off again and again before they are due.

A heartbeat moves one deadline out of thousands, so that must cost next to nothing: the queue
keeps the old entry, and only when that comes up does it learn of the new time.
"""

from heapq import heappop, heappush, heapreplace


class Deadlines:
    """When something is due for each of several names. Times are milliseconds."""

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._queue: list[tuple[int, str]] = []
        self._queued_ms: dict[str, int] = {}
        """The time of the one entry of a name that counts; it has others if it was put forward."""

    def set(self, name: str, due_ms: int) -> None:
        """Set the time when the name is due, in place of an earlier one."""
        self._due_ms[name] = due_ms
        if due_ms < self._queued_ms.get(name, due_ms + 1):
            self._queued_ms[name] = due_ms
            heappush(self._queue, (due_ms, name))

    def clear(self, name: str) -> None:
        """The name is not due any more. It need not have been."""
        self._due_ms.pop(name, None)

    @property
    def next_ms(self) -> int | None:
        """The time when the first name is due; None if no name is."""
        while self._queue:
            queued_ms, name = self._queue[0]
            due_ms = self._due_ms.get(name)
            if queued_ms != self._queued_ms.get(name):
                heappop(self._queue)
            elif due_ms is None:
                heappop(self._queue)
                del self._queued_ms[name]
            elif due_ms != queued_ms:
                heapreplace(self._queue, (due_ms, name))
                self._queued_ms[name] = due_ms
            else:
                return due_ms
        return None

    def pop(self) -> str:
        """Remove and return the name that is due first. There must be one."""
        assert self.next_ms is not None, "nothing is due"
        _, name = self._queue[0]
        self.clear(name)
        return name
