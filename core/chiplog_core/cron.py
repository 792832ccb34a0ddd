"""Schedules of five cron fields, in UTC: minute, hour, day of the month, month, day of the week.

A field is `*` or a list of numbers and ranges, each with or without a step, as in `*/15` and
`1-5`; months and days of the week may be written by their first three letters. Sunday is 0 and
7. Where both kinds of days are restricted, a day that fits either one counts: the rule of every
cron since Vixie's, and of Kubernetes' CronJob (crontab(5)).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)

HORIZON_DAYS = 366 * 41
"""How far to search for a scheduled day. The weekdays of dates repeat after 28 years, or after 40
if a year like 2100, which is no leap year, is among them."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed schedule, as the sets of allowed numbers."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """Whether days of the month and weekdays are both restricted: then a day needs to match only
    one of them."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first scheduled time later than `moment`, which has a time zone; None if there is
        none."""
        now = moment.astimezone(UTC)
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for ahead in range(HORIZON_DAYS):
            try:
                date = day + timedelta(days=ahead)
            except OverflowError:
                return None
            if not self._fits(date):
                continue
            for time in self._times(date):
                if time > now:
                    return time
        return None

    def last_until(self, moment: datetime, *, after: datetime) -> datetime | None:
        """The latest scheduled time that is later than `after` and not later than `moment`; None
        if there is none."""
        now, bound = moment.astimezone(UTC), after.astimezone(UTC)
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for back in range(HORIZON_DAYS):
            try:
                date = day - timedelta(days=back)
            except OverflowError:
                return None
            if bound - date >= timedelta(days=1):
                return None
            if not self._fits(date):
                continue
            due = [time for time in self._times(date) if bound < time <= now]
            if due:
                return due[-1]
        return None

    def times_on(self, day: datetime) -> Iterator[datetime]:
        """The scheduled times on the day that begins at `day`, in order. They have no time zone if
        `day` has none."""
        if self._fits(day):
            yield from self._times(day)

    def _fits(self, date: datetime) -> bool:
        """Whether the schedule includes this day. As in cron, the day of the month or the
        weekday is enough if both are restricted."""
        by_date = date.day in self.days
        by_weekday = date.isoweekday() % 7 in self.weekdays
        fits = (by_date or by_weekday) if self.either_day else (by_date and by_weekday)
        return date.month in self.months and fits

    def _times(self, date: datetime) -> Iterator[datetime]:
        """The scheduled times on one day."""
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                yield date.replace(hour=hour, minute=minute)


def read_cron(text: str) -> Cron:
    """Parse a schedule. Raises `ValueError`, which says what is wrong with which field."""
    fields = text.split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"has {len(fields)} fields; it needs five, like 0 3 * * 0")
    minutes, hours, days, months, weekdays = (
        frozenset(_field(field, *bounds)) for field, bounds in zip(fields, _BOUNDS, strict=True)
    )
    cron = Cron(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        # As in every cron, a field that begins with a star, like */2, does not count as a
        # restriction here.
        either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )
    if cron.next_after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise ValueError("never matches: no month has that day")
    return cron


def _field(text: str, name: str, least: int, most: int, names: dict[str, int]) -> Iterator[int]:
    """The numbers that one field of the schedule allows. `least` and `most` are its bounds, `names`
    the names that stand for numbers, like mon. Raises `ValueError`."""
    for part in text.split(","):
        range_text, slash, step_text = part.partition("/")
        step = _number(step_text, name, 1, most, {}) if slash else 1
        if range_text == "*":
            # 7 is Sunday, like 0: with it, */2 would be 0, 2, 4, 6 and */7 would match Sunday
            # twice.
            first, last = least, 6 if name == "day of the week" else most
        else:
            first_text, dash, last_text = range_text.partition("-")
            first = _number(first_text, name, least, most, names)
            last = _number(last_text, name, least, most, names) if dash else first
            if slash and not dash:
                last = most  # like 5/15: from 5 on, every 15
        if first > last:
            raise ValueError(f"has a {name} {range_text} that goes backwards: write two ranges")
        yield from range(first, last + 1, step)


def _number(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    """The number in a text, or the one that a name like `mon` stands for. Raises `ValueError` if it
    is not within the bounds."""
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and least <= int(text) <= most):
        raise ValueError(f"has a {name} {text!r}; it goes from {least} to {most}")
    return int(text)
