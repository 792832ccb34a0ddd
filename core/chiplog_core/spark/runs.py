"""How far a run of a Spark job is: from what was seen of its application and of its result.

One table for all kinds that run jobs. The application is looked at first and its result after it,
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
from chiplog_core.manifest.writing import write
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.spark_run import ApplicationStatus, Outcome, RunState
from chiplog_core.spark.documents import Flaw, UnreadableDocument
from chiplog_core.spark.results import CRASHED, Result, ResultState

START_LIMIT = timedelta(minutes=15)
"""An application that does not run by then, as for want of an image, is given up."""

GRACE = timedelta(minutes=1)
"""Beyond a time limit: the job and its launcher may end by themselves, with more to tell."""

LOOK_AGAIN_MS = 2_000
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
    """Why it failed or does not go on, in one word; empty where nothing is known."""
    message: str = ""
    must_be_stopped: bool = False
    """It failed for good, and its launcher would go on all the same."""
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
    """The job did what it was told."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """It will not do it any more."""

    reason: str
    message: str
    must_remove: bool = False
    """The application would go on for nothing."""


Progress: TypeAlias = NotThere | Going | Done | Failed


def progress(
    known: ApplicationStatus,
    seen: Seen,
    *,
    waited: timedelta,
    time_limit: Duration | None,
) -> Progress:
    """How far the run is. `known` is what the status says of it, `waited` how long it takes."""
    result = seen.result if _is_of(known, seen.result) else None
    if isinstance(result, Result):
        ended = _told(seen, result)
        if ended is not None:
            return ended
    found = _without_result(known, seen, result)
    if isinstance(found, Done | Failed):
        return found
    return _out_of_time(seen, waited, time_limit) or found


def _is_of(known: ApplicationStatus, result: Result | UnreadableDocument | None) -> bool:
    """What another application wrote is nothing to this one."""
    if isinstance(result, UnreadableDocument):
        return result.flaw is not Flaw.OF_ANOTHER
    return result is not None and result.application == known.name


def _told(seen: Seen, result: Result) -> Done | Failed | None:
    if result.state is ResultState.SUCCEEDED:
        return Done(result)
    if result.reason == CRASHED and seen.state not in ENDED:
        return None  # its launcher may start it again
    return Failed(result.reason, result.message)


def _without_result(
    known: ApplicationStatus, seen: Seen, result: Result | UnreadableDocument | None
) -> NotThere | Going | Failed:
    if seen.state is RunState.GONE:
        if known.state is RunState.WANTED:
            return NotThere()
        message = f"application {known.name} was removed before it had told a result"
        return Failed("ApplicationGone", message)
    if seen.state is RunState.FAILED:
        reason, message = seen.reason or "ApplicationFailed", seen.message
        return Failed(reason, message or "the application failed", must_remove=seen.must_be_stopped)
    if seen.state is RunState.SUCCEEDED:
        if isinstance(result, UnreadableDocument):
            return Failed(f"Result{result.flaw.value}", str(result))
        message = f"application {known.name} ended without a word of what it found"
        return Failed("NoResult", message)
    return Going()


def _out_of_time(seen: Seen, waited: timedelta, time_limit: Duration | None) -> Failed | None:
    is_there = seen.state is not RunState.GONE
    if time_limit is not None and waited > _length(time_limit) + GRACE:
        message = f"the run took longer than spec.timeLimit, {time_limit}"
        return Failed("TimeLimit", _with(message, seen), must_remove=is_there)
    if seen.state is not RunState.RUNNING and waited > START_LIMIT:
        minutes = START_LIMIT // timedelta(minutes=1)
        message = f"the application did not begin to run within {minutes} minutes"
        reason = seen.reason or "NotStarted"
        return Failed(reason, _with(message, seen), must_remove=is_there)
    return None


def _with(message: str, seen: Seen) -> str:
    return f"{message}: {seen.message}" if seen.message else message


def _length(duration: Duration) -> timedelta:
    return timedelta(milliseconds=duration_ms(duration))


def observed(known: ApplicationStatus, seen: Seen) -> ApplicationStatus:
    """What the status says of an application that was seen like this."""
    if seen.state is RunState.GONE and known.state is RunState.WANTED:
        return known
    message = "" if seen.state in {RunState.RUNNING, RunState.SUCCEEDED} else seen.message
    return replace(
        known, state=seen.state, kind=seen.kind or known.kind, message=message[:MAX_TOLD_LENGTH]
    )


def outcome(reason: str, message: str, *, complete: bool = False) -> Outcome:
    """How something ended, no longer than a status takes."""
    return Outcome(complete=complete, reason=reason[:128], message=message[:MAX_MESSAGE_LENGTH])


def is_watched(application: ApplicationStatus | None) -> bool:
    """Whether the application may still change."""
    return application is not None and application.state not in ENDED


def application_name(metadata: Metadata, run: int, begun: datetime) -> str:
    """Of one run of an object: a DNS label that begins with a letter, another for every run.

    The moment is part of it, so that a run whose number is used again, as after a status was
    lost, does not find the result of the earlier one.
    """
    stem = re.sub("[^a-z0-9]+", "-", metadata.name.lower())[:MAX_STEM_LENGTH].strip("-")
    stem = stem if stem[:1].isalpha() else f"job-{stem}".strip("-")
    text = f"{metadata.uid} {run} {begun.isoformat()}"
    return f"{stem[:MAX_STEM_LENGTH].strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def digest(wish: object) -> str:
    """Of a value of the model, to see that something else is wished for."""
    text = json.dumps(write(wish), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deadline_s(limit: Duration) -> int:
    """When a launcher ends an application whose job did not keep its limit, in seconds."""
    return -(-(duration_ms(limit)) // 1000) + int(GRACE.total_seconds())
