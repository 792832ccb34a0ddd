"""Counting requests to the API server, in the words of Kubernetes' own metrics."""

from dataclasses import dataclass
from typing import Final, Protocol

NO_ANSWER: Final = "none"
"""Stands for the status of a request without an answer."""


@dataclass(frozen=True, slots=True)
class About:
    """The labels of a request in metrics."""

    verb: str
    """get, list, watch, create, update, patch, apply or delete."""
    resource: str
    """Like topics, or topics/status."""


class RequestMeter(Protocol):
    """Counts requests."""

    def answered(self, about: About, code: str, seconds: float) -> None:
        """Count a request, with the status of its answer or `NO_ANSWER`, and the seconds until
        the answer began."""


class NoRequestMeter:
    """Counts nothing."""

    def answered(self, about: About, code: str, seconds: float) -> None: ...
