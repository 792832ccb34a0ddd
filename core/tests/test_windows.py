"""Windows open when the clocks of their zone say so, also where the clocks change."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.cron import read_cron
from chiplog_core.durations import Duration
from chiplog_core.windows import Window, read_window, read_zone

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window(schedule: str, duration: str = "1h", zone: tzinfo = BERLIN) -> Window:
    return read_window(schedule, Duration(duration), zone)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 2 * * 6", "2026-01-08T12:00:00", "2026-01-10T01:00:00"),  # in winter one hour ahead
        ("0 2 * * 6", "2026-07-08T12:00:00", "2026-07-11T00:00:00"),  # in summer two
        # 2026-03-29, 02:00 to 03:00 do not exist: 02:30 is 03:30.
        ("30 2 * * *", "2026-03-28T12:00:00", "2026-03-29T01:30:00"),
        ("30 2 * * *", "2026-03-29T01:30:00", "2026-03-30T00:30:00"),
        # 2026-10-25, 02:00 to 03:00 occur twice: 02:30 counts once.
        ("30 2 * * *", "2026-10-24T12:00:00", "2026-10-25T00:30:00"),
        ("30 2 * * *", "2026-10-25T00:30:00", "2026-10-26T01:30:00"),
    ],
)
def test_the_next_window_opens_by_the_clocks_of_its_zone(
    schedule: str, after: str, expected: str
) -> None:
    assert window(schedule).next_start(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("duration", "now", "is_open"),
    [
        ("1h", "2026-10-25T00:29:59", False),
        ("1h", "2026-10-25T00:30:00", True),
        # The second 02:10 of the night is 40 minutes after the first 02:30.
        ("1h", "2026-10-25T01:10:00", True),
        ("1h", "2026-10-25T01:30:00", False),
        ("1d", "2026-10-26T00:29:59", True),
        ("26h", "2026-10-26T01:00:00", True),
    ],
)
def test_a_window_is_open_for_its_duration_whatever_the_clocks_do(
    duration: str, now: str, is_open: bool
) -> None:
    assert window("30 2 * * *", duration).is_open(at(now)) is is_open


def test_a_day_that_a_zone_skips_is_no_day_without_a_window() -> None:
    """Samoa had no 30th of December 2011."""
    apia = ZoneInfo("Pacific/Apia")
    after = datetime(2011, 12, 29, 12, tzinfo=apia)

    skipped = window("0 10 30 12 *", zone=apia).next_start(after)
    assert skipped.astimezone(apia) == datetime(2011, 12, 31, 10, tzinfo=apia)
    both = window("0 9-10 * * *", zone=apia)
    first = both.next_start(after)
    assert first.astimezone(apia) == datetime(2011, 12, 31, 9, tzinfo=apia)


def test_utc_needs_no_database_and_unknown_names_are_refused() -> None:
    assert read_zone("UTC") is UTC
    assert read_zone("Europe/Berlin") == BERLIN
    for name in ("Europe/Atlantis", "America", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="no time zone that the operator knows"):
            read_zone(name)


_FIELDS = ("*/20", "0", "30", "15,45")
_HOURS = ("*", "1", "2", "1-3", "*/6", "23")
_DAYS = ("*", "*/3", "25-31", "1,15")
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")
_schedules = st.tuples(
    st.sampled_from(_FIELDS), st.sampled_from(_HOURS), st.sampled_from(_DAYS)
).map(lambda parts: f"{' '.join(parts)} * *")
_moments = st.integers(0, 6 * 366 * 24 * 4).map(
    lambda quarters: at("2010-12-01T00:00:00") + timedelta(minutes=15 * quarters)
)
_durations = st.sampled_from((1, 20, 60, 90, 24 * 60 + 1)).map(lambda one: timedelta(minutes=one))


@settings(deadline=None, max_examples=60)
@given(_schedules, st.sampled_from(_ZONES), _durations, _moments)
def test_random_windows_agree_with_a_search_minute_by_minute(
    schedule: str, zone_name: str, duration: timedelta, now: datetime
) -> None:
    zone = read_zone(zone_name)
    found = Window(read_cron(schedule), zone, duration)
    starts_at = _opens(found, zone)

    following = found.next_start(now)
    minutes = range(1, min(int((following - now).total_seconds() // 60), 4 * 24 * 60) + 1)
    early = [one for one in minutes if starts_at(now + timedelta(minutes=one))]
    assert early == ([minutes[-1]] if now + timedelta(minutes=minutes[-1]) == following else [])
    assert starts_at(following)
    assert found.is_open(following)
    is_open = any(
        starts_at(now - timedelta(minutes=ago))
        for ago in range(int(duration.total_seconds()) // 60)
    )
    assert found.is_open(now) is is_open


def _opens(window: Window, zone: tzinfo) -> Callable[[datetime], bool]:
    """Whether the window opens exactly at a moment, judged from the moment's own wall time."""

    def opens(moment: datetime) -> bool:
        local = moment.astimezone(zone)
        if local.fold:
            return False  # this wall time was there before
        walls = {local.replace(tzinfo=None)}
        for hours in (0.5, 1, 24):  # a wall time that was skipped is this much later
            skipped = local.replace(tzinfo=None) - timedelta(hours=hours)
            if skipped.replace(tzinfo=zone).astimezone(UTC) == moment:
                walls.add(skipped)
        times = window.schedule.times_on
        return any(wall in times(wall.replace(hour=0, minute=0)) for wall in walls)

    return opens


def test_a_moment_may_be_given_in_any_zone() -> None:
    now = datetime(2026, 1, 9, 20, tzinfo=timezone(timedelta(hours=-5)))

    assert window("0 2 * * 6").is_open(now)
