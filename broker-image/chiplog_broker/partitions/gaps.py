"""Gaps in producers' sequences, which a leader that was replaced may see before it learns of that.

Its successor acknowledges a batch, and the producer sends the next one here: kafka-python 3.0 takes
any metadata for the newest, also that of a broker which does not know of the election yet. The
batch between is missing here, and OUT_OF_ORDER_SEQUENCE_NUMBER makes such a producer give up its
records, although nothing is wrong. NOT_LEADER_OR_FOLLOWER makes it look for the leader again. So
the second is the answer at first. The gap is real if it is still there when a replaced leader would
have noticed.
"""

from dataclasses import dataclass, replace
from typing import Final

from chiplog_wire.records.batch import BatchHeader

DOUBT_S: Final = 5.0
"""For this time after a gap was first seen another broker may lead without our knowledge: a leader
that hears nothing for as long stops accepting records (`isolation`)."""

REMEMBERED_S: Final = 30.0
"""A gap behind which nothing has arrived for this time is forgotten: a producer may wait for some
seconds before it tries again."""

MOST_DOUBTED: Final = 1_000
"""Gaps of at most this many producers of a partition are remembered. Those of further producers
count as real."""


@dataclass(frozen=True, slots=True)
class _Gap:
    epoch: int
    """The producer's epoch."""
    expected: int
    """The sequence number that is missing."""
    since_s: float
    last_s: float
    """When the last batch behind the gap arrived. Both in monotonic seconds."""


class Gaps:
    """The gaps that a leader has seen, and for how long."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Gap] = {}
        """Ordered by `last_s`, the oldest first."""

    def __bool__(self) -> bool:
        """Whether any gap is remembered."""
        return bool(self._by_producer)

    def is_doubtful(self, batch: BatchHeader, expected: int, now_s: float) -> bool:
        """Whether the gap before this batch may come from our ignorance of another leader.

        `expected` is the sequence number that this leader waits for; another one is another gap.
        Remembers the gap.
        """
        self.forget(now_s)
        known = self._by_producer.pop(batch.producer_id, None)
        if known is None or (known.epoch, known.expected) != (batch.producer_epoch, expected):
            if len(self._by_producer) >= MOST_DOUBTED:
                return False
            known = _Gap(batch.producer_epoch, expected, now_s, now_s)
        self._by_producer[batch.producer_id] = replace(known, last_s=now_s)
        return now_s - known.since_s < DOUBT_S

    def forget(self, now_s: float) -> None:
        """Forget the gaps behind which nothing has arrived for a while."""
        while self._by_producer:
            longest_ago = next(iter(self._by_producer))
            if now_s - self._by_producer[longest_ago].last_s < REMEMBERED_S:
                return
            del self._by_producer[longest_ago]
