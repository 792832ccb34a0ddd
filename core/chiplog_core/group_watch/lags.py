"""The lag of a group, from the committed offsets that its coordinator reports and the end offsets
that the leaders of the partitions report.

The end offset is always read after the committed offset, or at the same time if the coordinator is
also the partition's leader. So a lag is never negative.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_core.groups.at import At
from chiplog_core.ids import MAX_INT32, Offset, PartitionIndex
from chiplog_core.limits import MAX_GROUP_STATUS_PARTITIONS
from chiplog_core.model.group_exchange import GroupFacts, Positions, lag_records
from chiplog_core.model.group_status import NO_COMMIT, PartitionLag

UNKNOWN_S = -1
"""The lag in seconds of a partition whose next record has no timestamp."""


class Moment(NamedTuple):
    """Identifies a record whose timestamp is requested: the first one at this offset or later."""

    at: At
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The answers of leaders."""

    offsets: Mapping[At, int]
    """The end offsets of partitions."""
    times_ms: Mapping[Moment, int]
    """Timestamps of records, in milliseconds since 1970; -1 for a record without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The exact lags of a group."""

    partitions: tuple[PartitionLag, ...] = ()
    """All partitions of the group, the largest lag first."""
    unreachable: frozenset[At] = frozenset()
    """Partitions whose leader has not answered. They have their earlier figures, or are left out if
    there are none."""

    @property
    def total(self) -> int | None:
        """The sum of the lags of all partitions with a committed offset: -1 if no partition has
        one, None without partitions."""
        known = [
            partition_lag.lag for partition_lag in self.partitions if partition_lag.lag != NO_COMMIT
        ]
        return sum(known) if known else self._nothing_committed()

    @property
    def max(self) -> int | None:
        """The largest lag of a partition; -1 and None as in `total`."""
        known = [
            partition_lag.lag for partition_lag in self.partitions if partition_lag.lag != NO_COMMIT
        ]
        return max(known) if known else self._nothing_committed()

    @property
    def max_seconds(self) -> int | None:
        """The age of the oldest record not yet consumed: -1 if unknown, None without partitions."""
        return max((partition_lag.lag_seconds for partition_lag in self.partitions), default=None)

    def shown(self) -> tuple[PartitionLag, ...]:
        """The partitions with the largest lags, as many as a status may have."""
        return self.partitions[:MAX_GROUP_STATUS_PARTITIONS]

    def _nothing_committed(self) -> int | None:
        """The value of a lag if no partition has a committed offset."""
        return NO_COMMIT if self.partitions else None


def committed_of(facts: GroupFacts) -> Iterator[tuple[At, int, int | None]]:
    """For each partition of a group: its committed offset (-1: none), and its end offset if the
    coordinator reported it."""
    for topic in facts.topics:
        for partition in topic.partitions:
            yield (
                At(topic.topic, partition.partition),
                partition.committed_offset,
                partition.end_offset,
            )


def ends_of(positions: Iterable[Positions]) -> Ends:
    """The end offsets that leaders reported, without the partitions that they refused."""
    offsets: dict[At, int] = {}
    times_ms: dict[Moment, int] = {}
    for answer in positions:
        for topic in answer.topics:
            for position in topic.partitions:
                at = At(topic.topic, position.partition)
                if position.refusal is None and position.end_offset is not None:
                    offsets[at] = position.end_offset
                for time in position.times:
                    times_ms[Moment(at, time.offset)] = time.timestamp_ms
    return Ends(offsets=offsets, times_ms=times_ms)


def find_lags(
    facts: GroupFacts, ends: Ends, now_ms: int, before: Iterable[PartitionLag] = ()
) -> Lags:
    """The lag in every partition that the group has committed for or that one of its members reads.

    A partition whose leader has not answered keeps its figures from `before`.
    """
    found, unreachable = [], set()
    old = {
        At(partition_lag.topic, partition_lag.partition): partition_lag for partition_lag in before
    }
    for at, committed, coordinators_end in committed_of(facts):
        end = coordinators_end if coordinators_end is not None else ends.offsets.get(at)
        if end is not None:
            timestamp_ms = ends.times_ms.get(Moment(at, committed))
            found.append(_lag(at, committed, end, timestamp_ms, now_ms))
            continue
        unreachable.add(at)
        if at in old:
            found.append(old[at])
    return Lags(
        partitions=tuple(sorted(found, key=_largest_first)), unreachable=frozenset(unreachable)
    )


def _lag(at: At, committed: int, end: int, timestamp_ms: int | None, now_ms: int) -> PartitionLag:
    """The lag of one partition. `timestamp_ms` is that of the next record to consume; None if
    unknown."""
    lag = lag_records(committed, end)
    return PartitionLag(
        topic=at.topic,
        partition=PartitionIndex(at.partition),
        committed_offset=committed,
        end_offset=Offset(end),
        lag=lag,
        lag_seconds=_seconds(lag, timestamp_ms, now_ms),
    )


def _seconds(lag: int, timestamp_ms: int | None, now_ms: int) -> int:
    """The age of the next record to consume, in seconds; `UNKNOWN_S` if unknown. It is 0 if the
    record's timestamp is in the future, because a producer's clock is wrong."""
    if lag == 0:
        return 0
    if lag == NO_COMMIT or timestamp_ms is None or timestamp_ms < 0:
        return UNKNOWN_S
    return min(max(0, (now_ms - timestamp_ms) // 1000), MAX_INT32)


def _largest_first(partition_lag: PartitionLag) -> tuple[int, str, int]:
    """Sort key: the largest lag first."""
    return -partition_lag.lag, partition_lag.topic, partition_lag.partition
