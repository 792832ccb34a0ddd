"""How many consumers a group is to have: its lag in, the replicas of its Deployment out.

As many as the lag needs (one for `lagPerReplica` records), between `min` and `max`, and never more
than the group has partitions: the rest would be idle. More at once, but not again while those that
were just begun cannot have taken over yet; fewer only when for a whole cool-down nothing asked for
more and nothing changed. What is not known changes nothing.
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
"""For this long after a change no more are begun: pods start, and while the group rebalances nobody
consumes, so that the lag grows on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known at one moment."""

    replicas: int
    """What the Deployment's spec says now."""
    partitions: int | None
    """All of the topics that the group consumes; None where that is not known."""
    lag: int | None
    """Over all partitions; None where that of any is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered of one group between passes. Times are of a clock that never jumps."""

    began_ms: int
    """Since when there is this memory: before that nobody knows what was asked for."""
    replicas: int
    """As they were seen, or set, last."""
    changed_ms: int | None = None
    """When they last changed, by whomever."""
    needed: tuple[tuple[int, int], ...] = ()
    """(when, how many) the lag asked for within a cool-down: what counts of it, so ever fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do, and what to remember."""

    replicas: int
    """What the Deployment is to have; as it is where nothing is to be done."""
    why: str
    memory: Memory


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
    """The number of replicas to set, and the reason."""
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
    """The replicas where the lag does not matter, because they are outside of the bounds; None if
    the lag decides."""
    current = facts.replicas
    if facts.partitions is None and current > 0:
        return current, "the number of the group's partitions is unknown"
    if current > most:
        reason = "spec.scale.max" if most == scale.max else "the group has no more partitions"
        return most, f"the maximum is {most}: {reason}"
    if current < least:
        return least, f"the minimum is {least}"
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
        return current, "the lag is unknown"
    if needed > current:
        if memory.changed_ms is not None and now_ms - memory.changed_ms < SETTLE_MS:
            return current, "the last change has not taken effect yet"
        return needed, f"a lag of {facts.lag} records needs {counted(needed, 'pod')}"
    wanted = max(number for _, number in memory.needed)
    quiet_since_ms = max(memory.began_ms, memory.changed_ms or memory.began_ms)
    if wanted < current and now_ms - quiet_since_ms >= duration_ms(scale.cooldown):
        return (
            wanted,
            f"the lag has needed no more than {counted(wanted, 'pod')} for {scale.cooldown}",
        )
    return current, "the number of pods fits the lag"


def _most(scale: Scale, partitions: int | None) -> int:
    """The largest useful number of replicas. A group without known partitions needs just one
    consumer."""
    return min(scale.max, 1 if partitions is None else partitions)


def _replicas_for_lag(scale: Scale, lag: int | None, least: int, most: int) -> int | None:
    """Replicas that a lag needs, between `least` and `most`; None for an unknown lag."""
    if lag is None:
        return None
    return min(max(-(-max(lag, 0) // scale.lag_per_replica), least), most)


def _seen(memory: Memory | None, replicas: int, now_ms: int) -> Memory:
    """The memory with the observed replicas. A change by anybody starts the settling time."""
    if memory is None:
        return Memory(began_ms=now_ms, replicas=replicas)
    if memory.replicas != replicas:
        return replace(memory, replicas=replicas, changed_ms=now_ms)
    return memory


def _remember(memory: Memory, needed: int | None, now_ms: int, cooldown_ms: int) -> Memory:
    """The memory with the number needed now. It keeps the maximum over the cool-down.

    An older number is kept only while it is within the cool-down and above all later ones. If the
    lag is unknown, the number may be anything, so the cool-down starts again.
    """
    if needed is None:
        return replace(memory, began_ms=now_ms, needed=())
    kept = [
        (when_ms, number)
        for when_ms, number in memory.needed
        if number > needed and now_ms - when_ms < cooldown_ms
    ]
    return replace(memory, needed=(*kept, (now_ms, needed)))
