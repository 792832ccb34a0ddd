"""What is known of past runs of a Verification, and by when the next one must be over."""

from datetime import datetime, timedelta

from chiplog_core.cron import read_cron
from chiplog_core.model.verification import Verification, VerificationStatus
from chiplog_core.observed.settings import paused


def has_failed(status: VerificationStatus) -> bool:
    """Whether the last run that is over did not do all that it was to do.

    While a run is in progress it is the one before, as long as that is kept in the history.
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
    """When the last run was over that read all it was to read, whatever it found."""
    known = [run.finished_at for run in status.history if run.succeeded]
    if status.outcome is not None and status.outcome.complete:
        known.append(status.finished_at)
    return max((at for at in (*known, status.last_success) if at is not None), default=None)


def due(verification: Verification) -> datetime | None:
    """When a schedule is not kept any more: its second time after the last complete run.

    The first time begins a run, and at the second it is to be over. Counted from when the
    object was made where no run was complete yet. None where nothing is due: without a schedule,
    or with one that cannot be read, and where nothing is to begin.
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
