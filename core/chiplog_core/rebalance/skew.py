"""How uneven the load of a cluster's brokers is, from one reading of the brokers' counters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.rebalance.brokers_load import Readings
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.settings import Goal

MIN_EXCESS_BYTES = 100 * 2**20
"""A broker that is above the mean by less than this is not worth copying data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """By how many percent the most loaded broker exceeds the mean of all brokers, rounded down.
    0 if the excess cannot be reduced or is too small to matter."""

    bytes_percent: int
    leaders_percent: int

    def percent_of(self, goals: frozenset[Goal]) -> int:
        """The higher of those that a proposal with these goals evens out. It does not even out the
        number of leaders if it evens out the rates of what they are sent."""
        by_number = Goal.LEADER_REPLICAS in goals and Goal.LEADER_BYTES_IN not in goals
        return max(
            self.bytes_percent if Goal.DISK_USAGE in goals else 0,
            self.leaders_percent if by_number else 0,
        )


def skew_of(
    brokers: Sequence[BrokerId],
    partitions: Mapping[PartitionName, PartitionState],
    readings: Readings,
) -> Skew | None:
    """The skew over these brokers; None if a leader did not report a partition, so that it is not
    known. The leader's size counts for each replica."""
    stored, led = dict.fromkeys(brokers, 0), dict.fromkeys(brokers, 0)
    for name, state in partitions.items():
        if state.leader is None:
            return None
        leader = state.leader.broker_id
        reading = readings.get(leader)
        counted = None if reading is None else reading.partitions.get(name)
        if counted is None:
            return None
        if leader in led:
            led[leader] += 1
        for broker_id in state.replicas:
            if broker_id in stored:
                stored[broker_id] += counted.bytes
    return Skew(
        bytes_percent=_above_mean_percent(stored.values(), least=MIN_EXCESS_BYTES),
        # The number of leaders is even if the highest is the mean, rounded up.
        leaders_percent=_above_mean_percent(led.values(), least=1),
    )


def _above_mean_percent(loads: Iterable[int], *, least: int) -> int:
    """By how many percent the highest load exceeds the mean; 0 if it exceeds the mean, rounded up,
    by less than `least`."""
    values = list(loads)
    total = sum(values)
    if not total:
        return 0
    highest, mean = max(values), total / len(values)
    return floor(100 * (highest / mean - 1)) if highest - ceil(mean) >= least else 0
