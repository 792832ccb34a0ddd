"""How far a run of a Spark job is: from what was seen of its application and of its result.

One table for all kinds that run jobs. The application is checked first and its result after it,
so that an application that is over has written what it will ever write.
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
"""An application that waits longer at a time, as for want of an image or a node, is given up."""

GRACE = timedelta(minutes=1)
"""Beyond a time limit: the job and its launcher may end on their own, with a better message."""

REQUEUE_AFTER_MS = 2_000
"""While an application runs."""

ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.GONE})

MAX_STEM_LENGTH = 30
MAX_TOLD_LENGTH = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An application as it was seen."""

    state: RunState
    """GONE where there is none."""
    kind: str = ""
    """Kind of the object that runs it."""
    reason: str = ""
    """Why it failed or does not continue, in one word; empty where nothing is known."""
    message: str = ""
    must_be_stopped: bool = False
    """It failed for good, and its launcher would continue all the same."""
    is_held_up: bool = False
    """Something that may pass keeps it from continuing; `reason` and `message` say what."""
    executors: int = 0
    """How many run."""
    driver_end: DriverEnd = DriverEnd.NONE
    attempt: int | None = None
    progress: RunProgress | None = None
    result: Result | UnreadableDocument | None = None
    """None where none was written."""


@dataclass(frozen=True, slots=True)
class NotThere:
    """It is to be made."""


@dataclass(frozen=True, slots=True)
class Going:
    """It is there, and not over."""


