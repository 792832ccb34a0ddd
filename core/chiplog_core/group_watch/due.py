"""Whether a group's status is worth a write: exact figures go to metrics, into objects seldom.

Written is what *changed* (state, members, conditions), a lag that *moved* to another band, and
figures that have *settled*, which are then exact. What is still moving within its band is written
when it has *aged*. Every object has an allowance: a few writes at once, and this many in the long
run that all groups of a cluster together stay below `WRITES_PER_S`. Whatever was put off is written
when the allowance lets it: the last figure of all is always written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from chiplog_core.group_watch.bands import band
from chiplog_core.model.group_status import ConsumerGroupStatus, PartitionLag

WRITES_PER_S: Final = 20
"""Of all groups of a cluster, in the long run: etcd takes some hundreds."""
LEAST_COST_MS: Final = 500
"""What a write of one object uses up of its time, however few groups there are."""
BURST: Final = 8
"""This many writes may follow each other."""
LEAST_PAUSE_MS: Final = 200
AGED_MS: Final = 60_000
NEVER_WRITTEN_MS: Final = 2**62


class Urgency(IntEnum):
    """Why a status is not as it was published."""

    NONE = 0
    AGING = 1
    MOVED = 2
    SETTLED = 3
    CHANGED = 4


KEPT: Final[Mapping[Urgency, int]] = {
    Urgency.MOVED: BURST // 2,
    Urgency.SETTLED: 0,
    Urgency.CHANGED: -BURST,
}
"""How many must be left after a write. However long a lag has been moving, there are some left for
where it stops; and a change is written on credit."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much writing of one object is left; `spent` makes the next one."""

    credit_ms: int
    as_of_ms: int
    written_ms: int | None = None

    def allows(self, urgency: Urgency, now_ms: int, cost_ms: int) -> bool:
        """Whether a status of this urgency may be written now."""
        if urgency is Urgency.NONE or self._pause_ms(now_ms) < LEAST_PAUSE_MS:
            return False
        if urgency is Urgency.AGING:
            return self._pause_ms(now_ms) >= max(AGED_MS, cost_ms)
        return self._left_ms(now_ms, cost_ms) - cost_ms >= KEPT[urgency] * cost_ms

    def spent(self, now_ms: int, cost_ms: int) -> "Allowance":
        """The allowance after a write."""
        left_ms = self._left_ms(now_ms, cost_ms) - cost_ms
        return Allowance(credit_ms=left_ms, as_of_ms=now_ms, written_ms=now_ms)

    def _left_ms(self, now_ms: int, cost_ms: int) -> int:
        """The credit now. It grows with time, up to `BURST` writes."""
        return min(self.credit_ms + now_ms - self.as_of_ms, BURST * cost_ms)

    def _pause_ms(self, now_ms: int) -> int:
        """The time since the last write."""
        return NEVER_WRITTEN_MS if self.written_ms is None else now_ms - self.written_ms


def cost_ms(groups: int) -> int:
    """The credit that one write uses up, in a cluster with this many groups."""
    return max(LEAST_COST_MS, groups * 1000 // WRITES_PER_S)


def new_allowance(now_ms: int, cost_of_write_ms: int) -> Allowance:
    """The allowance of an object that is seen for the first time: a full burst."""
    return Allowance(credit_ms=BURST * cost_of_write_ms, as_of_ms=now_ms)


def urgency(
    published: ConsumerGroupStatus, seen: ConsumerGroupStatus, seen_before: ConsumerGroupStatus
) -> Urgency:
    """How urgent it is to write `seen` over `published`. `seen_before` is the status of the pass
    before."""
    if _facts(published) != _facts(seen):
        return Urgency.CHANGED
    is_exact = _figures(published) == _figures(seen)
    if not is_exact and _figures(seen) == _figures(seen_before):
        return Urgency.SETTLED
    if _bands(published) != _bands(seen):
        return Urgency.MOVED
    return Urgency.NONE if is_exact else Urgency.AGING


def has_moved(before: ConsumerGroupStatus, seen: ConsumerGroupStatus) -> bool:
    """Whether anything but the age of records differs."""
    return _facts(before) != _facts(seen) or _figures(before) != _figures(seen)


def _facts(status: ConsumerGroupStatus) -> object:
    """The part of a status that is written immediately when it changes. A condition's time is left
    out, because it follows from the rest."""
    return (
        status.observed_generation,
        status.group_id,
        status.state,
        status.protocol,
        status.coordinator,
        status.member_count,
        status.members,
        status.reset,
        [
            (
                condition.type,
                condition.status,
                condition.reason,
                condition.message,
                condition.observed_generation,
            )
            for condition in status.conditions
        ],
    )


def _bands(status: ConsumerGroupStatus) -> object:
    """The lags, as bands, and the number of partitions. A change of these is written soon."""
    lags = (status.total_lag, status.max_lag, status.max_lag_seconds)
    return tuple(band(lag) for lag in lags), len(status.partitions)


def _figures(status: ConsumerGroupStatus) -> object:
    """The exact figures without ages, which change on their own."""
    return (
        status.total_lag,
        status.max_lag,
        [_without_age(partition_lag) for partition_lag in status.partitions],
    )


def _without_age(partition_lag: PartitionLag) -> object:
    """The figures of a partition without the age of its oldest record."""
    return (
        partition_lag.topic,
        partition_lag.partition,
        partition_lag.committed_offset,
        partition_lag.end_offset,
        partition_lag.lag,
    )
