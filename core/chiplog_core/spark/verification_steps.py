"""The next step of one Verification, as a pure function of the observed objects.

The runs are followed by `following`. There is one run for each change of the spec, or for each time
of the schedule; a run that failed is not repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from chiplog_core.cron import read_cron
from chiplog_core.durations import duration_ms
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_RUN_HISTORY
from chiplog_core.model.broker import Broker
from chiplog_core.model.spark_result import MAX_VIOLATIONS, Result
from chiplog_core.model.spark_run import ApplicationStatus, PastRun, RunState
from chiplog_core.model.verification import (
    Repair,
    ReplicaRepair,
    Verification,
    VerificationPhase,
    VerificationSpec,
    VerificationStatus,
)
from chiplog_core.observed.settings import paused
from chiplog_core.spark.following import Following, RunView
from chiplog_core.spark.refused_reads import DamageReports
from chiplog_core.spark.repair_fleet import ClusterState
from chiplog_core.spark.repairs import ENDED, after_run, next_repairs, repairs_asked_by
from chiplog_core.spark.runs import REQUEUE_AFTER_MS, digest, is_watched
from chiplog_core.spark.steps import Launch, Remove, Step
from chiplog_core.spark.topic_choice import Topics, WaitReason, choose_topics
from chiplog_core.spark.verification_report import Finding, finding_of, verdicts

MAX_REQUEUE_AFTER_MS = 3_600_000
MAX_NOTICE_EVENTS = 5
"""How many notices of one run become Events; the status lists all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationView(RunView):
    """A Verification and all that decides about it, as it is at one moment."""

    verification: Verification
    topics: Topics = field(default_factory=dict)
    """The topics of the cluster."""
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    """The readable Broker objects of the cluster, for the damage that they report."""
    cluster_state: ClusterState | None = None
    """The state of the cluster for repairs; None if it is not known, and then no repair changes."""


def next_step(view: VerificationView, now: datetime) -> Step[VerificationStatus]:
    """The actions, the new status, and when to reconcile again."""
    verification = view.verification
    if verification.metadata.deletion_timestamp is not None:
        return Step(status=verification.status)
    return _Steps(view, verification.spec, verification.status, now).step()


def spec_digest(spec: VerificationSpec) -> str:
    """Digest of the fields of the spec that affect what is verified and how. A new digest begins a
    new run, so the fields for the schedule and the history are set to fixed values."""
    return digest(
        replace(
            spec,
            schedule=None,
            suspend=False,
            successful_runs_history_limit=0,
            failed_runs_history_limit=0,
        )
    )


