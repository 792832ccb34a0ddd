"""What members of groups were answered, and what became of what they committed.

Every commit has a mark of its own, which the coordinator keeps as its metadata: a client that asks
how far a group has come learns which commit that was, and not only a number.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Joined(NamedTuple):
    """A JoinGroup was answered without an error."""

    began_s: float
    at_s: float
    group: str
    generation: int
    who: str
    """The member: by its instance where it has one, else by its member id."""
    member_id: str
    leader: str
    """The same of the group's leader, as this member was answered."""


class Synced(NamedTuple):
    """A SyncGroup was answered with an assignment."""

    at_s: float
    group: str
    generation: int
    who: str
    partitions: frozenset[str]
    """Topic and number, without an id: so the leader assigns them."""


class Beat(NamedTuple):
    """A heartbeat was answered without an error, by a coordinator that had loaded its groups."""

    began_s: float
    at_s: float
    group: str
    generation: int
    who: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class Commit:
    """An offset of one partition, sent to be committed."""

    began_s: float
    group: str
    partition: str
    """Topic and number."""
    offset: int
    mark: str
    who: str
    member_id: str = ""
    generation: int = -1
    """-1 of a consumer that is in no generation."""
    label: str = ""
    """The partition with its topic's id, where that was said: it is for no other of the name."""
    acked_s: float = inf
    """When it was acknowledged; never where nobody knows what became of it."""
    is_refused: bool = False
    """Whether it was answered with an error after which it cannot count."""


class Found(NamedTuple):
    """An OffsetFetch was answered for a partition."""

    began_s: float
    at_s: float
    group: str
    partition: str
    offset: int
    """-1 where nothing is committed."""
    mark: str
    label: str = ""
    """The partition with its topic's id, where that was asked for: then no other topic of the name
    may be meant."""


@dataclass(slots=True, kw_only=True)
class Removal:
    """Somebody asked the coordinator to forget a group, or what it committed."""

    began_s: float
    group: str
    partition: str = ""
    """One; all of them where it is empty."""
    done_s: float = inf
    is_refused: bool = False


@dataclass(slots=True)
class GroupHistory:
    """Each list in the order of answers, commits and removals in that of their requests."""

    joined: list[Joined] = field(default_factory=list)
    synced: list[Synced] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    """Where a coordinator's live state was not what its log replays to."""
    unwell: list[tuple[str, str]] = field(default_factory=list)
    """(group, why) of groups that had not recovered long after everything else was well."""
    retention_s: float = inf
    """So long what a group without members committed is kept."""
