"""Windows of time that open by a schedule in a time zone.

The schedule is of wall-clock times. Where the clocks go forward, a scheduled time that is skipped
is taken in the offset before, so it is as much later as the clocks go forward. Where they go back,
a time that occurs twice counts the first time (PEP 495, fold=0). A window is open for its duration
of real time, whatever the clocks do.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from zoneinfo import ZoneInfo

from chiplog_core.cron import Cron, read_cron
from chiplog_core.durations import Duration, duration_ms

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """A recurring window."""

    schedule: Cron
    """When it opens, on the clocks of `zone`."""
    zone: tzinfo
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Whether the window is open at this moment, which has a time zone."""
        day = self._midnight(now) + DAY
        first_day = self._midnight(now - self.duration) - DAY
        while day >= first_day:
            if any(now - self.duration < start <= now for start in self._starts(day)):
                return True
            day -= DAY
        return False

    def next_start(self, now: datetime) -> datetime:
        """The first time after `now` at which the window opens, in UTC."""
        today = self._midnight(now)
        days = (today + ahead * DAY for ahead in count(-1))  # a schedule always has a next time
        first = next(day for day in days if any(start > now for start in self._starts(day)))
        # Where a zone skips a day, a time of a later day may come first.
        near = (start for ahead in range(3) for start in self._starts(first + ahead * DAY))
        return min(start for start in near if start > now)

    def _midnight(self, moment: datetime) -> datetime:
        """The day of the moment in the window's zone, without a zone."""
        local = moment.astimezone(self.zone)
        return local.replace(tzinfo=None, fold=0, hour=0, minute=0, second=0, microsecond=0)

    def _starts(self, day: datetime) -> Iterator[datetime]:
        """When the window opens on this day of its zone, in UTC."""
        for wall_time in self.schedule.times_on(day):
            yield wall_time.replace(tzinfo=self.zone).astimezone(UTC)


def opens_at(windows: Collection[Window], now: datetime) -> datetime | None:
    """When the next of the windows opens, in UTC; None if one is open, or there are none."""
    if not windows or any(window.is_open(now) for window in windows):
        return None
    return min(window.next_start(now) for window in windows)


def read_window(schedule: str, duration: Duration, zone: tzinfo) -> Window:
    """The window. Raises `ValueError`, which says what is wrong with the schedule or duration."""
    return Window(read_cron(schedule), zone, timedelta(milliseconds=duration_ms(duration)))


def read_zone(name: str) -> tzinfo:
    """The time zone of this name in the IANA database. Raises `ValueError` if there is none."""
    if name == "UTC":  # also on a machine without the database
        return UTC
    try:
        return ZoneInfo(name)
    # A name that is the folder of others, like America, is found and cannot be read.
    except (KeyError, OSError, ValueError):
        raise ValueError(f"is {name!r}, which is no time zone that the operator knows") from None
