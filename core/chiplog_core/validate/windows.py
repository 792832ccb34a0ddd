"""Rules for windows of time."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from chiplog_core.cron import read_cron
from chiplog_core.durations import DAY_MS, Duration, duration_ms
from chiplog_core.problems import Problem
from chiplog_core.windows import read_zone

MAX_WINDOW_DAYS = 366


class RecurringWindow(Protocol):
    """A window as a user writes it."""

    @property
    def schedule(self) -> str:
        """When it opens."""

    @property
    def duration(self) -> Duration:
        """How long it stays open."""


def check_windows(
    field: str, windows: Sequence[RecurringWindow], time_zone: str
) -> Iterator[Problem]:
    """Problems with the windows in the `field`, like spec.rollPolicy, and with their time zone."""
    try:
        read_zone(time_zone)
    except ValueError as error:
        remedy = "write a name of the IANA time zone database, like Europe/Berlin"
        yield Problem(f"{field}.timeZone", str(error), remedy)
    for index, window in enumerate(windows):
        item = f"{field}.windows[{index}]"
        try:
            read_cron(window.schedule)
        except ValueError as error:
            remedy = "write minute, hour, day, month and day of the week, like 0 2 * * 6"
            yield Problem(f"{item}.schedule", str(error), remedy)
        if not 0 < duration_ms(window.duration) <= MAX_WINDOW_DAYS * DAY_MS:
            message = f"is {window.duration}, which is not between 1ms and {MAX_WINDOW_DAYS}d"
            yield Problem(f"{item}.duration", message, "set it to a time like 3h")
