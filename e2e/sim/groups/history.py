"""The history of consumer groups: the answers that members got, and the commits they sent.

Every commit has a unique mark, which the coordinator stores as the offset's metadata. So the answer
to a request for a committed offset tells which commit it came from.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Joined(NamedTuple):
    """A JoinGroup request that was answered without an error; `began_s` is when it was sent."""

    began_s: float
    at_s: float
    group: str
    generation: int
    who: str
    """The member: its `group.instance.id` if it has one, else its member id."""
    member_id: str
    leader: str
    """The group's leader in this member's answer, named like `who`."""


class Synced(NamedTuple):
    """A SyncGroup request that was answered with an assignment."""

    at_s: float
    group: str
    generation: int
    who: str
    partitions: frozenset[str]
    """Assigned partitions as "topic-number", without topic ids, as in the assignment."""


class Beat(NamedTuple):
    """A heartbeat that was answered without an error by a coordinator that had loaded the group."""

    began_s: float
    at_s: float
    group: str
    generation: int
    who: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class Commit:
    """An OffsetCommit request for one partition."""

    began_s: float
    group: str
    partition: str
    """Topic and number."""
    offset: int
    mark: str
    who: str
    member_id: str = ""
    generation: int = -1
    """-1 for a consumer that is in no generation."""
    label: str = ""
    """The partition's label with its topic id, if the request had the id; else empty."""
    acked_s: float = inf
    """When it was acknowledged; infinite without an acknowledgement."""
    is_refused: bool = False
    """Whether the answer was an error after which it certainly is not stored."""


class Found(NamedTuple):
    """An answer to an OffsetFetch request, for one partition."""

    began_s: float
    at_s: float
    group: str
    partition: str
    offset: int
    """-1 if nothing is committed."""
    mark: str
    label: str = ""
    """The partition's label with its topic id, if the request had the id; else empty."""


@dataclass(slots=True, kw_only=True)
class Removal:
    """A request to delete a group, or its committed offset of one partition."""

    began_s: float
    group: str
    partition: str = ""
    """The partition; empty for the whole group."""
    done_s: float = inf
    is_refused: bool = False


@dataclass(slots=True)
class GroupHistory:
    """All answers in their order; `commits` and `removals` are in the order of their requests."""

    joined: list[Joined] = field(default_factory=list)
    synced: list[Synced] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    """Descriptions of differences between a coordinator's state in memory and in its log."""
    unwell: list[tuple[str, str]] = field(default_factory=list)
    """(group, reason) of groups that had not recovered long after the rest of the cluster."""
    retention_s: float = inf
    """How long committed offsets of a group without members are kept."""
