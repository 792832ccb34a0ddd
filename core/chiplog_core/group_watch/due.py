"""When a group's status is written. Lags change all the time, so the status is not written for each
change; metrics always have the exact figures.

A status is written if facts *changed* (state, members, conditions), if a lag *moved* to another
band, or if the figures *settled*: they differ from the published ones, but not from those of the
last pass. Figures that keep changing within their band are written when the published ones have
*aged*. Each object has an allowance for writes, like a token bucket: a few writes in a burst, and
in the long run only as many that all groups of a cluster together stay below `WRITES_PER_S`. A
write that the allowance does not permit is made later, so the last figures are always written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from chiplog_core.group_watch.bands import band
from chiplog_core.model.group_status import ConsumerGroupStatus, PartitionLag

WRITES_PER_S: Final = 20
"""Limit for the writes of all groups of a cluster, in the long run; etcd can do some hundreds."""
LEAST_COST_MS: Final = 500
"""The smallest credit that a write costs: an object of a small cluster is written at most twice per
second in the long run."""
BURST: Final = 8
"""How many writes of an object may follow each other."""
LEAST_PAUSE_MS: Final = 200
"""The shortest time between two writes of an object."""
AGED_MS: Final = 60_000
"""After this time inexact figures are written even if they keep changing within their band."""
NEVER_WRITTEN_MS: Final = 2**62
"""Stands for the time since the last write of an object that was never written."""


class Urgency(IntEnum):
    """Why a status differs from the published one; see the module's docstring."""

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
"""How many writes must be left in the allowance after a write of this urgency. Moves leave half of
a burst for the figures at which a lag settles. Changes may overdraw the allowance by a burst."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many writes of one object are allowed, as credit: each millisecond adds one, and each
    write costs `cost_ms`. Immutable; `spent` returns the allowance after a write."""

    credit_ms: int
    as_of_ms: int
    """When the object had this credit."""
    written_ms: int | None = None
    """When the object was last written; None for never."""

    def allows(self, urgency: Urgency, now_ms: int, cost_ms: int) -> bool:
        """Whether a status of this urgency may be written now. `cost_ms` is the credit that the
        write costs; `KEPT` says how many further writes the credit must still allow after it."""
        if urgency is Urgency.NONE or self._pause_ms(now_ms) < LEAST_PAUSE_MS:
            return False
        if urgency is Urgency.AGING:
            # Needs no credit that was saved, only a pause in which the write is earned.
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
    """How urgent it is to replace the status `published` by `seen`, the status of this pass.
    `seen_before` is the status of the pass before.

    CHANGED: facts like members or conditions differ. SETTLED: figures differ from the published
    ones, but not from those of the pass before. MOVED: a lag is in another band. AGING: figures
    differ, and all lags are in their bands.
    """
    if _facts(published) != _facts(seen):
        return Urgency.CHANGED
    is_exact = _figures(published) == _figures(seen)
    if not is_exact and _figures(seen) == _figures(seen_before):
        return Urgency.SETTLED
    if _bands(published) != _bands(seen):
        return Urgency.MOVED
    return Urgency.NONE if is_exact else Urgency.AGING


def has_moved(before: ConsumerGroupStatus, seen: ConsumerGroupStatus) -> bool:
    """Whether anything but the age of records has changed since the pass before."""
    return _facts(before) != _facts(seen) or _figures(before) != _figures(seen)


def _facts(status: ConsumerGroupStatus) -> object:
    """The part of a status whose change is written immediately. The times of conditions are left
    out: they change only together with the rest."""
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
    """The exact figures. The ages of records are left out, because they grow in every pass."""
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