@dataclass(frozen=True, slots=True)
class Done:
    """The job succeeded."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """It will not do it any more."""

    reason: str
    message: str
    must_remove: bool = False
    """The application would continue for nothing."""


Progress: TypeAlias = NotThere | Going | Done | Failed


def progress(
    known: ApplicationStatus,
    seen: Seen,
    *,
    waited: timedelta,
    held_up: timedelta,
    time_limit: Duration | None,
    start_limit: timedelta = START_LIMIT,
) -> Progress:
    """How far the run is.

    `known` is what the status says of the application, `waited` the time since the run began.
    `held_up` is the time for which the application has not been running, or has had no executors.
    """
    result = seen.result if _is_of(known, seen.result) else None
    if isinstance(result, Result):
        ended = _end_by_result(seen, result)
        if ended is not None:
            return ended
    found = _without_result(known, seen, result)
    if isinstance(found, Done | Failed):
        return found
    if time_limit is not None and waited > length_of(time_limit) + GRACE:
        message = f"the run took longer than spec.timeLimit, {time_limit}"
        return Failed("TimeLimit", _with(message, seen), must_remove=_is_there(seen))
    if held_up > start_limit and (seen.state is not RunState.RUNNING or seen.is_held_up):
        return _given_up(known, seen, start_limit)
    return found


def _is_of(known: ApplicationStatus, result: Result | UnreadableDocument | None) -> bool:
    """Whether this application wrote the result."""
    if isinstance(result, UnreadableDocument):
        return result.flaw is not Flaw.OF_ANOTHER
    return result is not None and result.application == known.name


def _end_by_result(seen: Seen, result: Result) -> Done | Failed | None:
    """The end of the run according to its result; None if the launcher may still start it again."""
    if result.state is ResultState.SUCCEEDED:
        return Done(result)
    if result.reason == CRASHED and seen.state not in ENDED:
        return None  # its launcher may start it again
    return Failed(result.reason, short_error(result.message))


def _without_result(
    known: ApplicationStatus, seen: Seen, result: Result | UnreadableDocument | None
) -> NotThere | Going | Failed:
    """The state of a run without a result."""
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


def _given_up(known: ApplicationStatus, seen: Seen, limit: timedelta) -> Failed:
    """The end of a run that exceeded a time limit."""
    minutes = limit // timedelta(minutes=1)
    if seen.state is RunState.RUNNING:
        message = f"no executor was running for {minutes} minutes, so the job made no progress"
    elif known.has_run:
        message = f"the application was interrupted and has not run for {minutes} minutes"
    else:
        message = f"the application did not start within {minutes} minutes"
    reason = seen.reason or "NotStarted"
    return Failed(reason, _with(message, seen), must_remove=_is_there(seen))


def _is_there(seen: Seen) -> bool:
    return seen.state is not RunState.GONE


def _with(message: str, seen: Seen) -> str:
    return f"{message}: {seen.message}" if seen.message else message


def length_of(duration: Duration) -> timedelta:
    """A duration of a spec as a timedelta."""
    return timedelta(milliseconds=duration_ms(duration))


def observed(
    known: ApplicationStatus, seen: Seen, *, now: datetime, begun: datetime
) -> ApplicationStatus:
    """The status of an application that was observed in this state, of a run that began at
    `begun`."""
    if seen.state is RunState.GONE and known.state is RunState.WANTED:
        reason, message = seen.reason, seen.message
        return replace(known, reason=reason[:128], message=message[:MAX_TOLD_LENGTH])
    is_said = seen.is_held_up or seen.state not in {RunState.RUNNING, RunState.SUCCEEDED}
    return replace(
        known,
        state=seen.state,
        kind=seen.kind or known.kind,
        reason=seen.reason[:128] if seen.is_held_up else "",
        message=seen.message[:MAX_TOLD_LENGTH] if is_said else "",
        attempt=seen.attempt or known.attempt,
        progress=_progress(known, seen),
        has_run=known.has_run or seen.state is RunState.RUNNING,
        waiting_since=_waiting_since(known, seen, now, begun),
    )


def _progress(known: ApplicationStatus, seen: Seen) -> RunProgress | None:
    """The progress. It is kept when the driver reports none, until the next attempt, which
    starts at zero."""
    is_next = None not in {known.attempt, seen.attempt} and known.attempt != seen.attempt
    return None if is_next else seen.progress or known.progress


def _waiting_since(
    known: ApplicationStatus, seen: Seen, now: datetime, begun: datetime
) -> datetime | None:
    """Since when the application waits. Each wait counts separately: for the driver, for
    executors, for the next driver."""
    if seen.state in ENDED:
        return None
    is_new = (known.state is RunState.RUNNING) is not (seen.state is RunState.RUNNING)
    if seen.state is not RunState.RUNNING:
        since = now if known.has_run else begun
        return since if is_new or known.waiting_since is None else known.waiting_since
    if seen.executors or is_new:
        return now if seen.is_held_up else None
    # Between two attempts of Spark to create executors there may be none: only running ones count.
    return known.waiting_since or (now if seen.is_held_up else None)


def outcome(reason: str, message: str, *, complete: bool = False) -> Outcome:
    """How a run ended, shortened to the limits of a status."""
    return Outcome(complete=complete, reason=reason[:128], message=message[:MAX_MESSAGE_LENGTH])


def is_watched(application: ApplicationStatus | None) -> bool:
    """Whether the application may still change."""
    return application is not None and application.state not in ENDED


def application_name(metadata: Metadata, run: int, begun: datetime) -> str:
    """The name of one run's application: a DNS label that begins with a letter, unique for each
    run.

    The time is part of it. If the status was lost and a run's number is used again, the run does
    not find the result of the earlier one.
    """
    stem = re.sub("[^a-z0-9]+", "-", metadata.name.lower())[:MAX_STEM_LENGTH].strip("-")
    stem = stem if stem[:1].isalpha() else f"job-{stem}".strip("-")
    text = f"{metadata.uid} {run} {begun.isoformat()}"
    return f"{stem[:MAX_STEM_LENGTH].strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def digest(value: object) -> str:
    """Digest of a value of the model, to notice that another one is asked for."""
    text = json.dumps(write(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deadline_s(limit: Duration) -> int:
    """After how many seconds a launcher ends an application whose job has not kept its time
    limit."""
    return -(-(duration_ms(limit)) // 1000) + int(GRACE.total_seconds())
