"""Who is the active operator: decided by one Lease, compare-and-set.

Nobody compares clocks. A standby measures by its own clock for how long the Lease did not
change, and takes it when that is longer than the holder asked for; the holder stops acting
before that time is over. Invariants: two processes act at once only if one of them was paused
between looking at its clock and writing, and then its compare-and-set writes lose.

Kopf's peering is advisory and serves nothing here.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long everything takes."""

    duration_s: int = 8
    """For this long a holder that says nothing keeps the Lease."""
    renew_s: float = 2.0
    """How often the holder renews it and a standby reads it."""
    margin_s: float = 2.0
    """For this long before the end a holder that could not renew stops acting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a holder says that it watches; empty where an older operator did not say."""

    watches: str = ""
    """As `labels.WATCHES`."""
    account: str = ""
    """Its ServiceAccount; empty where it is no pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A Lease as the API server has it."""

    holder: str
    renew_time: str
    duration_s: int
    transitions: int
    acquire_time: str
    uid: str
    resource_version: str
    claim: Claim = field(default_factory=Claim)
    """Of its last holder."""


class Step(Enum):
    """What to do next about the Lease."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest state of the Lease, and since when (by our own clock) it has been that."""

    record: LeaseRecord | None = None
    since_s: float = 0.0

    def after_read(self, record: LeaseRecord | None, now_s: float) -> "Seen":
        """The state after the Lease was read again. The time stays if nothing changed."""
        if self.record is not None and record == self.record:
            return self
        return Seen(record, now_s)


def decide(me: str, seen: Seen, now_s: float) -> Step:
    """What a process should do about the Lease that it has just read."""
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
    """The Lease as this process writes it to take or renew it."""
    moment = _micro_time(now)
    if before is None:
        before = LeaseRecord(
            holder="",
            renew_time="",
            duration_s=0,
            transitions=-1,
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
