"""Counting requests to the API server, in the words of Kubernetes' own metrics."""

from dataclasses import dataclass
from typing import Final, Protocol

NO_ANSWER: Final = "none"
"""In the place of a status where there was none."""


@dataclass(frozen=True, slots=True)
class About:
    """What a request is."""

    verb: str
    """get, list, watch, create, update, patch, apply or delete."""
    resource: str
    """Like topics, or topics/status."""


class RequestMeter(Protocol):
    """Who counts requests."""

    def answered(self, about: About, code: str, seconds: float) -> None:
        """Count a request, with the status of its answer or `NO_ANSWER`, and the seconds until
        the answer began."""


class NoRequestMeter:
    """Nobody counts."""

    def answered(self, about: About, code: str, seconds: float) -> None: ...
