"""How many connections there may be, and how slow: counted over all listeners."""

from collections import Counter
from dataclasses import dataclass

from chiplog_broker.server.memory import UNBOUNDED, MemoryBudget


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a broker allows its clients."""

    max_connections: int
    max_connections_per_ip: int
    max_frame_bytes: int
    max_idle_s: float
    slow_after_s: float = 30.0
    """Over how long the speed of a request on its way is looked at, again and again."""
    slowest_bytes_per_s: float = 1024.0
    """A client slower than this is dropped: it would hold its connection for ever."""
    memory_bytes: int = UNBOUNDED
    """What all connections together may hold: see `memory`."""
    answer_bytes: int = UNBOUNDED
    """The largest answer that is made in memory."""
    descriptors_below: int = UNBOUNDED
    """A connection whose descriptor is not below this is refused: what is left is for others."""


class ConnectionQuota:
    """The connections of all listeners, by address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.memory = MemoryBudget(limits.memory_bytes, limits.answer_bytes)
        self._of_host: Counter[str] = Counter()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there may be, wherever they come from."""
        return self._count >= self.limits.max_connections

    def enter(self, host: str) -> bool:
        """Count a connection in, unless there are too many."""
        if self.is_full or self._of_host[host] >= self.limits.max_connections_per_ip:
            return False
        self._count += 1
        self._of_host[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Count one out that was let in."""
        self._count -= 1
        self._of_host[host] -= 1
        if self._of_host[host] <= 0:
            del self._of_host[host]
