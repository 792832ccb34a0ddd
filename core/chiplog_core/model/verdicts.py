"""Makes verdicts and texts for the conditions of all kinds."""

from collections.abc import Iterable, Sequence

from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.model.annotations import MANAGED, PAUSE, Switch
from chiplog_core.model.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_core.problems import Problem

FAILED_APPLY = "FailedApply"
"""Reason of a condition: the API server refused an object of the cluster."""
UNKNOWN_VALUE = "UnknownAnnotationValue"


def holds(condition: ConditionType, reason: str, message: str = "") -> Verdict:
    """The verdict that the condition is True."""
    return _verdict(condition, ConditionStatus.TRUE, reason, message)


def fails(condition: ConditionType, reason: str, message: str = "") -> Verdict:
    """The verdict that the condition is False."""
    return _verdict(condition, ConditionStatus.FALSE, reason, message)


def unknown(condition: ConditionType, reason: str, message: str = "") -> Verdict:
    """The verdict that nobody knows whether the condition is true."""
    return _verdict(condition, ConditionStatus.UNKNOWN, reason, message)


def refused(problems: Sequence[Problem]) -> Verdict:
    """The verdict that the object is not ready because of its spec; it lists all problems."""
    return fails(ConditionType.READY, problems[0].reason.value, problems_text(problems))


def problems_text(problems: Iterable[Problem]) -> str:
    """All problems in one message."""
    return "; ".join(map(str, problems))


def paused_verdict(metadata: Metadata) -> Verdict:
    """The verdict that the operator does not reconcile the object for now."""
    message = f"paused by the annotation {labels.PAUSE}: remove it to resume"
    return _set_by(PAUSE, metadata, ConditionType.RECONCILIATION_PAUSED, message)


def unmanaged_verdict(metadata: Metadata) -> Verdict:
    """The verdict that the operator does not manage the topic."""
    message = (
        f"the annotation {labels.MANAGED} is false: remove it to let the operator manage the topic"
    )
    return _set_by(MANAGED, metadata, ConditionType.UNMANAGED, message)


def _set_by(switch: Switch, metadata: Metadata, type_: ConditionType, message: str) -> Verdict:
    """The verdict that the condition is True because an annotation is set. If the annotation's
    value is not known, the message says so in place of `message`."""
    problem = switch.problem(metadata.annotations)
    if problem is not None:
        return holds(type_, UNKNOWN_VALUE, str(problem))
    return holds(type_, "AnnotationSet", message)


def numbered(numbers: Sequence[int], *, most: int = 10) -> str:
    """The first `most` of the numbers as a text, with the count of the others."""
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown} and {len(numbers) - most} more" if len(numbers) > most else shown


def brokers_named(ids: Sequence[int]) -> str:
    """The brokers as messages name them, like "broker 1" or "brokers 1, 2"."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {numbered(ids)}"


def partitions_named(ids: Sequence[int]) -> str:
    """The partitions as messages name them, like "partition 0" or "partitions 0, 1"."""
    return f"{'partition' if len(ids) == 1 else 'partitions'} {numbered(ids)}"


def _verdict(
    condition: ConditionType, status: ConditionStatus, reason: str, message: str
) -> Verdict:
    """The verdict, with its message cut to the limit of a condition."""
    return Verdict(
        type=condition.value, status=status, reason=reason, message=message[:MAX_MESSAGE_LENGTH]
    )