class _Steps(Following[VerificationView, VerificationSpec, VerificationStatus]):
    def step(self) -> Step[VerificationStatus]:
        """Decide everything: the actions, the status and the Events."""
        # Before the run's result adds new repairs: a repair may be ordered only after the status
        # with it was written.
        self._continue_repairs()
        self._observe_run()
        self._begin_if_due()
        self._forget_old_runs()
        return self._finished_step()

    # ---- the run there is ----

    def _launch(self, known: ApplicationStatus) -> None:
        """Create the application, or end the run if its spec has problems."""
        chosen = choose_topics(self._spec, self._view.topics)
        if self._view.problems:
            message = "; ".join(map(str, self._view.problems))
            self._failed(self._view.problems[0].reason.value, message)
        elif self._view.wait_reason is not None:
            self._wait_reason = self._view.wait_reason
        elif isinstance(chosen, WaitReason):
            self._wait_reason = chosen
        else:
            self._step.actions.append(
                Launch(
                    known.name,
                    known.launcher,
                    request_of(self._spec, chosen),
                    self._view.access,
                )
            )

    def _done(self, result: Result) -> None:
        """End the run with its result."""
        damage_reports = DamageReports(
            brokers=self._view.brokers,
            checks=self._spec.checks,
            began=self._status.started_at or self._now,
            ended=self._now,
        )
        self._finish(finding_of(result, damage_reports))

    def _failed(self, reason: str, message: str) -> None:
        """End the run with an error."""
        self._finish(Finding(reason=reason, message=message))

    def _finish(self, finding: Finding) -> None:
        """Publish what the run found."""
        known, status = self._status.application, self._status
        assert known is not None, "only a run that was begun ends"
        total = status.violations_total
        if finding.result is not None:
            total = finding.result.violations_total
            self._set(
                coverage=finding.coverage,
                partitioners=finding.partitioners,
                notices=finding.notices,
                violations_by_check=finding.by_check,
                violations=finding.result.violations[:MAX_VIOLATIONS],
                violations_total=total,
            )
            self._plan_repairs(known.name, finding)
        phase = VerificationPhase.FAILED
        if finding.is_complete:
            phase = VerificationPhase.VIOLATIONS_FOUND if total else VerificationPhase.SUCCEEDED
        past = PastRun(
            application=known.name,
            launcher=known.launcher,
            succeeded=finding.is_complete,
            finished_at=self._now,
            violations_total=finding.result.violations_total if finding.result else 0,
            reason=finding.reason[:128],
        )
        self._end_run()
        history = (past, *(run for run in status.history if run.application != known.name))
        self._set(phase=phase, outcome=finding.outcome, history=history[: 2 * MAX_RUN_HISTORY])
        if phase is VerificationPhase.SUCCEEDED:
            self._set(last_success=self._now)
        self._finding = finding
        self._step.events.append(finding.event(phase))
        for notice in finding.notices[:MAX_NOTICE_EVENTS]:
            self._add_event(notice.reason, f"{notice.topic}: {notice.message}", is_warning=True)

    _finding: Finding | None = None
    """How the run ended, if it ended in this pass."""

    # ---- replicas that are proven to be damaged ----

    def _plan_repairs(self, run: str, finding: Finding) -> None:
        """Add repairs of the damaged replicas to the status, if spec.repair is Refetch. Repairs of
        earlier runs continue in any case."""
        proven: tuple[ReplicaRepair, ...] = ()
        if self._spec.repair is Repair.REFETCH:
            proven = repairs_asked_by(run, finding, self._now)
            if finding.reported_total > len(finding.reported_damage):
                message = (
                    f"{finding.reported_total} replicas may be damaged; these are too many to "
                    "repair any of them automatically"
                )
                self._add_event("RefetchRefused", message, is_warning=True)
        self._set(repairs=after_run(self._status.repairs, proven))

    def _continue_repairs(self) -> None:
        """Update the state of the repairs, and order those that may be ordered now."""
        if all(repair.state in ENDED for repair in self._status.repairs):
            return
        self._requeue_in(REQUEUE_AFTER_MS)
        cluster_state = self._view.cluster_state
        if cluster_state is None:
            return
        if paused(self._view.verification.metadata) or self._view.problems:
            cluster_state = replace(
                cluster_state, why_no_orders="the Verification is paused, or its spec has problems"
            )
        is_wanted = self._spec.repair is Repair.REFETCH
        found = next_repairs(self._status.repairs, cluster_state, self._now, is_wanted=is_wanted)
        self._set(repairs=found.repairs)
        self._step.actions += found.orders
        self._step.events += found.events

    # ---- the next one ----

    def _begin_if_due(self) -> None:
        """Begin a run if it is due: with a schedule, when a scheduled time has passed; without one,
        when the spec has changed since the last run."""
        if self._spec.schedule is None or self._view.problems or self._spec.suspend:
            self._set(next_run=None)
        else:
            upcoming = read_cron(self._spec.schedule).next_after(self._now)
            self._set(next_run=upcoming)
            if upcoming is not None:
                wait_ms = (upcoming - self._now) // timedelta(milliseconds=1) + 1
                self._requeue_in(min(wait_ms, MAX_REQUEUE_AFTER_MS))
        if self._is_active or self._view.problems or self._spec.suspend:
            return
        if paused(self._view.verification.metadata) or is_watched(self._status.application):
            return
        scheduled = self._due_time()
        if self._spec.schedule is not None and scheduled is None:
            return
        if self._spec.schedule is None and self._status.wish == spec_digest(self._spec):
            return
        if self._wait_reason is None:
            chosen = choose_topics(self._spec, self._view.topics)
            self._wait_reason = chosen if isinstance(chosen, WaitReason) else None
        if self._wait_reason is None:
            self._begin(scheduled)

    def _due_time(self) -> datetime | None:
        """The latest scheduled time that has passed and for which no run has begun; None if there
        is none."""
        if self._spec.schedule is None:
            return None
        status, created = self._status, self._view.verification.metadata.creation_timestamp
        since = status.scheduled_at or status.started_at or created
        if since is None:
            return None
        return read_cron(self._spec.schedule).last_until(self._now, after=since)

    def _begin(self, scheduled: datetime | None) -> None:
        """Begin a run."""
        scheduled_at = scheduled or self._status.scheduled_at
        self._set(phase=VerificationPhase.PENDING, scheduled_at=scheduled_at)
        self._name_run(self._view.verification.metadata, spec_digest(self._spec))

    def _forget_old_runs(self) -> None:
        """Delete runs beyond the limits of the history, with all their objects."""
        spec, kept = self._spec, []
        # By `succeeded`: how many more runs may be kept. The newest runs come first.
        left = {True: spec.successful_runs_history_limit, False: spec.failed_runs_history_limit}
        for run in self._status.history:
            left[run.succeeded] -= 1
            if left[run.succeeded] >= 0:
                kept.append(run)
            elif self._may_be_deleted(run):
                self._step.actions.append(Remove(run.application, run.launcher))
            else:
                kept.append(run)
        self._set(history=tuple(kept))

    def _may_be_deleted(self, run: PastRun) -> bool:
        """Whether a run of the history may be deleted: its application must have ended."""
        current = self._status.application
        return current is None or current.name != run.application or not is_watched(current)

    # ---- what is published ----

    def _finished_step(self) -> Step[VerificationStatus]:
        """The finished step, with the conditions."""
        if self._status.phase is None:
            self._set(phase=VerificationPhase.WAITING)
        if self._is_active:
            application = self._status.application
            is_running = application is not None and application.state is RunState.RUNNING
            is_unknown = application is not None and application.state is RunState.UNKNOWN
            if not is_unknown:
                running, pending = VerificationPhase.RUNNING, VerificationPhase.PENDING
                self._set(phase=running if is_running else pending)
        verification = self._view.verification
        published = verdicts(
            verification,
            self._status,
            problems=self._view.problems,
            wait_reason=self._wait_reason,
            finding=self._finding,
            is_up_to_date=self._status.wish == spec_digest(self._spec),
        )
        return self._with_conditions(verification.metadata, published)


def request_of(spec: VerificationSpec, topics: tuple[str, ...]) -> Mapping[str, Any]:
    """The request's fields for a verification job, without those that are not set."""
    fields = {
        "topics": list(topics),
        "checks": [check.value for check in spec.checks] or None,
        "partitioner": spec.partitioner.value,
        "bytesPerSecond": spec.bytes_per_second,
        "timeLimitMs": None if spec.time_limit is None else duration_ms(spec.time_limit),
        "maxViolations": MAX_VIOLATIONS,
    }
    return {name: value for name, value in fields.items() if value is not None}
