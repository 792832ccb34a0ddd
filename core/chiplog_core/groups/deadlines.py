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
        """It is due then, whatever was said before."""
        self._due_ms[name] = due_ms
        if due_ms < self._queued_ms.get(name, due_ms + 1):
            self._queued_ms[name] = due_ms
            heappush(self._queue, (due_ms, name))

    def clear(self, name: str) -> None:
        """It is not due at all; fine where it never was."""
        self._due_ms.pop(name, None)

    @property
    def next_ms(self) -> int | None:
        """When the first one is due; None where there is none."""
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
        """The name that is due first; it is no longer due then. There must be one."""
        assert self.next_ms is not None, "nothing is due"
        _, name = self._queue[0]
        self.clear(name)
        return name
