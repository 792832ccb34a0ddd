"""What members of consumer groups did, the answers they got, and the last committed offsets.

Times are of this machine's monotonic clock, which all processes share. If one request was answered
before another was sent, their order is known; requests that overlap have no known order.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NOTHING_COMMITTED = -1
NEVER_S = float("inf")


class Place(NamedTuple):
    """A group and one partition that it reads; `partition` is a label like "orders-0"."""

    group: str
    partition: str


class Committed(NamedTuple):
    """An offset that a member asked to have committed."""

    asked_s: float
    answered_s: float
    """`NEVER_S` if it was not acknowledged: then it may be committed or not."""
    place: Place
    offset: int
    """The committed offset: that of the next record to read."""
    member: str

    @property
    def is_acknowledged(self) -> bool:
        return self.answered_s < NEVER_S


class Found(NamedTuple):
    """A committed offset that a client got as an answer, or at which a member began to read."""

    asked_s: float
    """The earliest moment of the question. For a member: when it got the partition, as it asks for
    the committed offset after that."""
    place: Place
    offset: int
    """`NOTHING_COMMITTED` if there was none."""
    by: str
    """The name of the member, or of the client that asked."""


class Processed(NamedTuple):
    """A range of consecutive offsets that a member processed; `last` is included."""

    place: Place
    first: int
    last: int
    member: str


class Said(NamedTuple):
    """An assignment or an error that a member reported: for people who look for a cause only."""

    at_s: float
    member: str
    event: str
    what: str


@dataclass(slots=True)
class GroupHistory:
    """The history of all groups of a run.

    Threads that read the members' output write to it; it is judged after all of them ended.
    """

    commits: list[Committed] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    processed: list[Processed] = field(default_factory=list)
    final: dict[Place, int] = field(default_factory=dict)
    """The last known committed offset of every partition of every group."""
    problems: Counter[str] = field(default_factory=Counter)
    """Error text -> how often a member got it and then continued, as clients do."""
    said: list[Said] = field(default_factory=list)
    late: dict[str, str] = field(default_factory=dict)
    """Group -> its state by its coordinator, for groups that did not commit the end in time."""

    def note_found(self, asked_s: float, offsets: Mapping[Place, int], by: str) -> None:
        """Add the committed offsets that `by` got in answer to one request, sent at `asked_s`."""
        self.found += [Found(asked_s, place, offset, by) for place, offset in offsets.items()]

    def acknowledged(self) -> int:
        """How many offsets were committed and acknowledged by now: one request may commit
        several."""
        return sum(one.is_acknowledged for one in self.commits)

    def groups_at_work(self) -> set[str]:
        """The groups that have had a commit acknowledged."""
        return {one.place.group for one in self.commits.copy() if one.is_acknowledged}

    def furthest(self) -> dict[Place, int]:
        """The highest offset whose commit was acknowledged, for each group and partition."""
        highest: defaultdict[Place, int] = defaultdict(int)
        for one in self.commits:
            if one.is_acknowledged:
                highest[one.place] = max(highest[one.place], one.offset)
        return dict(highest)
