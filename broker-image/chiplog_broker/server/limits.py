"""The limits of connections: their number over all listeners, their speed and their memory."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chiplog_broker.server.memory import UNBOUNDED, MemoryBudget


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits for clients of a broker."""

    max_connections: int
    max_connections_per_ip: int
    max_frame_bytes: int
    max_idle_s: float
    slow_after_s: float = 30.0
    """The interval in which the speed of an incomplete request is measured."""
    slowest_bytes_per_s: float = 1024.0
    """A slower client is disconnected: it would hold its connection for ever."""
    memory_bytes: int = UNBOUNDED
    """The memory of all connections together: see `memory`."""
    answer_bytes: int = UNBOUNDED
    """The largest answer that is created in memory."""
    descriptors_below: int = UNBOUNDED
    """A connection whose socket gets this descriptor number or a higher one is refused: the higher
    descriptors are reserved for files."""


class ConnectionQuota:
    """Counts the connections on all listeners, in total and by client address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.memory = MemoryBudget(limits.memory_bytes, limits.answer_bytes)
        self.make_room: list[Callable[[], bool]] = []
        """For each listener: closes the connection with the longest incomplete login. Returns False
        if there is none."""
        self._of_host: Counter[str] = Counter()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether the total number of connections has reached its limit."""
        return self._count >= self.limits.max_connections

    def enter(self, host: str) -> bool:
        """Count a new connection and return True; False if there are too many."""
        if self.is_full or self._of_host[host] >= self.limits.max_connections_per_ip:
            return False
        self._count += 1
        self._of_host[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Remove a counted connection."""
        self._count -= 1
        self._of_host[host] -= 1
        if self._of_host[host] <= 0:
            del self._of_host[host]
