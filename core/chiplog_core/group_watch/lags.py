"""How far a group is behind: committed offsets of its coordinator, ends of the partitions' leaders.

The end is always read after the committed offset, so that it is the newer one: what is counted was
there to be read, and a lag is not negative. What a coordinator says of an end that it leads itself
is of the same instant.
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
    """A record of which the time is asked: the first one at an offset or after it."""

    at: At
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What leaders said."""

    offsets: Mapping[At, int]
    """Where partitions end."""
    times_ms: Mapping[Moment, int]
    """When records were made, since 1970; -1 for a record without a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Where a group stands, exactly."""

    partitions: tuple[PartitionLag, ...] = ()
    """All of them, the largest lag first."""
    unreachable: frozenset[At] = frozenset()
    """Partitions whose leader has not answered: they are as they were before, or left out."""

    @property
    def total(self) -> int | None:
        """The lag of all partitions with a committed offset: -1 if no partition has one, None
        without partitions."""
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
        """The partitions for the status, which holds a limited number."""
        return self.partitions[:MAX_GROUP_STATUS_PARTITIONS]

    def _nothing_committed(self) -> int | None:
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
    for at, committed, known_end in committed_of(facts):
        end = known_end if known_end is not None else ends.offsets.get(at)
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
    """The age of the next record to consume. It is 0 if a producer's clock is ahead of ours."""
    if lag == 0:
        return 0
    if lag == NO_COMMIT or timestamp_ms is None or timestamp_ms < 0:
        return UNKNOWN_S
    return min(max(0, (now_ms - timestamp_ms) // 1000), MAX_INT32)


def _largest_first(partition_lag: PartitionLag) -> tuple[int, str, int]:
    """Sort key: the largest lag first."""
    return -partition_lag.lag, partition_lag.topic, partition_lag.partition
