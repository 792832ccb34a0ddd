"""The progress of a run of a Spark job, from the observed application and its result.

It is the same for all kinds that run jobs. The caller reads the application first and its result
afterwards: if the application has ended, its result cannot change any more.

In all functions, `known` is the application as the object's status has it, and `seen` the same
application as it was observed now.
"""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from chiplog_core.durations import Duration, duration_ms
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.manifest.writing import write
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.spark_result import CRASHED, Result, ResultState
from chiplog_core.model.spark_run import ApplicationStatus, Outcome, RunProgress, RunState
from chiplog_core.spark.pod_states import DriverEnd
from chiplog_core.spark.short_error import short_error

START_LIMIT = timedelta(minutes=15)
"""A run ends if its application waits longer at a time, for example for an image or a node."""

GRACE = timedelta(minutes=1)
"""How long after its time limit a run is ended from outside. In this time the job and its launcher
can end on their own, with a better message."""

REQUEUE_AFTER_MS = 2_000
"""How often a run is observed while its application has not ended."""

ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.GONE})

MAX_STEM_LENGTH = 30
MAX_APPLICATION_MESSAGE_LENGTH = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """An application as it was observed, with its result."""

    state: RunState
    """GONE if the application does not exist."""
    kind: str = ""
    """Kind of the object that runs it, like Job."""
    reason: str = ""
    """Why the application failed or makes no progress, in CamelCase; empty if unknown."""
    message: str = ""
    must_be_stopped: bool = False
    """Whether the run failed for good, but the launcher does not know that and would continue."""
    is_delayed: bool = False
    """Whether a cause that may pass delays it; `reason` and `message` name the cause."""
    executors: int = 0
    """Number of running executors."""
    driver_end: DriverEnd = DriverEnd.NONE
    attempt: int | None = None
    """Number of the attempt, from 1; None if the launcher does not report it."""
    progress: RunProgress | None = None
    result: Result | UnreadableDocument | None = None
    """None if the job has written none."""


@dataclass(frozen=True, slots=True)
class NotThere:
    """The application was not created yet."""


@dataclass(frozen=True, slots=True)
class Going:
    """The application exists, and the run is not over."""


@dataclass(frozen=True, slots=True)
class Done:
    """The job succeeded."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed for good."""

    reason: str
    message: str
    must_remove: bool = False
    """Whether the application must be deleted, because it would continue without use."""


Progress: TypeAlias = NotThere | Going | Done | Failed


def progress(
    known: ApplicationStatus,
    seen: ObservedRun,
    *,
    waited: timedelta,
    delayed_for: timedelta,
    time_limit: Duration | None,
    start_limit: timedelta = START_LIMIT,
) -> Progress:
    """The progress of the run.

    `known` is the application in the published status, `seen` what was observed of it now. `waited`
    is the time since the run began. `delayed_for` is the time for which the application has
    not been running, or has had no executors.
    """
    result = seen.result if _wrote(known, seen.result) else None
    if isinstance(result, Result):
        ended = _end_by_result(seen, result)
        if ended is not None:
            return ended
    found = _without_result(known, seen, result)
    if isinstance(found, Done | Failed):
        return found
    if time_limit is not None and waited > as_timedelta(time_limit) + GRACE:
        message = f"the run took longer than spec.timeLimit, {time_limit}"
        return Failed("TimeLimit", _with_cause(message, seen), must_remove=_exists(seen))
    if delayed_for > start_limit and (seen.state is not RunState.RUNNING or seen.is_delayed):
        return _delayed_too_long(known, seen, start_limit)
    return found


def _wrote(known: ApplicationStatus, result: Result | UnreadableDocument | None) -> bool:
    """Whether this application wrote the result. A result that cannot be parsed counts as its own,
    unless the document names another application."""
    if isinstance(result, UnreadableDocument):
        return result.flaw is not Flaw.OF_ANOTHER
    return result is not None and result.application == known.name


def _end_by_result(seen: ObservedRun, result: Result) -> Done | Failed | None:
    """The end of the run according to its result; None if the job crashed and its launcher may
    start it again."""
    if result.state is ResultState.SUCCEEDED:
        return Done(result)
    if result.reason == CRASHED and seen.state not in ENDED:
        return None
    return Failed(result.reason, short_error(result.message))


def _without_result(
    known: ApplicationStatus, seen: ObservedRun, result: Result | UnreadableDocument | None
) -> NotThere | Going | Failed:
    """The state of a run whose job has not written a result that ends the run."""
    if seen.state is RunState.GONE:
        if known.state is RunState.WANTED:
            return NotThere()
        message = f"application {known.name} was removed before it wrote a result"
        return Failed("ApplicationGone", message)
    if seen.state is RunState.FAILED:
        reason, message = seen.reason or "ApplicationFailed", seen.message
        return Failed(reason, message or "the application failed", must_remove=seen.must_be_stopped)
    if seen.state is RunState.SUCCEEDED:
        if isinstance(result, UnreadableDocument):
            return Failed(f"Result{result.flaw.value}", str(result))
        message = f"application {known.name} ended without a result"
        return Failed("NoResult", message)
    return Going()


