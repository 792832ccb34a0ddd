"""How one run of a Spark job is followed, for all kinds that run jobs.

A run begins in two writes: first the status gets the name of its application, then the application
is created. So an operator that takes over in between finds the name and continues. An application
that the status names and that was never observed is created; one that was observed and does not
exist any more has failed. When the result has ended the run, the application must end, too; if it
does not, it is deleted.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from chiplog_core.model.conditions import Verdict, merge
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import RebalanceSpec
from chiplog_core.model.rebalance_status import RebalanceStatus
from chiplog_core.model.spark import SparkLauncher
from chiplog_core.model.spark_result import Result
from chiplog_core.model.spark_run import ApplicationStatus, RunState
from chiplog_core.model.verification import VerificationSpec, VerificationStatus
from chiplog_core.problems import Problem
from chiplog_core.spark.broker_access import NO_ACCESS, BrokerAccess
from chiplog_core.spark.pod_states import DriverEnd
from chiplog_core.spark.runs import (
    GRACE,
    REQUEUE_AFTER_MS,
    START_LIMIT,
    Done,
    Failed,
    NotThere,
    ObservedRun,
    application_name,
    is_watched,
    observed,
    progress,
)
from chiplog_core.spark.steps import Remove, Step, StepEvent
from chiplog_core.spark.topic_choice import WaitReason

NOT_MADE = "NotMade"
"""Reason of an application that could not be created yet."""
CLUSTER_SETTINGS = "ClusterSettings"
"""Reason if no job can run because spec.spark of the cluster has problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """All that decides about an object that runs jobs, as it is at one moment."""

    problems: tuple[Problem, ...] = ()
    """The mistakes in the object's spec; no run begins before they are corrected."""
    wait_reason: WaitReason | None = None
    """Why no run can begin now, for example because the cluster does not exist."""
    access: BrokerAccess = NO_ACCESS
    """How the job connects; meaningless with a `wait_reason`."""
    launcher: SparkLauncher = SparkLauncher.JOB
    """The launcher of an application that begins now."""
    seen: ObservedRun | None = None
    """The application that the status names, as it was observed; None if it could not be observed,
    and then nothing is decided about it."""
    refusal: str = ""
    """Why the API server refused for good to create that application; empty if it did not."""
    obstacle: str = ""
    """Why the application could not be created yet, for example because a webhook does not answer;
    empty if nothing prevented it."""
    start_limit: timedelta = START_LIMIT
    """How long an application may wait for its driver, or without executors, at a time."""


V = TypeVar("V", bound=RunView)
P = TypeVar("P", VerificationSpec, RebalanceSpec)
S = TypeVar("S", VerificationStatus, RebalanceStatus)


