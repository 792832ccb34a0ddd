"""Schedules: what each field means, and when the next run is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.cron import read_cron


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-31T12:00:00", "2026-01-31T12:01:00"),
        ("*/15 * * * *", "2026-01-31T12:01:30", "2026-01-31T12:15:00"),
        ("5/20 * * * *", "2026-01-31T12:06:00", "2026-01-31T12:25:00"),
        ("0 3 * * 0", "2026-01-31T12:00:00", "2026-02-01T03:00:00"),
        ("0 3 * * 7", "2026-01-31T12:00:00", "2026-02-01T03:00:00"),
        ("0 3 * * sun", "2026-02-01T03:00:00", "2026-02-08T03:00:00"),
        ("30 2 1 jan *", "2026-01-31T12:00:00", "2027-01-01T02:30:00"),
        ("0 0 29 2 *", "2026-01-31T12:00:00", "2028-02-29T00:00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
        ("0 0 31 * *", "2026-01-31T00:00:00", "2026-03-31T00:00:00"),
        ("59 23 31 12 *", "2026-12-31T23:59:00", "2027-12-31T23:59:00"),
        ("0 9-17/4 * * 1-5", "2026-01-30T17:00:00", "2026-02-02T09:00:00"),
        # Both kinds of days: the 13th, or a Friday.
        ("0 0 13 * 5", "2026-02-01T00:00:00", "2026-02-06T00:00:00"),
        ("0 0 13 * 5", "2026-02-11T00:00:00", "2026-02-13T00:00:00"),
        ("0 0 13 * 5", "2026-05-09T00:00:00", "2026-05-13T00:00:00"),
        # A star with a step restricts nothing: both have to fit.
        ("0 0 13 * */5", "2026-02-01T00:00:00", "2026-02-13T00:00:00"),
        # Such a date may be years away: a Sunday that is a 29th of February.
        ("0 0 29 2 */7", "2004-03-01T00:00:00", "2032-02-29T00:00:00"),
        ("0 0 * * */2", "2026-02-01T00:00:00", "2026-02-03T00:00:00"),
    ],
)
def test_the_next_run_is_the_first_time_that_fits(schedule: str, after: str, expected: str) -> None:
    assert read_cron(schedule).next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("0 3 * *", "4 fields"),
        ("60 3 * * *", "minute '60'"),
        ("0 24 * * *", "hour '24'"),
        ("0 0 0 * *", "day of the month '0'"),
        ("0 0 * 13 *", "month '13'"),
        ("0 0 * feb-jan *", "goes backwards"),
        ("0 0 * * 8", "day of the week '8'"),
        ("0 0 * * someday", "day of the week 'someday'"),
        ("*/0 * * * *", "minute '0'"),
        ("1, * * * *", "minute ''"),
        ("1--3 * * * *", "minute '-3'"),
        ("0 0 30 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
    ],
)
def test_a_mistake_is_named(schedule: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_cron(schedule)


def test_a_time_is_of_utc_whatever_zone_the_moment_is_given_in() -> None:
    moment = datetime(2026, 1, 31, 23, 30, tzinfo=timezone(timedelta(hours=2)))

    assert read_cron("0 22 * * *").next_after(moment) == at("2026-01-31T22:00:00")


def test_of_many_missed_times_the_latest_counts() -> None:
    cron = read_cron("0 3 * * *")

    since, now = at("2026-01-01T03:00:00"), at("2026-01-31T12:00:00")
    assert cron.last_until(now, after=since) == at("2026-01-31T03:00:00")
    assert cron.last_until(at("2026-01-31T03:00:00"), after=at("2026-01-31T03:00:00")) is None
    assert cron.last_until(at("2026-01-31T02:59:00"), after=at("2026-01-30T03:00:00")) is None


def test_the_end_of_time_is_no_error() -> None:
    assert read_cron("* * * * *").next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_the_last_day_of_all_has_scheduled_times_too() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert read_cron("0 3 * * *").last_until(last, after=last - timedelta(days=1)) == at(
        "9999-12-31T03:00:00"
    )


def test_the_beginning_of_time_is_no_error() -> None:
    first = datetime.min.replace(tzinfo=UTC)

    assert read_cron("0 0 1 1 *").last_until(first + timedelta(days=9), after=first) is None


def test_a_schedule_of_a_day_that_never_comes_has_no_last_time() -> None:
    never = replace(read_cron("0 0 1 2 *"), days=frozenset({30}))

    assert never.last_until(at("2026-01-31T12:00:00"), after=at("1926-01-31T12:00:00")) is None
    assert never.next_after(at("2026-01-31T12:00:00")) is None


_FIELDS = st.sampled_from(["*", "*/7", "3", "1,5", "2-6", "1-6/2"])
_MOMENTS = st.integers(0, 100 * 365 * 86_400).map(
    lambda seconds: at("2001-01-01T00:00:00") + timedelta(seconds=seconds)
)


@settings(deadline=None)
@given(st.tuples(*[_FIELDS] * 5).map(" ".join), _MOMENTS)
def test_nothing_lies_between_a_moment_and_the_next_run(schedule: str, moment: datetime) -> None:
    cron = read_cron(schedule)
    following = cron.next_after(moment)

    assert following is not None
    assert following > moment
    assert cron.next_after(following - timedelta(microseconds=1)) == following
    assert cron.last_until(following, after=moment) == following
    assert cron.last_until(following - timedelta(microseconds=1), after=moment) is None


@settings(deadline=None)
@given(st.text(alphabet="0123456789*/,- adejnsu", max_size=30))
def test_any_text_is_a_schedule_or_says_why_not(text: str) -> None:
    try:
        cron = read_cron(text)
    except ValueError as error:
        said = str(error)
    else:
        said = "has a next time" if cron.next_after(at("2026-01-31T12:00:00")) else ""
    assert said.startswith(("has ", "never "))
