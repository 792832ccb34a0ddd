"""Who holds the Lease: what a process does about it, and what it writes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from chiplog_core.operator_lease.lease import (
    Claim,
    LeaseRecord,
    LeaseTimes,
    ObservedLease,
    Step,
    decide,
    lease_held_by,
    released,
)

TIMES = LeaseTimes()
CLAIM = Claim(watches="a,b", account="chiplog-operator")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_TEXT = "2026-01-01T12:00:00.000000Z"


def record(holder: str, version: str = "1", duration_s: int = 8) -> LeaseRecord:
    return LeaseRecord(
        holder=holder,
        renew_time=f"t{version}",
        duration_s=duration_s,
        transitions=3,
        acquire_time="t0",
        uid="u",
        resource_version=version,
    )


@pytest.mark.parametrize(
    ("seen", "after_s", "step"),
    [
        (ObservedLease(None, 0.0), 0.0, Step.CREATE),
        (ObservedLease(record("me"), 0.0), 99.0, Step.RENEW),
        (ObservedLease(record("other"), 0.0), 8.0, Step.WAIT),
        (ObservedLease(record("other"), 0.0), 8.1, Step.TAKE),
        (ObservedLease(record("other", duration_s=30), 0.0), 8.1, Step.WAIT),
        (ObservedLease(record(""), 0.0), 0.0, Step.TAKE),
    ],
)
def test_what_to_do_about_a_lease(seen: ObservedLease, after_s: float, step: Step) -> None:
    assert decide("me", seen, after_s) is step


def test_time_counts_from_when_the_lease_last_changed_by_our_own_clock() -> None:
    seen = ObservedLease().after_read(record("other", "1"), 100.0)
    assert seen.after_read(record("other", "1"), 105.0).since_s == 100.0
    assert seen.after_read(record("other", "2"), 105.0).since_s == 105.0
    assert seen.after_read(None, 105.0) == ObservedLease(None, 105.0)


def test_a_holder_stops_before_a_standby_may_take_the_lease() -> None:
    stops_after_s = TIMES.duration_s - TIMES.margin_s

    assert TIMES.renew_s < stops_after_s
    assert decide("me", ObservedLease(record("other"), 0.0), stops_after_s) is Step.WAIT


def test_renewing_changes_only_the_time_and_what_the_holder_says() -> None:
    before = record("me")

    assert lease_held_by("me", before, NOW, TIMES, CLAIM) == replace(
        before, renew_time=NOW_TEXT, claim=CLAIM
    )


def test_taking_counts_as_a_transition_from_now_on() -> None:
    taken = lease_held_by("me", record("other", duration_s=30), NOW, TIMES, CLAIM)

    assert (taken.holder, taken.transitions, taken.duration_s) == ("me", 4, TIMES.duration_s)
    assert taken.acquire_time == taken.renew_time == NOW_TEXT
    assert (taken.uid, taken.resource_version) == ("u", "1")  # compare-and-set needs both


def test_a_lease_that_nobody_ever_held_begins_without_transitions() -> None:
    made = lease_held_by("me", None, NOW, TIMES, Claim())

    assert (made.holder, made.transitions, made.acquire_time) == ("me", 0, NOW_TEXT)
    assert (made.uid, made.resource_version) == ("", "")


def test_a_released_lease_is_taken_immediately_and_that_is_a_transition() -> None:
    free = released(record("other"), NOW)

    assert (free.holder, free.renew_time, free.transitions) == ("", NOW_TEXT, 3)
    assert decide("me", ObservedLease(free, 0.0), 0.0) is Step.TAKE
    assert lease_held_by("me", free, NOW, TIMES, CLAIM).transitions == 4


def test_times_are_written_in_utc_with_six_digits() -> None:
    there = timezone(timedelta(hours=2))
    moment = datetime(2026, 1, 1, 14, 0, 0, 5, tzinfo=there)

    assert released(record("me"), moment).renew_time == "2026-01-01T12:00:00.000005Z"