def _delayed_too_long(known: ApplicationStatus, seen: ObservedRun, limit: timedelta) -> Failed:
    """The end of a run that was held up for longer than the limit."""
    minutes = limit // timedelta(minutes=1)
    if seen.state is RunState.RUNNING:
        message = f"no executor was running for {minutes} minutes, so the job made no progress"
    elif known.has_run:
        message = f"the application was interrupted and has not run for {minutes} minutes"
    else:
        message = f"the application did not start within {minutes} minutes"
    reason = seen.reason or "NotStarted"
    return Failed(reason, _with_cause(message, seen), must_remove=_exists(seen))


def _exists(seen: ObservedRun) -> bool:
    return seen.state is not RunState.GONE


def _with_cause(message: str, seen: ObservedRun) -> str:
    """The message, followed by the message of the observed application if it has one."""
    return f"{message}: {seen.message}" if seen.message else message


def as_timedelta(duration: Duration) -> timedelta:
    """A duration of a spec as a timedelta."""
    return timedelta(milliseconds=duration_ms(duration))


def observed(
    known: ApplicationStatus, seen: ObservedRun, *, now: datetime, begun: datetime
) -> ApplicationStatus:
    """The new status of an application that was observed as `seen`. `begun` is when its run began.

    Texts are cut to the limits of the status. While the application runs, a message is shown only
    if it explains a delay.
    """
    if seen.state is RunState.GONE and known.state is RunState.WANTED:
        # It was not created yet: `seen` may say what prevents that.
        reason, message = seen.reason, seen.message
        return replace(known, reason=reason[:128], message=message[:MAX_APPLICATION_MESSAGE_LENGTH])
    shows_message = seen.is_delayed or seen.state not in {RunState.RUNNING, RunState.SUCCEEDED}
    return replace(
        known,
        state=seen.state,
        kind=seen.kind or known.kind,
        reason=seen.reason[:128] if seen.is_delayed else "",
        message=seen.message[:MAX_APPLICATION_MESSAGE_LENGTH] if shows_message else "",
        attempt=seen.attempt or known.attempt,
        progress=_progress(known, seen),
        has_run=known.has_run or seen.state is RunState.RUNNING,
        waiting_since=_waiting_since(known, seen, now, begun),
    )


def _progress(known: ApplicationStatus, seen: ObservedRun) -> RunProgress | None:
    """The progress. If the driver reports none, the last one is kept, but not for the next attempt,
    which starts at zero."""
    attempts_known = None not in {known.attempt, seen.attempt}
    is_next_attempt = attempts_known and known.attempt != seen.attempt
    return None if is_next_attempt else seen.progress or known.progress


def _waiting_since(
    known: ApplicationStatus, seen: ObservedRun, now: datetime, begun: datetime
) -> datetime | None:
    """Since when the application waits; None if it does not. Each wait counts separately: for the
    driver, for executors, for the driver of the next attempt."""
    if seen.state in ENDED:
        return None
    was_running, is_running = known.state is RunState.RUNNING, seen.state is RunState.RUNNING
    has_changed = was_running is not is_running
    if not is_running:
        since = now if known.has_run else begun  # the first driver is waited for from the beginning
        return since if has_changed or known.waiting_since is None else known.waiting_since
    if seen.executors or has_changed:
        return now if seen.is_delayed else None
    # Between two attempts of Spark to create executors there may be no executor pods, and then no
    # delay is observed. So only a running executor ends the wait.
    return known.waiting_since or (now if seen.is_delayed else None)


def outcome(reason: str, message: str, *, complete: bool = False) -> Outcome:
    """How a run ended, with texts cut to the limits of the status. `complete` is whether the job
    did all that was asked for."""
    return Outcome(complete=complete, reason=reason[:128], message=message[:MAX_MESSAGE_LENGTH])


def is_watched(application: ApplicationStatus | None) -> bool:
    """Whether the application has not ended, so that it must still be observed."""
    return application is not None and application.state not in ENDED


def application_name(metadata: Metadata, run: int, begun: datetime) -> str:
    """The name of one run's application: a DNS label that begins with a letter, unique for each
    run.

    Its last part is a hash with the run's time: if the status was lost and the number of a run is
    used again, the new run does not take the earlier one's result for its own.
    """
    stem = re.sub("[^a-z0-9]+", "-", metadata.name.lower())[:MAX_STEM_LENGTH].strip("-")
    stem = stem if stem[:1].isalpha() else f"job-{stem}".strip("-")
    text = f"{metadata.uid} {run} {begun.isoformat()}"
    return f"{stem[:MAX_STEM_LENGTH].strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def digest(value: object) -> str:
    """Digest of a spec or another value of the model, which changes when the value does."""
    text = json.dumps(write(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deadline_s(limit: Duration) -> int:
    """After how many seconds a launcher ends an application with this time limit, if the job itself
    does not: the limit, rounded up, and `GRACE`."""
    return -(-(duration_ms(limit)) // 1000) + int(GRACE.total_seconds())
