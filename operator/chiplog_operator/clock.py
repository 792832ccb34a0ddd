"""Time for the operator: monotonic for all that waits, the wall's for what it writes down."""

from datetime import UTC, datetime
from typing import Protocol

from chiplog_kube import clock


class Clock(clock.Clock, Protocol):
    """Monotonic time, waiting, and the date."""

    def now(self) -> datetime:
        """With its time zone. May jump, also backwards: never decide by it who is alive."""


class SystemClock(clock.SystemClock):
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
