"""Which operator process is active: the holder of a Lease, which is written by compare-and-set.

Clocks of different processes are never compared. A standby measures with its own clock for how long
the Lease has not changed, and takes it when that is longer than the duration in the Lease. The
holder stops acting before that time is over if it cannot renew. Invariant: two processes act at the
same time only if one of them was paused between reading its clock and writing, and then its
compare-and-set writes fail.

Kopf's peering is not used, because it is only advisory.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of the Lease."""

    duration_s: int = 8
    """How long a holder keeps the Lease without renewing it."""
    renew_s: float = 2.0
    """How often the holder renews the Lease, and a standby reads it."""
    margin_s: float = 2.0
    """How long before the end of `duration_s` a holder that could not renew stops acting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the holder of a Lease watches, and its ServiceAccount; empty for an older operator,
    which does not write them."""

    watches: str = ""
    """The namespaces that the holder watches, as the annotation `labels.WATCHES` has them."""
    account: str = ""
    """The holder's ServiceAccount; empty if it does not run in a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The Lease object."""

    holder: str
    renew_time: str
    duration_s: int
    transitions: int
    acquire_time: str
    uid: str
    resource_version: str
    claim: Claim = field(default_factory=Claim)
    """The claim of its last holder."""


class Step(Enum):
    """The next action for the Lease."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The last observed state of the Lease, and since when it has not changed."""

    record: LeaseRecord | None = None
    """None if the Lease does not exist."""
    since_s: float = 0.0
    """When this state was first observed, in seconds of this process's monotonic clock."""

    def after_read(self, record: LeaseRecord | None, now_s: float) -> "ObservedLease":
        """The state after the Lease was read again. `since_s` stays if the Lease has not
        changed."""
        if self.record is not None and record == self.record:
            return self
        return ObservedLease(record, now_s)


def decide(me: str, seen: ObservedLease, now_s: float) -> Step:
    """The next action for the Lease that was just read. `me` is the holder name of this process."""
    record = seen.record
    if record is None:
        return Step.CREATE
    if record.holder == me:
        return Step.RENEW
    if not record.holder or now_s - seen.since_s > record.duration_s:
        return Step.TAKE
    return Step.WAIT


def lease_held_by(
    me: str, before: LeaseRecord | None, now: datetime, times: LeaseTimes, claim: Claim
) -> LeaseRecord:
    """The Lease as this process writes it to create, take or renew it. `before` is the Lease that
    was read; None if it does not exist."""
    moment = _micro_time(now)
    if before is None:
        before = LeaseRecord(
            holder="",
            renew_time="",
            duration_s=0,
            transitions=-1,  # becomes 0 below
            acquire_time="",
            uid="",
            resource_version="",
        )
    is_mine = before.holder == me
    return replace(
        before,
        holder=me,
        renew_time=moment,
        duration_s=times.duration_s,
        transitions=before.transitions if is_mine else before.transitions + 1,
        acquire_time=before.acquire_time if is_mine else moment,
        claim=claim,
    )


def released(before: LeaseRecord, now: datetime) -> LeaseRecord:
    """The Lease without a holder, so that a standby can take it immediately."""
    return replace(before, holder="", renew_time=_micro_time(now), duration_s=1)


def _micro_time(moment: datetime) -> str:
    """A time in the form of Kubernetes' MicroTime, which always has six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
