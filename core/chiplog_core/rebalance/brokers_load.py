"""The load of partitions from what their leaders report, without a job that reads the data.

Each leader reports the size of its log and counts what is appended to it. Rates are the differences
of two readings of the same process. A partition counts as measured only if it has been led by one
process in one epoch from the first reading to the present map: the figures of any other are
unknown, and it is not moved.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.model.load_exchange import LoadsAnswer
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.observed.processes import Identity
from chiplog_core.rebalance.measured import Measured, Partition, PartitionName
from chiplog_core.topic_name import is_internal

RATE_WINDOW_MS = 10_000
"""Rates are means over at least this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The size and the counters of a partition at one moment."""

    leader_epoch: LeaderEpoch
    bytes: int
    bytes_in: int
    records_in: int
    ticks_ms: int
    """The moment, by the clock of the leader's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one process reported of all partitions that it leads."""

    process: Identity
    partitions: Mapping[PartitionName, Counted]

    @property
    def ticks_ms(self) -> int | None:
        """When the last of its pages was made; None if it leads nothing."""
        return max((counted.ticks_ms for counted in self.partitions.values()), default=None)


Readings = Mapping[BrokerId, Reading]


def reading_of(process: Identity, pages: Iterable[LoadsAnswer]) -> Reading:
    """The reading from the pages of a process's answer."""
    return Reading(
        process=process,
        partitions={
            PartitionName(topic.topic, load.partition): Counted(
                leader_epoch=load.leader_epoch,
                bytes=load.bytes,
                bytes_in=load.bytes_in,
                records_in=load.records_in,
                ticks_ms=page.ticks_ms,
            )
            for page in pages
            for topic in page.topics
            for load in topic.partitions
        },
    )


def partitions_of(maps: Iterable[PartitionMapSpec]) -> dict[PartitionName, PartitionState]:
    """All partitions that users' topics have now."""
    return {
        PartitionName(spec.topic_name, state.partition): state
        for spec in maps
        if not is_internal(spec.topic_name)
        for generation in spec.generations
        if generation.topic_id == spec.current
        for state in generation.partitions
    }


def as_partition(
    name: PartitionName, state: PartitionState, known_bytes: int | None = None
) -> Partition:
    """The partition as a proposal is made for it, with the size of one replica, if it is known."""
    return Partition(
        name=name,
        replicas=state.replicas,
        isr=tuple(ref.broker_id for ref in state.isr if ref.broker_id in state.replicas),
        leader=None if state.leader is None else state.leader.broker_id,
        leader_epoch=state.leader_epoch,
        known_bytes=known_bytes,
        adding=state.adding,
    )


def reported_bytes(readings: Readings) -> dict[PartitionName, int]:
    """The size of each partition that a broker reported. Its rate may be unknown: it is moving, or
    its leader has just changed."""
    found: dict[PartitionName, int] = {}
    for reading in readings.values():
        for name, counted in reading.partitions.items():
            found[name] = max(counted.bytes, found.get(name, 0))
    return found


def leading(partitions: Mapping[PartitionName, PartitionState]) -> dict[BrokerId, int]:
    """The brokers that lead any of the partitions, by id, and how many each leads."""
    found: dict[BrokerId, int] = {}
    for state in partitions.values():
        if state.leader is not None:
            found[state.leader.broker_id] = found.get(state.leader.broker_id, 0) + 1
    return dict(sorted(found.items()))


def continues(first: Readings, last: Readings) -> bool:
    """Whether the same processes reported in both readings. If not, the last one is the first of a
    new window, so that no partition is left out because its broker has restarted."""
    return {broker_id: reading.process for broker_id, reading in first.items()} == {
        broker_id: reading.process for broker_id, reading in last.items()
    }


def is_window_over(first: Readings, last: Readings) -> bool:
    """Whether each process has counted for `RATE_WINDOW_MS` between two readings of the same
    processes."""
    for broker_id, reading in last.items():
        began_ms, now_ms = first[broker_id].ticks_ms, reading.ticks_ms
        # A process that led nothing in one of them has no partition to measure.
        if began_ms is not None and now_ms is not None and now_ms - began_ms < RATE_WINDOW_MS:
            return False
    return True


def measured_load(
    first: Readings, last: Readings, partitions: Mapping[PartitionName, PartitionState]
) -> dict[PartitionName, Measured]:
    """The load of each partition that one process has led in its present epoch from the first
    reading on. Partitions that are moving are left out: they are not moved again now."""
    found = {}
    for name, state in partitions.items():
        if state.leader is None or state.is_moving:
            continue
        leader = state.leader.broker_id
        before = _counted(first, leader, name, state.leader_epoch)
        now = _counted(last, leader, name, state.leader_epoch)
        if before is None or now is None or first[leader].process != last[leader].process:
            continue
        seconds = (now.ticks_ms - before.ticks_ms) / 1000
        if seconds <= 0:
            continue
        found[name] = Measured(
            bytes=now.bytes,
            records=0,  # nobody reads them
            bytes_per_second=max(0, now.bytes_in - before.bytes_in) / seconds,
            records_per_second=max(0, now.records_in - before.records_in) / seconds,
        )
    return found


def _counted(
    readings: Readings, leader: BrokerId, name: PartitionName, epoch: LeaderEpoch
) -> Counted | None:
    """What the leader reported of a partition; None if it did not lead it in that epoch."""
    reading = readings.get(leader)
    counted = None if reading is None else reading.partitions.get(name)
    return counted if counted is not None and counted.leader_epoch == epoch else None
