"""What clients did and saw, in the order in which they did: all that a checker is given."""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What happened."""

    SENT = "sent"
    ACKED = "acked"
    FAILED = "failed"
    """Refused for good: it was never stored."""
    READ = "read"
    SOUGHT = "sought"
    """A reader went to an offset of its own will."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line. `value` is unique; `offset` is -1 where it is not known."""

    at_s: float
    kind: Kind
    client: str
    partition: str
    value: str = ""
    offset: int = -1


@dataclass(slots=True)
class History:
    """Events in order, and what was read at the very end, when nobody wrote any more."""

    events: list[Event] = field(default_factory=list)
    final: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Partition -> (offset, value) of everything in it; missing where it could not be read."""
    was_idempotent: bool = True
