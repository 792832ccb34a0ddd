"""The conditions and Events of a Verification, from its status and its last run."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated

from chiplog_core.ids import MAX_INT64, BrokerId, PartitionIndex, TopicId
from chiplog_core.limits import MAX_VERIFIED_TOPICS
from chiplog_core.manifest.constraints import Items, Range
from chiplog_core.manifest.documents import UnreadableDocument
from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType, Verdict
from chiplog_core.model.references import TopicName
from chiplog_core.model.spark_result import MAX_ACCUSED, Check, Result, Violation
from chiplog_core.model.spark_run import Coverage, Outcome
from chiplog_core.model.verdicts import fails, holds, paused_verdict, refused
from chiplog_core.model.verification import (
    MAX_CHECKS,
    MAX_NOTICES,
    CheckCount,
    MeasuredPartitioner,
    Notice,
    Verification,
    VerificationPhase,
    VerificationStatus,
)
from chiplog_core.observed.settings import paused
from chiplog_core.problems import Problem
from chiplog_core.spark import progress
from chiplog_core.spark.refused_reads import (
    DamageReports,
    RefusedRead,
    counted_again,
    with_broker_reports,
)
from chiplog_core.spark.runs import outcome
from chiplog_core.spark.steps import StepEvent
from chiplog_core.spark.topic_choice import WaitReason

MAX_REFUSED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Figures of the run in the job's result."""

    time_limit_reached: bool = False
    """Whether spec.timeLimit ended the run before everything was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDamage:
    """A replica that is proven to be damaged; or a partition whose replicas differ, without proof
    which of them is right."""

    topic: TopicName
    topic_id: TopicId
    partition: PartitionIndex
    replica: BrokerId | None = None
    """The broker with the damaged replica; None if it is unknown which one is right."""
    checks: Annotated[tuple[Check, ...], Items(MAX_CHECKS)]
    """The checks that it violates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSummary:
    """The job's own part of its result."""

    coverage: Coverage
    by_check: Annotated[tuple[CheckCount, ...], Items(MAX_CHECKS, key=("check",))] = ()
    partitioners: Annotated[tuple[MeasuredPartitioner, ...], Items(MAX_VERIFIED_TOPICS)] = ()
    notices: Annotated[tuple[Notice, ...], Items(MAX_REFUSED)] = ()
    refused: Annotated[tuple[RefusedRead, ...], Items(MAX_REFUSED)] = ()
    accused: Annotated[tuple[ReportedDamage, ...], Items(MAX_ACCUSED)] = ()
    """All damaged replicas; empty if there are more than `MAX_ACCUSED`."""
    accused_total: Annotated[int, Range(0, MAX_INT64)] = 0
    """The number of damaged replicas, also if they are not listed."""
    figures: RunFigures = field(default_factory=RunFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How a run ended."""

    reason: str
    message: str
    result: Result | None = None
    """None if the job failed, so that nothing was verified."""
    coverage: Coverage | None = None
    by_check: tuple[CheckCount, ...] = ()
    partitioners: tuple[MeasuredPartitioner, ...] = ()
    notices: tuple[Notice, ...] = ()
    reported_damage: tuple[ReportedDamage, ...] = ()
    reported_total: int = 0
    is_complete: bool = False
    """Whether everything that the spec asks for was read."""

    @property
    def outcome(self) -> Outcome:
        return outcome(self.reason, self.message, complete=self.is_complete)

    def event(self, phase: VerificationPhase) -> StepEvent:
        """The Event for the end of the run."""
        return StepEvent(phase is not VerificationPhase.SUCCEEDED, self.reason, self.message)


def finding_of(result: Result, damage_reports: DamageReports | None = None) -> Finding:
    """The finding of a job that succeeded. With `damage_reports`, violations for refused reads get
    the damage that the brokers report."""
    try:
        summary = result.summary_as(VerificationSummary)
    except UnreadableDocument as unreadable:
        return Finding(reason=f"Result{unreadable.flaw.value}", message=str(unreadable))
    by_check = summary.by_check or _counted(result.violations)
    if damage_reports is not None:
        violations = with_broker_reports(result.violations, summary.refused, damage_reports)
        by_check = counted_again(by_check, result.violations, violations)
        result = replace(result, violations=violations)
    reason, message, is_complete = "NoViolations", _read(summary.coverage), True
    if summary.figures.time_limit_reached:
        reason, is_complete = "TimeLimitReached", False
        message = f"spec.timeLimit ended the run before everything was read: {message}"
    elif summary.refused:
        first = summary.refused[0]
        reason, is_complete = "CopiesNotRead", False
        message = (
            f"{len(summary.refused)} replicas could not be read; {first.topic}: {first.message}"
        )
    if result.violations_total:
        violations_text = _found(result.violations_total, result.violations)
        message = violations_text if is_complete else f"{violations_text}; {message}"
        reason = "ViolationsFound"
    return Finding(
        reason=reason,
        message=message,
        result=result,
        coverage=summary.coverage,
        by_check=by_check,
        partitioners=summary.partitioners,
        notices=summary.notices[:MAX_NOTICES],
        reported_damage=summary.accused,
        reported_total=summary.accused_total,
        is_complete=is_complete,
    )


def _counted(violations: tuple[Violation, ...]) -> tuple[CheckCount, ...]:
    """The number of violations by check, for a job that does not report it: counted from the
    violations that the result lists."""
    counts = Counter(violation.check for violation in violations)
    return tuple(CheckCount(check=check, count=count) for check, count in sorted(counts.items()))


def _read(coverage: Coverage) -> str:
    """What the run has read, in words."""
    return (
        f"{coverage.records} records, {coverage.bytes} bytes, in {coverage.replicas} replicas of "
        f"{coverage.partitions} partitions of {coverage.topics} topics"
    )


def _found(total: int, violations: tuple[Violation, ...]) -> str:
    """The violations in words: the first one, and the number of the others."""
    if not violations:
        return f"{total} violations"
    violation = violations[0]
    where = f"{violation.topic}-{violation.partition}"
    where += "" if violation.offset is None else f" at offset {violation.offset}"
    where += "" if violation.replica is None else f" on broker {violation.replica}"
    more = f" and {total - 1} more" if total > 1 else ""
    return f"{violation.check.value} in {where}: {violation.message}{more}"


def verdicts(
    verification: Verification,
    status: VerificationStatus,
    *,
    problems: tuple[Problem, ...],
    wait_reason: WaitReason | None,
    finding: Finding | None,
    is_up_to_date: bool,
) -> list[Verdict]:
    """The conditions, in order: Ready first.

    `finding` is how a run ended in this pass; None if none ended. `is_up_to_date` is whether the
    last run was for the present spec.
    """
    if problems:
        ready = refused(problems)
    elif wait_reason is not None:
        ready = fails(ConditionType.READY, wait_reason.reason, wait_reason.message)
    else:
        ready = _ready(verification, status, is_up_to_date=is_up_to_date)
    verified = _verified(verification, finding)
    found = [ready] if verified is None else [ready, verified]
    if status.notices:
        first, more = status.notices[0], len(status.notices) - 1
        message = f"{first.topic}: {first.message}" + (f"; and {more} more" if more else "")
        found.append(holds(ConditionType.WARNING, first.reason, message))
    if paused(verification.metadata):
        found.append(paused_verdict(verification.metadata))
    return found


def _ready(
    verification: Verification, status: VerificationStatus, *, is_up_to_date: bool
) -> Verdict:
    """The verdict for Ready: by the last run, if it was for the present spec."""
    ready, application = ConditionType.READY, status.application
    if application is not None and status.finished_at is None:
        phase = application.reason or (status.phase or VerificationPhase.PENDING).value
        message = f"application {application.name} is {application.state.value}"
        done = progress.progress_words(application)
        message += f" ({done})" if done else ""
        cause = f": {application.message}" if application.message else ""
        return fails(ready, phase, message + cause)
    if status.outcome is None or not is_up_to_date:
        return _waiting(verification, status)
    end = status.outcome
    if end.complete:
        return holds(ready, "Completed", end.message)
    return fails(ready, end.reason, end.message)


def _waiting(verification: Verification, status: VerificationStatus) -> Verdict:
    """The verdict for Ready before a run begins."""
    ready = ConditionType.READY
    if verification.spec.suspend:
        message = "spec.suspend is true, so no run begins: set it to false"
        return fails(ready, "Suspended", message)
    if paused(verification.metadata):
        return fails(ready, "Paused", paused_verdict(verification.metadata).message)
    if status.next_run is not None:
        return fails(ready, "Scheduled", f"the next run is due at {status.next_run.isoformat()}")
    return fails(ready, "Waiting", "the run starts when the previous one has ended")


def _verified(verification: Verification, finding: Finding | None) -> Verdict | None:
    """The verdict for Verified. Without a new result the present condition is kept; None before
    the first run."""
    if finding is None or finding.result is None:
        kept = _condition(verification, ConditionType.VERIFIED)
        if kept is None:
            return None
        return Verdict(type=kept.type, status=kept.status, reason=kept.reason, message=kept.message)
    if finding.result.violations_total:
        return fails(ConditionType.VERIFIED, "ViolationsFound", finding.message)
    if finding.is_complete:
        return holds(ConditionType.VERIFIED, "NoViolations", finding.message)
    return Verdict(
        type=ConditionType.VERIFIED.value,
        status=ConditionStatus.UNKNOWN,
        reason=finding.reason,
        message=finding.message,
    )


def _condition(verification: Verification, kind: ConditionType) -> Condition | None:
    """The published condition of this type; None if there is none."""
    found = verification.status.conditions
    return next((condition for condition in found if condition.type == kind.value), None)
