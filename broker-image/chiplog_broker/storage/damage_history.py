"""What was found damaged in a data directory, the last few times, also when it is whole again.

For people and for whoever was refused a read: `damaged-replicas` says what is damaged now, and
forgets it when the replica is whole, which may be a second later. It is kept in memory only.
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
    """One replica that was found damaged once."""

    partition: TopicPartition
    topic_id: UUID | None
    """None where the replica did not say whose it is."""
    file: str
    """As a path in the data directory; empty where nobody could say."""
    offset: int | None
    """The first offset that could not be trusted."""
    is_cut: bool
    """The file ended too early."""
    why: str
    found_ms: int
    whole_ms: int | None = None
    """When it was whole again; None as long as it is not."""


class DamageHistory:
    """Of one data directory, since it was opened."""

    __slots__ = ("_clock", "_past")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._past: deque[FoundDamage] = deque(maxlen=MAX_DAMAGE_HISTORY)

    def __iter__(self) -> Iterator[FoundDamage]:
        """The newest first."""
        return iter(tuple(self._past))

    def found(
        self, partition: TopicPartition, topic_id: UUID | None, error: DamagedLogError
    ) -> None:
        """Now."""
        past = FoundDamage(
            partition,
            topic_id,
            error.file,
            error.offset,
            error.is_cut,
            str(error),
            found_ms=self._clock.now_ms(),
        )
        self._past.appendleft(past)

    def whole(self, partition: TopicPartition) -> None:
        """It was fetched anew, all of it, whatever was found in it and in copies of it."""
        now_ms = self._clock.now_ms()
        for index, past in enumerate(self._past):
            if past.partition == partition and past.whole_ms is None:
                self._past[index] = past._replace(whole_ms=now_ms)
