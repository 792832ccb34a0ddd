"""How many consumers a group should have: the replicas of its Deployment, from its lag.

The lag needs one replica for each `lagPerReplica` records. The number is kept between `min` and
`max`, and is never larger than the number of the group's partitions, because further consumers
would be idle. It is raised immediately, but not again before the new consumers can have started. It
is lowered only if for a whole cool-down the lag needed no more and the number did not change. If
the lag or the number of partitions is unknown, the replicas are not changed.
"""

from dataclasses import dataclass, replace
from typing import Final

from chiplog_core.durations import duration_ms
from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.requests import FindTopic, partition_count
from chiplog_core.groups.reset_plan import counted
from chiplog_core.model.consumer_group import Scale
from chiplog_core.model.group_exchange import GroupFacts

SETTLE_MS: Final = 15_000
"""How long after a change the number is not raised again: in this time the pods start and the group
rebalances, so no member consumes and the lag grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The observed facts about a group and its Deployment."""

    replicas: int
    """The number of pods in the Deployment's spec."""
    partitions: int | None
    """The number of partitions of all topics that the group consumes; None if unknown."""
    lag: int | None
    """The lag over all partitions, in records; None if the lag of any partition is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of one group between passes. Times are milliseconds of a monotonic clock."""

    began_ms: int
    """Since when the needed numbers are known without a gap."""
    replicas: int
    """The number of replicas that was last observed or set."""
    changed_ms: int | None = None
    """When the number of replicas last changed, no matter by whom; None if no change was
    observed."""
    needed: tuple[tuple[int, int], ...] = ()
    """(time, number of replicas) that the lag needed in the last cool-down. Only entries are kept
    that are larger than all later ones, so the numbers decrease and the first is the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of one pass for one group."""

    replicas: int
    """The number of replicas to set; the present one if it should not change."""
    why: str
    memory: Memory
    """The memory for the next pass."""


def known_partitions(facts: GroupFacts, find_topic: FindTopic) -> int | None:
    """The number of partitions of all topics that the group reads or has committed for; None if
    unknown."""
    counts = [partition_count(topic.topic, find_topic) for topic in facts.topics]
    return sum(counts) if counts and all(counts) else None


def known_lag(lags: Lags | None) -> int | None:
    """The lag of all partitions; 0 if nothing was committed yet. None if it is not known."""
    if lags is None or lags.unreachable or lags.total is None:
        return None
    return max(lags.total, 0)


def step(scale: Scale, facts: Facts, memory: Memory | None, now_ms: int) -> Step:
    """The number of replicas to set, and the reason. `memory` is None in the first pass."""
    memory = _seen(memory, facts.replicas, now_ms)
    most = _most(scale, facts.partitions)
    least = min(scale.min, most)
    needed = _replicas_for_lag(scale, facts.lag, least, most)
    memory = _remember(memory, needed, now_ms, duration_ms(scale.cooldown))
    replicas, why = _bounded(scale, facts, least, most) or _by_lag(
        scale, facts, needed, memory, now_ms
    )
    if replicas != memory.replicas:
        memory = replace(memory, replicas=replicas, changed_ms=now_ms)
    return Step(replicas=replicas, why=why, memory=memory)


def _bounded(scale: Scale, facts: Facts, least: int, most: int) -> tuple[int, str] | None:
    """The number of replicas and the reason, if the lag does not matter: the present number is
    outside of the bounds, or the number of partitions is unknown. None if the lag decides."""
    current = facts.replicas
    if facts.partitions is None and current > 0:
        return current, "the number of the group's partitions is unknown"
    if current > most:
        reason = "spec.scale.max" if most == scale.max else "the group has no more partitions"
        return most, f"the maximum is {most}: {reason}"
    if current < least:
        return (
            least,
            f"the minimum is {least}: spec.scale.min, or the number of partitions if that is lower",
        )
    return None


def _by_lag(
    scale: Scale, facts: Facts, needed: int | None, memory: Memory, now_ms: int
) -> tuple[int, str]:
    """The replicas that the lag needs, and the reason. More are set immediately, fewer only after
    the cool-down.

    `needed` is the number that the lag needs now; None if the lag is unknown.
    """
    current = facts.replicas
    if needed is None:
        return current, "the lag of the group is unknown"
    if needed > current:
        if memory.changed_ms is not None and now_ms - memory.changed_ms < SETTLE_MS:
            return current, "the last change of the number of pods has not taken effect yet"
        return needed, f"a lag of {facts.lag} records needs {counted(needed, 'pod')}"
    most_needed = max(number for _, number in memory.needed)
    unchanged_since_ms = max(memory.began_ms, memory.changed_ms or memory.began_ms)
    if most_needed < current and now_ms - unchanged_since_ms >= duration_ms(scale.cooldown):
        return (
            most_needed,
            f"the lag has needed no more than {counted(most_needed, 'pod')} for {scale.cooldown}",
        )
    return current, "the number of pods fits the lag"


def _most(scale: Scale, partitions: int | None) -> int:
    """The largest useful number of replicas. If the partitions are unknown, it is 1: one consumer
    that joins makes them known."""
    return min(scale.max, 1 if partitions is None else partitions)


def _replicas_for_lag(scale: Scale, lag: int | None, least: int, most: int) -> int | None:
    """Replicas that a lag needs, between `least` and `most`; None for an unknown lag."""
    if lag is None:
        return None
    rounded_up = -(-max(lag, 0) // scale.lag_per_replica)
    return min(max(rounded_up, least), most)


def _seen(memory: Memory | None, replicas: int, now_ms: int) -> Memory:
    """The memory with the observed number of replicas. A change of the number, by any client,
    starts the time (`SETTLE_MS`) in which the number is not raised again."""
    if memory is None:
        return Memory(began_ms=now_ms, replicas=replicas)
    if memory.replicas != replicas:
        return replace(memory, replicas=replicas, changed_ms=now_ms)
    return memory


def _remember(memory: Memory, needed: int | None, now_ms: int, cooldown_ms: int) -> Memory:
    """The memory with the number needed now, as described at `Memory.needed`.

    If the lag is unknown (`needed` is None), any number may be needed, so the cool-down starts
    again.
    """
    if needed is None:
        return replace(memory, began_ms=now_ms, needed=())
    kept = [
        (when_ms, number)
        for when_ms, number in memory.needed
        if number > needed and now_ms - when_ms < cooldown_ms
    ]
    return replace(memory, needed=(*kept, (now_ms, needed)))
