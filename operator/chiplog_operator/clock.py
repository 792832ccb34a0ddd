"""Time for the operator: monotonic for all that waits, the wall's for what it writes down."""

from datetime import UTC, datetime
from typing import Protocol

from chiplog_kube import clock


class Clock(clock.Clock, Protocol):
    """Monotonic time, waiting, and the date."""

    def now(self) -> datetime:
        """The present time, with its zone. It may jump, also backwards, so liveness must not
        depend on it."""


class SystemClock(clock.SystemClock):
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
