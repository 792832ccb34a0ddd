"""The status of one ConsumerGroup, from the observed state of its group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chiplog_core.durations import Duration, duration_ms
from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.objective import objective
from chiplog_core.limits import MAX_GROUP_STATUS_MEMBERS
from chiplog_core.model.conditions import ConditionType, Verdict, merge
from chiplog_core.model.consumer_group import NEVER, ConsumerGroup
from chiplog_core.model.group_exchange import KEPT_FOR_EVER, GroupFacts
from chiplog_core.model.group_status import (
    ConsumerGroupStatus,
    GroupState,
    ResetState,
    ResetStatus,
)
from chiplog_core.model.verdicts import fails, holds, paused_verdict, refused
from chiplog_core.observed.settings import paused
from chiplog_core.problems import Problem

NOT_RESET = {ResetState.REFUSED: "ResetRefused", ResetState.FAILED: "ResetFailed"}
"""States of a reset that make the ConsumerGroup not ready, with the reason of the condition."""

MAX_PROTOCOL_LENGTH = 249
MOST_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedState:
    """The observed state of a group."""

    facts: GroupFacts | None = None
    """The last answer of the group's coordinator; None if this process has got none yet."""
    lags: Lags | None = None
    silent: str = ""
    """Why the group's coordinator has not answered for some seconds; empty if it has."""
    old_partitions: tuple[str, ...] = ()
    """Partitions whose leaders have not answered for some seconds, so that their figures are
    old."""
    may_change: bool = True
    """Whether the object may change the group, and not only read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The parts of the status that other modules determine."""

    reset: ResetStatus | None = None
    """The new status of the reset; None to keep the published one."""
    scaled: Verdict | None = None
    """The condition Scaled; None if the object asks for no scaling."""


NOTHING_ELSE = Others()


def retention_ms(group: ConsumerGroup) -> int | None:
    """The spec's offsetRetention, in milliseconds or as `KEPT_FOR_EVER`; None for the cluster's
    default."""
    text = group.spec.offset_retention
    if text is None:
        return None
    return KEPT_FOR_EVER if text == NEVER else duration_ms(Duration(text))


def is_retention_due(group: ConsumerGroup, facts: GroupFacts) -> bool:
    """Whether the coordinator must be asked to store the spec's offsetRetention, because it has
    another one. Not for a group that does not exist: it has no offsets to keep."""
    if paused(group.metadata) or facts.state is GroupState.DEAD:
        return False
    return facts.offset_retention_ms != retention_ms(group)


def group_status(
    group: ConsumerGroup,
    observed: ObservedState,
    problems: Sequence[Problem],
    now: datetime,
    others: Others = NOTHING_ELSE,
) -> ConsumerGroupStatus:
    """The status of a ConsumerGroup that owns its group, with exact figures. The module `due`
    decides whether it is written."""
    status = _figures(group.status, observed)
    reset = others.reset or group.status.reset
    verdicts = [_ready(group, observed, problems, reset), *_others(group, observed)]
    if others.scaled is not None:
        verdicts.append(others.scaled)
    generation = group.metadata.generation
    return replace(
        status,
        observed_generation=generation,
        group_id=group.group_id,
        reset=reset,
        conditions=merge(
            group.status.conditions, verdicts, observed_generation=generation, now=now
        ),
    )


def status_without_figures(
    group: ConsumerGroup, verdict: Verdict, now: datetime
) -> ConsumerGroupStatus:
    """The status of a ConsumerGroup that does not own its group, or whose cluster does not exist:
    without members and lags. `verdict` explains why."""
    generation = group.metadata.generation
    verdicts = [verdict, *([paused_verdict(group.metadata)] if paused(group.metadata) else [])]
    return ConsumerGroupStatus(
        observed_generation=generation,
        group_id=group.group_id,
        reset=group.status.reset,
        conditions=merge(
            group.status.conditions, verdicts, observed_generation=generation, now=now
        ),
    )


def _figures(before: ConsumerGroupStatus, observed: ObservedState) -> ConsumerGroupStatus:
    """A status with the figures of the coordinator's last answer. While the coordinator does not
    answer, the published figures (`before`) are kept, with an unknown state."""
    facts, lags = observed.facts, observed.lags
    if observed.silent:
        return replace(before, state=GroupState.UNKNOWN, coordinator=None)
    if facts is None or lags is None:
        return before
    return ConsumerGroupStatus(
        state=facts.state,
        protocol=facts.protocol[:MAX_PROTOCOL_LENGTH] or None,
        coordinator=facts.coordinator,
        member_count=facts.member_count,
        members=facts.members[:MAX_GROUP_STATUS_MEMBERS],
        total_lag=lags.total,
        max_lag=lags.max,
        max_lag_seconds=lags.max_seconds,
        partitions=lags.shown(),
    )


def _ready(
    group: ConsumerGroup,
    observed: ObservedState,
    problems: Sequence[Problem],
    reset: ResetStatus | None,
) -> Verdict:
    """The verdict for Ready. `problems` are those of the spec; `reset` is the status of the last
    reset."""
    if problems:
        return refused(problems)
    if observed.silent:
        message = f"{observed.silent}; members and figures are from the last answer"
        return fails(ConditionType.READY, "CoordinatorNotAvailable", message)
    if observed.facts is None:
        return fails(
            ConditionType.READY, "Pending", "waiting for the answer of the group's coordinator"
        )
    if observed.may_change and is_retention_due(group, observed.facts):
        message = (
            "the group's coordinator has not stored spec.offsetRetention yet; it is asked again"
        )
        return fails(ConditionType.READY, "OffsetRetentionPending", message)
    wanted = group.spec.reset
    if wanted is not None and reset is not None and wanted.id == reset.id:
        reason = NOT_RESET.get(reset.state)
        if reason is not None:
            return fails(ConditionType.READY, reason, f"reset {reset.id}: {reset.message}")
    return holds(ConditionType.READY, "Ready")


def _others(group: ConsumerGroup, observed: ObservedState) -> Iterator[Verdict]:
    """The verdicts for all conditions except Ready and Scaled."""
    max_lag = group.spec.max_lag
    if max_lag is not None:
        is_known = not observed.silent and not observed.old_partitions
        yield objective(max_lag, observed.lags if is_known else None)
    if observed.old_partitions:
        names = _listed(observed.old_partitions)
        message = (
            f"the leaders of {names} do not answer: figures of these partitions are from "
            "the last answer"
        )
        yield holds(ConditionType.WARNING, "LeaderNotAvailable", message)
    elif observed.facts is not None and not observed.facts.is_whole:
        message = (
            "the group is too large for one answer of its coordinator: some of its members and "
            "partitions are missing in this status"
        )
        yield holds(ConditionType.WARNING, "NotWhole", message)
    if paused(group.metadata):
        yield paused_verdict(group.metadata)


def _listed(names: Sequence[str]) -> str:
    """The first names in one text, with the number of the others."""
    shown = ", ".join(names[:MOST_NAMES])
    left = len(names) - MOST_NAMES
    return f"{shown} and {left} more" if left > 0 else shown
