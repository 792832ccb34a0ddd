"""How one run of a Spark job is followed, for all kinds that run jobs.

A run is begun in two writes. First the status names its application; then, from that status, the
application is created: an operator that takes over in between continues. What the status
names and nobody has seen is made; what was seen and is gone has failed. When the run is over by its
result, its application is to end as well, and is removed where it does not.
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
from chiplog_core.spark.pod_states import DriverEnd
from chiplog_core.spark.runs import (
    GRACE,
    REQUEUE_AFTER_MS,
    START_LIMIT,
    Done,
    Failed,
    NotThere,
    Seen,
    application_name,
    is_watched,
    observed,
    progress,
)
from chiplog_core.spark.steps import Remove, Step, StepEvent
from chiplog_core.spark.topic_choice import Unmet

NOT_MADE = "NotMade"
"""Reason of an application that the API server could not make yet."""
CLUSTER_SETTINGS = "ClusterSettings"
"""Reason where no job can be run as spec.spark of the cluster says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """What decides about an object that runs jobs, of whichever kind it is, at one moment."""

    problems: tuple[Problem, ...] = ()
    """Why what it asks for cannot be done, as long as it is not changed."""
    unmet: Unmet | None = None
    """Why no run can begin now, as where the cluster is missing."""
    launcher: SparkLauncher = SparkLauncher.JOB
    """What would run an application that is begun now."""
    seen: Seen | None = None
    """The application that the status names; None where that is not known: nothing is concluded."""
    refusal: str = ""
    """Why the API server did not let that application be made; empty where it was not asked."""
    obstacle: str = ""
    """Why it could not be made yet, as while a webhook is away; empty where nothing was."""
    start_limit: timedelta = START_LIMIT
    """How long at a time an application may wait for its driver, or for executors."""


V = TypeVar("V", bound=RunView)
P = TypeVar("P", VerificationSpec, RebalanceSpec)
S = TypeVar("S", VerificationStatus, RebalanceStatus)


class Following(ABC, Generic[V, P, S]):
    """One reconciliation of an object that runs jobs; each kind adds when a run begins and what it
    is for."""

    def __init__(self, view: V, spec: P, status: S, now: datetime) -> None:
        self._view = view
        self._now = now.replace(microsecond=0)  # Kubernetes keeps whole seconds
        self._spec: P = spec
        self._status: S = status
        self._step: Step[S] = Step(status=status)
        self._unmet = view.unmet

    # ---- what a kind adds ----

    @abstractmethod
    def _launch(self, known: ApplicationStatus) -> None:
        """Create the application, if what it needs exists. It does not exist yet."""

    @abstractmethod
    def _done(self, result: Result) -> None:
        """The job succeeded. Each kind calls `_end_run` here."""

    @abstractmethod
    def _failed(self, reason: str, message: str) -> None:
        """The job failed for good. Each kind calls `_end_run` here."""

    @property
    def _is_in_the_way(self) -> bool:
        """Whether another run waits for the end of an application whose run is over."""
        return False

    # ---- the run there is ----

    @property
    def _is_active(self) -> bool:
        """Whether a run is in progress."""
        return self._status.application is not None and self._status.finished_at is None

    def _observe_run(self) -> None:
        """Observe the run's application, and end the run if it is over."""
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
        found = progress(
            known,
            seen,
            waited=self._now - begun,
            held_up=self._now - (observed_now.waiting_since or begun),
            time_limit=self._spec.time_limit,
            start_limit=self._view.start_limit,
        )
        self._set(application=observed_now)
        if isinstance(found, NotThere):
            self._launch_unless_refused(known)
        elif isinstance(found, Done):
            self._done(found.result)
        elif isinstance(found, Failed):
            was_made = known.state is not RunState.WANTED or seen.state is not RunState.GONE
            if found.must_remove or not was_made:
                self._remove(known)
            self._failed(found.reason, found.message)

    def _launch_unless_refused(self, known: ApplicationStatus) -> None:
        """Create the application, or end the run if the API server refused it."""
        if self._view.refusal:
            # Objects that were created before the refusal would otherwise stay as long as this
            # object.
            self._remove(known)
            self._failed("LaunchRefused", self._view.refusal)
        else:
            self._launch(known)

    def _observe_ended_run(self, known: ApplicationStatus, seen: Seen) -> None:
        """Follow an application whose run is over, because it must end as well."""
        over = self._now - (self._status.finished_at or self._now)
        if seen.state is RunState.GONE:
            # Even if the application was never observed: it is not created any more.
            self._set(application=replace(known, state=RunState.GONE, message=""))
            return
        if seen.driver_end is DriverEnd.SUCCEEDED:
            # Its launcher may not be running and not know. The object is kept anyway, for its logs.
            seen = replace(seen, state=RunState.SUCCEEDED, is_held_up=False)
        self._set(application=observed(known, seen, now=self._now, begun=self._now))
        if not is_watched(self._status.application):
            return
        would_go_on = over > GRACE and seen.driver_end is DriverEnd.NONE
        if would_go_on or self._is_in_the_way:
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
        """Record the name of a new run. The status is written before the application is created."""
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
        """Add an Event, once, if the spec or the cluster's settings are refused. `ready` is the
        verdict to publish now."""
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
        known = self._step.requeue_after_ms
        self._step.requeue_after_ms = wait_ms if known is None else min(known, wait_ms)
