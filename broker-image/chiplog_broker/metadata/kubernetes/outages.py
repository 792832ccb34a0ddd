"""One line in the log when the API server goes away, and one when it is back."""

import logging

from chiplog_broker.ports.clock import Clock

logger = logging.getLogger(__name__)


class Outages:
    """Told of every attempt by everyone who talks to the API server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s: float | None = None

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
        """The API server answered."""
        if self._began_s is not None:
            lasted_s = round(self._clock.monotonic_s() - self._began_s, 1)
            self._began_s = None
            logger.info("api_server_available", extra={"after_s": lasted_s})
