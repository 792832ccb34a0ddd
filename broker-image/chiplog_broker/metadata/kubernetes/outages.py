"""When the API server was heard last; a line in the log when it goes away, and when it is back."""

import logging
from collections.abc import Callable

from chiplog_broker.ports.clock import Clock

logger = logging.getLogger(__name__)


class Outages:
    """Told of every attempt by everyone who talks to the API server: the `Authority`.

    Only what it does counts. One that answers with errors may itself be cut off from what it
    serves, and then knows no more than this broker.
    """

    def __init__(self, clock: Clock, heard: Callable[[], None]) -> None:
        """`heard` is called each time the API server was heard. It must not raise."""
        self._clock = clock
        self._heard = heard
        self._began_s: float | None = None
        self.heard_s = float("-inf")

    @property
    def is_out(self) -> bool:
        return self._began_s is not None

    def failed(self, error: Exception) -> None:
        """The API server did not do what was asked."""
        if self._began_s is None:
            self._began_s = self._clock.monotonic_s()
            reason = f"{type(error).__name__}: {error}"
            logger.warning("api_server_unavailable", extra={"reason": reason})

    def worked(self) -> None:
        """The API server did what was asked."""
        self.heard()
        if self._began_s is not None:
            lasted_s = round(self._clock.monotonic_s() - self._began_s, 1)
            self._began_s = None
            logger.info("api_server_available", extra={"after_s": lasted_s})

    def heard(self) -> None:
        """It told something, if only through a watch."""
        self.heard_s = self._clock.monotonic_s()
        self._heard()
