"""How uneven the load of a cluster's brokers is, from readings of the brokers' counters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.rebalance.brokers_load import Readings, measured_load
from chiplog_core.rebalance.even import even_counts
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.settings import Goal

MIN_EXCESS_BYTES = 100 * 2**20
"""A broker that is above the mean by less than this is not worth copying data."""
MIN_EXCESS_BYTES_PER_SECOND = 2**20
"""A broker whose leaders take less than this more than the mean is not worth moving leaders."""
MAX_WITHOUT_RATE_PERCENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """By how many percent the most loaded broker exceeds the mean of all brokers, rounded down.
    0 if the excess cannot be reduced or is too small to matter."""

    bytes_percent: int
    replicas_percent: int
    """Of the number of replicas."""
    leaders_percent: int
    """Of the number of leaders."""
    idle_leaders_percent: int | None
    """The same, if only leaders of partitions that nobody writes to may move; None if it is not
    known which these are."""
    bytes_in_percent: int | None
    """Of the bytes per second that are written to a broker's leaders; None if it is not known."""

    def leaders_for(self, goals: frozenset[Goal]) -> int | None:
        """The excess of leaders that a proposal with these goals can even out: if it evens out the
        rates, too, it places the leaders of partitions with a rate by that."""
        is_by_rate = Goal.LEADER_BYTES_IN in goals
        return self.idle_leaders_percent if is_by_rate else self.leaders_percent

    def by_goal(self, goals: frozenset[Goal]) -> dict[Goal, int] | None:
        """What a proposal with these goals evens out; None if one of them is not known."""
        found = {
            Goal.REPLICAS: self.replicas_percent,
            Goal.DISK_USAGE: self.bytes_percent,
            Goal.LEADER_REPLICAS: self.leaders_for(goals),
            Goal.LEADER_BYTES_IN: self.bytes_in_percent,
        }
        known = {
            goal: percent
            for goal, percent in found.items()
            if goal in goals and percent is not None
        }
        return known if len(known) == len(goals & found.keys()) else None


def skew_of(
    brokers: Sequence[BrokerId],
    partitions: Mapping[PartitionName, PartitionState],
    readings: Readings,
    earlier: Readings | None = None,
) -> Skew | None:
    """The skew over these brokers; None if a leader did not report a partition, so that it is not
    known. The leader's size counts for each replica.

    Rates are those since the `earlier` readings. They are not known if there are none, or if more
    partitions have no rate, because their leader has changed, than `MAX_WITHOUT_RATE_PERCENT`.
    Fewer of them count as written to: otherwise new topics could keep the rates unknown for ever.
    """
    rates = {} if earlier is None else measured_load(earlier, readings, partitions)
    without_rate = len(partitions) - len(rates)
    has_rates = 100 * without_rate <= MAX_WITHOUT_RATE_PERCENT * len(partitions)
    stored, held, taken, led = (_Loads(brokers) for _ in range(4))
    busy = dict.fromkeys(brokers, 0)
    for name, state in partitions.items():
        if state.leader is None:
            return None
        leader = state.leader.broker_id
        reading = readings.get(leader)
        counted = None if reading is None else reading.partitions.get(name)
        if counted is None:
            return None
        rate = rates.get(name)
        led.add(leader, 1)
        taken.add(leader, 0 if rate is None else rate.weight)
        if leader in busy and (rate is None or rate.weight):
            busy[leader] += 1
        for broker_id in state.replicas:
            stored.add(broker_id, counted.bytes)
            held.add(broker_id, 1)
    return Skew(
        bytes_percent=stored.above_mean_percent(stored.largest, least=MIN_EXCESS_BYTES),
        replicas_percent=held.above_mean_percent({}, least=held.least_uneven()),
        # The number of leaders is even if the highest is the mean, rounded up.
        leaders_percent=led.above_mean_percent({}, least=1),
        idle_leaders_percent=led.above_mean_percent(busy, least=1) if has_rates else None,
        # A weight is in thousandths of a byte per second.
        bytes_in_percent=taken.above_mean_percent(
            taken.largest, least=1000 * MIN_EXCESS_BYTES_PER_SECOND
        )
        if has_rates
        else None,
    )


class _Loads:
    """One kind of load of each broker."""

    def __init__(self, brokers: Sequence[BrokerId]) -> None:
        self.sums = dict.fromkeys(brokers, 0)
        self.largest = dict.fromkeys(brokers, 0)
        """The largest part that one partition has of it."""

    def add(self, broker_id: BrokerId, load: int) -> None:
        """Add the load of one partition; that of other brokers does not count."""
        if broker_id in self.sums:
            self.sums[broker_id] += load
            self.largest[broker_id] = max(self.largest[broker_id], load)

    def least_uneven(self) -> int:
        """By how many the highest number must exceed the mean, rounded up, so that a proposal makes
        the numbers even."""
        total, count = sum(self.sums.values()), len(self.sums)
        return even_counts(total, count)[1] + 1 - -(-total // count) if count else 1

    def above_mean_percent(self, stays: Mapping[BrokerId, int], *, least: int) -> int:
        """By how many percent of the mean the worst broker exceeds the mean, or its part that
        `stays` if that is larger. An excess below `least` over the mean, rounded up, does not
        count."""
        total = sum(self.sums.values())
        if not total:
            return 0
        count = len(self.sums)
        mean = -(-total // count)  # rounded up
        return max(
            100 * (load * count - max(total, stays.get(broker_id, 0) * count)) // total
            if load - max(mean, stays.get(broker_id, 0)) >= least
            else 0
            for broker_id, load in self.sums.items()
        )
