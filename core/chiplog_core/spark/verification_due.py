"""The past runs of a Verification, and the time by which the next one must have ended."""

from datetime import datetime, timedelta

from chiplog_core.cron import read_cron
from chiplog_core.model.verification import Verification, VerificationStatus
from chiplog_core.observed.settings import paused


def has_failed(status: VerificationStatus) -> bool:
    """Whether the last finished run failed.

    While a run is in progress, the status has no outcome. Then the newest run in the history
    counts; False if the history is empty.
    """
    if status.outcome is not None:
        return not status.outcome.complete
    return bool(status.history) and not status.history[0].succeeded


def duration(status: VerificationStatus) -> timedelta | None:
    """How long the last run took; None while one is in progress, and before the first."""
    if status.started_at is None or status.finished_at is None:
        return None
    return max(status.finished_at - status.started_at, timedelta())


def last_complete(status: VerificationStatus) -> datetime | None:
    """When the last complete run ended, whatever it found; None if none was complete."""
    known = [run.finished_at for run in status.history if run.succeeded]
    if status.outcome is not None and status.outcome.complete:
        known.append(status.finished_at)
    return max((at for at in (*known, status.last_success) if at is not None), default=None)


def due(verification: Verification) -> datetime | None:
    """The time from which a schedule is missed: the second scheduled time after the last complete
    run.

    The first scheduled time begins a run, which must be over at the second. If no run was complete
    yet, the object's creation counts. None if no run is due: without a valid schedule, or if no run
    may begin.
    """
    spec = verification.spec
    since = last_complete(verification.status) or verification.metadata.creation_timestamp
    if spec.schedule is None or since is None or spec.suspend or paused(verification.metadata):
        return None
    try:
        schedule = read_cron(spec.schedule)
    except ValueError:
        return None
    first = schedule.next_after(since)
    return None if first is None else schedule.next_after(first)
