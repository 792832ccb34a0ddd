"""When the API server answered last; log lines when it becomes unavailable and available again."""

import logging
from collections.abc import Callable

from chiplog_broker.ports.clock import Clock

logger = logging.getLogger(__name__)


class Outages:
    """The `Authority` in Kubernetes. Every client of the API server reports its attempts here.

    Only successful requests count. An API server that answers with errors may be cut off from
    etcd, and then knows no more than this broker.
    """

    def __init__(self, clock: Clock, answered: Callable[[], None]) -> None:
        """`answered` is called each time the API server answered. It must not raise."""
        self._clock = clock
        self._on_answer = answered
        self._began_s: float | None = None
        self.answered_s = float("-inf")

    @property
    def is_out(self) -> bool:
        """Whether the last request to the API server failed."""
        return self._began_s is not None

    def failed(self, error: Exception) -> None:
        """A request to the API server failed."""
        if self._began_s is None:
            self._began_s = self._clock.monotonic_s()
            reason = f"{type(error).__name__}: {error}"
            logger.warning("api_server_unavailable", extra={"reason": reason})

    def worked(self) -> None:
        """A request to the API server succeeded."""
        self.answered()
        if self._began_s is not None:
            lasted_s = round(self._clock.monotonic_s() - self._began_s, 1)
            self._began_s = None
            logger.info("api_server_available", extra={"after_s": lasted_s})

    def answered(self) -> None:
        """The API server has sent something. An event of a watch counts here, too, but does not end
        an outage."""
        self.answered_s = self._clock.monotonic_s()
        self._on_answer()
