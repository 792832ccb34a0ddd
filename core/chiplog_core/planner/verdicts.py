"""Words that the reports of all kinds share."""

from collections.abc import Iterable, Sequence

from chiplog_core.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.problems import Problem

FAILED_APPLY = "FailedApply"
"""Reason of a condition: the API server refused an object of the cluster."""


def holds(condition: ConditionType, reason: str, message: str = "") -> Verdict:
    """The condition is True."""
    return _verdict(condition, ConditionStatus.TRUE, reason, message)


def fails(condition: ConditionType, reason: str, message: str = "") -> Verdict:
    """The condition is False."""
    return _verdict(condition, ConditionStatus.FALSE, reason, message)


def refused(problems: Sequence[Problem]) -> Verdict:
    """Not ready, because of what the user wrote; all of it is told."""
    return fails(ConditionType.READY, problems[0].reason.value, told(problems))


def told(problems: Iterable[Problem]) -> str:
    """All problems in one message."""
    return "; ".join(map(str, problems))


def paused_verdict() -> Verdict:
    """The operator leaves the object alone."""
    message = "remove the annotation chiplog.dev/pause-reconciliation to go on"
    return holds(ConditionType.RECONCILIATION_PAUSED, "AnnotationSet", message)


def numbered(numbers: Sequence[int], *, most: int = 10) -> str:
    """The first of many numbers."""
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown} and {len(numbers) - most} more" if len(numbers) > most else shown


def _verdict(
    condition: ConditionType, status: ConditionStatus, reason: str, message: str
) -> Verdict:
    return Verdict(
        type=condition.value, status=status, reason=reason, message=message[:MAX_MESSAGE_LENGTH]
    )
