"""What clients did and saw, what brokers wrote, what is on their disks at the end.

All that a checker is given. A partition is named by a label that no other ever has: topic,
number and topic id, so that a topic made anew under an old name is another one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from e2e.sim.groups.history import GroupHistory


class Kind(StrEnum):
    """What happened."""

    SENT = "sent"
    ACKED = "acked"
    """acks=all was answered. What acks=1 is answered is never noted: it may be lost."""
    FAILED = "failed"
    """Refused for good: it was never stored."""
    READ = "read"
    SOUGHT = "sought"
    """A reader went to an offset of its own will."""
    OUT_OF_RANGE = "out of range"
    """A reader was told that its position is not in the log."""
    END = "end"
    """A reader was told where the log ends for readers."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line. `value` is unique; `offset` is -1 where it is not known."""

    at_s: float
    kind: Kind
    client: str
    partition: str
    value: str = ""
    offset: int = -1


class Append(NamedTuple):
    """A batch that a broker wrote to its log, as leader or as follower."""

    at_s: float
    process: str
    """One life of a broker's process."""
    partition: str
    leader_epoch: int
    base_offset: int
    digest: int
    """Of the batch: followers write the same bytes."""


class Batch(NamedTuple):
    """A batch in a file."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    data: bytes
    values: tuple[tuple[int, str], ...] = ()
    """(offset, value) of its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one broker's disk holds of a partition at the end."""

    broker_id: int
    partition: str
    is_in_sync: bool
    """Whether the metadata lists it so."""
    log_start_offset: int = 0
    batches: tuple[Batch, ...] = ()
    is_damaged: bool = False
    """Whether its broker says so: then it serves nothing, whatever is in its files."""
    rotten: frozenset[int] = frozenset()
    """Base offsets of batches that the simulator damaged, and that nobody has read since."""

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.log_start_offset


class Reign(NamedTuple):
    """A partition as a PartitionMap has it; replicas are (broker, session) as text."""

    leader: str
    leader_epoch: int
    partition_epoch: int
    isr: tuple[str, ...]
    min_isr: int = 1
    is_asking: bool = False
    """Whether nothing is decided before the replicas have reported."""


class Decision(NamedTuple):
    """A partition before and after one write of its map."""

    at_s: float
    partition: str
    before: Reign
    after: Reign


class Span(NamedTuple):
    """A while in which all was well, and somebody wrote to all of these partitions."""

    from_s: float
    to_s: float
    partitions: frozenset[str]


@dataclass(slots=True)
class History:
    """Events in order, and what was read at the very end, when nobody wrote any more."""

    events: list[Event] = field(default_factory=list)
    final: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Partition -> (offset, value) of everything in it; missing where it could not be read."""
    starts: dict[str, int] = field(default_factory=dict)
    """Partition -> the first offset that retention left; 0 where it is missing."""
    ends: dict[str, int] = field(default_factory=dict)
    """Partition -> the end for readers, at the very end."""
    appends: list[Append] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    well: list[Span] = field(default_factory=list)
    deleted: dict[str, float] = field(default_factory=dict)
    """Partition -> when a user asked to delete its topic."""
    made: dict[str, float] = field(default_factory=dict)
    """Partition -> when the request for its topic was sent; missing where it was always there."""
    expiring: set[str] = field(default_factory=set)
    """Topics of which users let records go, by age or by asking for it."""
    was_idempotent: bool = True
    groups: GroupHistory = field(default_factory=GroupHistory)
