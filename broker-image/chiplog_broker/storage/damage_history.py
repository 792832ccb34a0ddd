"""The damage that was found in a data directory recently, also if it has been repaired.

It is shown to users and used in the error messages of refused reads. The file `damaged-replicas` is
not enough for that: it contains only present damage, which may be repaired within a second. The
history is kept in memory only.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.limits import MAX_DAMAGE_HISTORY


class FoundDamage(NamedTuple):
    """One replica that was found damaged."""

    partition: TopicPartition
    topic_id: UUID | None
    """None if the replica's own metadata could not be read."""
    file: str
    """As a path in the data directory; empty if it is not known."""
    offset: int | None
    """The first offset that is damaged, or that the damage makes uncertain; None if not known."""
    is_cut: bool
    """Whether the damage is that the file is too short."""
    why: str
    found_ms: int
    repaired_ms: int | None = None
    """When it was completely refetched; None before."""


class DamageHistory:
    """The history of one data directory, since it was opened."""

    __slots__ = ("_clock", "_history")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history: deque[FoundDamage] = deque(maxlen=MAX_DAMAGE_HISTORY)

    def __iter__(self) -> Iterator[FoundDamage]:
        """The newest first."""
        return iter(tuple(self._history))

    def found(
        self, partition: TopicPartition, topic_id: UUID | None, error: DamagedLogError
    ) -> None:
        """Add damage that was just found."""
        past = FoundDamage(
            partition,
            topic_id,
            error.file,
            error.offset,
            error.is_cut,
            str(error),
            found_ms=self._clock.now_ms(),
        )
        self._history.appendleft(past)

    def mark_repaired(self, partition: TopicPartition) -> None:
        """Set the time of repair of all damage of this replica: it was completely refetched now."""
        now_ms = self._clock.now_ms()
        for index, past in enumerate(self._history):
            if past.partition == partition and past.repaired_ms is None:
                self._history[index] = past._replace(repaired_ms=now_ms)