class Following(ABC, Generic[V, P, S]):
    """One reconciliation of an object that runs jobs. Each kind adds when a run begins and what
    its job is.

    In the methods, `known` is the application as the object's status has it, and `seen` the same
    application as it was observed now.
    """

    def __init__(self, view: V, spec: P, status: S, now: datetime) -> None:
        self._view = view
        self._now = now.replace(microsecond=0)  # Kubernetes keeps whole seconds
        self._spec: P = spec
        self._status: S = status
        self._step: Step[S] = Step(status=status)
        self._wait_reason = view.wait_reason

    # ---- what a kind adds ----

    @abstractmethod
    def _launch(self, known: ApplicationStatus) -> None:
        """Create the application, which does not exist yet, if everything that it needs exists."""

    @abstractmethod
    def _done(self, result: Result) -> None:
        """The job succeeded. Each kind calls `_end_run` here."""

    @abstractmethod
    def _failed(self, reason: str, message: str) -> None:
        """The job failed for good. Each kind calls `_end_run` here."""

    @property
    def _must_remove_ended(self) -> bool:
        """Whether an application whose run is over is deleted at once, for example because the
        next run waits for its end."""
        return False

    # ---- the run there is ----

    @property
    def _is_active(self) -> bool:
        """Whether a run is in progress."""
        return self._status.application is not None and self._status.finished_at is None

    def _observe_run(self) -> None:
        """Observe the run's application, and end the run if it is over.

        An application that was never observed is created; one that was observed and is gone is not
        created again.
        """
        known, seen = self._status.application, self._view.seen
        if known is None or not is_watched(known):
            return
        self._requeue_in(REQUEUE_AFTER_MS)
        if seen is None:
            return
        if not self._is_active:
            self._observe_ended_run(known, seen)
            return
        if seen.state is RunState.GONE and self._view.obstacle:
            seen = replace(seen, reason=NOT_MADE, message=self._view.obstacle)
        begun = self._status.started_at or self._now
        observed_now = observed(known, seen, now=self._now, begun=begun)
        run_progress = progress(
            known,
            seen,
            waited=self._now - begun,
            delayed_for=self._now - (observed_now.waiting_since or begun),
            time_limit=self._spec.time_limit,
            start_limit=self._view.start_limit,
        )
        self._set(application=observed_now)
        if isinstance(run_progress, NotThere):
            self._launch_unless_refused(known)
        elif isinstance(run_progress, Done):
            self._done(run_progress.result)
        elif isinstance(run_progress, Failed):
            # Without the launched object, nothing else deletes the objects created before it.
            was_created = known.state is not RunState.WANTED or seen.state is not RunState.GONE
            if run_progress.must_remove or not was_created:
                self._remove(known)
            self._failed(run_progress.reason, run_progress.message)

    def _launch_unless_refused(self, known: ApplicationStatus) -> None:
        """Create the application, or end the run if the API server refused it."""
        if self._view.refusal:
            # The objects that were created before the refusal would otherwise exist as long as
            # the object that asked for the run.
            self._remove(known)
            self._failed("LaunchRefused", self._view.refusal)
        else:
            self._launch(known)

    def _observe_ended_run(self, known: ApplicationStatus, seen: ObservedRun) -> None:
        """Observe an application whose run is over; delete it if it does not end."""
        since_end = self._now - (self._status.finished_at or self._now)
        if seen.state is RunState.GONE:
            # Even if the application was never observed: it is not created any more.
            self._set(application=replace(known, state=RunState.GONE, message=""))
            return
        if seen.driver_end is DriverEnd.SUCCEEDED:
            # If the launcher does not run, it does not notice that. The object is kept, for its
            # logs.
            seen = replace(seen, state=RunState.SUCCEEDED, is_delayed=False)
        self._set(application=observed(known, seen, now=self._now, begun=self._now))
        if not is_watched(self._status.application):
            return
        has_not_stopped = since_end > GRACE and seen.driver_end is DriverEnd.NONE
        if has_not_stopped or self._must_remove_ended:
            self._remove(known)

    def _remove(self, known: ApplicationStatus) -> None:
        """Delete the application and its objects."""
        self._step.actions.append(Remove(known.name, known.launcher))

    def _end_run(self) -> None:
        """Record the end of the run."""
        known = self._status.application
        assert known is not None, "only a run that was begun ends"
        if known.state is RunState.WANTED:
            # It was never observed and is not created any more.
            self._set(application=replace(known, state=RunState.GONE))
        self._set(finished_at=self._now)

    # ---- the next one ----

    def _name_run(self, metadata: Metadata, spec_digest: str) -> None:
        """Record the name of a new run in the status. The application is created in the next pass,
        when the status has been written. The field `wish` is the digest of the run's spec."""
        run = self._status.runs + 1
        name = application_name(metadata, run, self._now)
        self._set(
            runs=run,
            wish=spec_digest,
            application=ApplicationStatus(name=name, launcher=self._view.launcher),
            started_at=self._now,
            finished_at=None,
            outcome=None,
        )
        self._requeue_in(0)
        self._add_event("RunBegun", f"Application {name} was started")

    # ---- the result ----

    def _with_conditions(self, metadata: Metadata, published: Iterable[Verdict]) -> Step[S]:
        """The finished step, with the conditions to publish."""
        published = list(published)
        # The first verdict is the one for Ready.
        self._add_refusal_event(published[0])
        conditions = merge(
            self._status.conditions,
            published,
            observed_generation=metadata.generation,
            now=self._now,
        )
        self._set(observed_generation=metadata.generation, conditions=conditions)
        self._step.status = self._status
        return self._step

    def _add_refusal_event(self, ready: Verdict) -> None:
        """Add an Event if the spec or the cluster's settings are refused, and the condition does
        not say so yet. `ready` is the verdict to publish now."""
        if not self._view.problems and ready.reason != CLUSTER_SETTINGS:
            return
        before = next(
            (condition for condition in self._status.conditions if condition.type == ready.type),
            None,
        )
        if before is None or (before.reason, before.message) != (ready.reason, ready.message):
            self._add_event(ready.reason, ready.message, is_warning=True)

    def _add_event(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Add an Event."""
        self._step.events.append(StepEvent(is_warning, reason, message))

    def _set(self, **changes: Any) -> None:
        """Change fields of the status."""
        self._status = replace(self._status, **changes)

    def _requeue_in(self, wait_ms: int) -> None:
        """Reconcile again after this time at the latest."""
        current_ms = self._step.requeue_after_ms
        self._step.requeue_after_ms = wait_ms if current_ms is None else min(current_ms, wait_ms)
