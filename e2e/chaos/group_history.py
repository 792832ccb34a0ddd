"""What members of consumer groups did and were answered, and what the groups had committed at the
end.

Moments are of this machine's monotonic clock, which all processes share: what was answered before
something else was asked comes before it, and of all other pairs nobody knows.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NOTHING_COMMITTED = -1
NEVER_S = float("inf")


class Place(NamedTuple):
    """One partition as a group knows it; `partition` is its label in the history of records."""

    group: str
    partition: str


class Committed(NamedTuple):
    """An offset that a member asked to have committed."""

    asked_s: float
    answered_s: float
    """`NEVER_S` where it was not acknowledged: then nobody knows whether it is committed."""
    place: Place
    offset: int
    """What the group is to read next."""
    member: str

    @property
    def is_acknowledged(self) -> bool:
        return self.answered_s < NEVER_S


class Found(NamedTuple):
    """A committed offset as an answer said it, or as a member began to read at it."""

    asked_s: float
    """At the earliest: a member's position is asked for after it got the partition."""
    place: Place
    offset: int
    """`NOTHING_COMMITTED` where there was none."""
    by: str


class Processed(NamedTuple):
    """Records in a row that a member processed, the last one included."""

    place: Place
    first: int
    last: int
    member: str


class Said(NamedTuple):
    """What a member was given or refused; no checker needs it, a person who searches for a cause
    does."""

    at_s: float
    member: str
    event: str
    what: str


@dataclass(slots=True)
class GroupHistory:
    """Written by the threads that listen to members; judged when all of them have ended."""

    commits: list[Committed] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    processed: list[Processed] = field(default_factory=list)
    final: dict[Place, int] = field(default_factory=dict)
    """What was committed at the very end, of every partition of every group."""
    problems: Counter[str] = field(default_factory=Counter)
    """What members were refused and went on after, as clients do."""
    said: list[Said] = field(default_factory=list)
    late: dict[str, str] = field(default_factory=dict)
    """What a group's coordinator says of it that did not get to the end."""

    def note_found(self, asked_s: float, offsets: Mapping[Place, int], by: str) -> None:
        """The answer to one request."""
        self.found += [Found(asked_s, place, offset, by) for place, offset in offsets.items()]

    def acknowledged(self) -> int:
        """Commits that were acknowledged by now: a request may have several."""
        return sum(one.is_acknowledged for one in self.commits)

    def groups_at_work(self) -> set[str]:
        """Those of which a commit was acknowledged."""
        return {one.place.group for one in self.commits.copy() if one.is_acknowledged}

    def furthest(self) -> dict[Place, int]:
        """The highest offset that was acknowledged, of each partition."""
        highest: defaultdict[Place, int] = defaultdict(int)
        for one in self.commits:
            if one.is_acknowledged:
                highest[one.place] = max(highest[one.place], one.offset)
        return dict(highest)
