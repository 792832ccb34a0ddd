"""What clients did and saw, what brokers wrote, what is on their disks at the end.

All that a checker is given. A partition is named by a label that no other ever has: topic,
number and topic id, so that a topic created again under an old name is another one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

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
    """A reader got OFFSET_OUT_OF_RANGE."""
    END = "end"
    """A reader got the high watermark."""


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
    last_offset: int = -1
    size_bytes: int = 0
    newest_ms: int = -1
    """The largest timestamp in it, as it is stored."""


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


class Leadership(NamedTuple):
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
    before: Leadership
    after: Leadership


class Policy(NamedTuple):
    """What a topic asks of its logs, as far as it lets records go."""

    deletes: bool = True
    retention_ms: int = -1
    retention_bytes: int = -1
    compacts: bool = False
    delete_retention_ms: int = 0


POLL_S: Final = 0.5
"""How often the state of the brokers is read."""


@dataclass(slots=True, kw_only=True)
class InForce:
    """A while in which some living broker obeyed a policy for its replica of a partition."""

    partition: str
    policy: Policy
    from_s: float
    to_s: float
    newest_ms: int
    """The latest wall time that any broker's clock said meanwhile."""


class DeleteAsked(NamedTuple):
    """A user asked to delete a partition's records below an offset. DeleteRecords names topics."""

    at_s: float
    topic: str
    number: int
    offset: int


class LogStart(NamedTuple):
    """The log start offset of a running broker's replica at some moment."""

    at_s: float
    broker_id: int
    partition: str
    offset: int
    is_in_sync: bool
    """Whether the map lists it under its present session."""


class Vouched(NamedTuple):
    """What a member of an ISR that was just written had on its disk."""

    at_s: float
    partition: str
    member: str
    durable_end: int
    """Everything below it would survive a power cut at this moment."""
    committed_end: int
    """The largest high watermark that any broker had had by then."""


class SequenceRefused(NamedTuple):
    """A producer got OUT_OF_ORDER_SEQUENCE_NUMBER, though all before was acknowledged."""

    at_s: float
    asked_s: float
    """When the request was sent."""
    client: str
    partition: str
    value: str
    """The first of the batch that was refused."""
    broker_id: int
    """Who said so."""
    error: str


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
    in_force: list[InForce] = field(default_factory=list)
    asked_policies: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Topic -> keys and values that its PartitionMap ever had."""
    clock_lag_ms: int = 0
    """By how much a broker's clock was behind at most."""
    clock_lead_ms: int = 0
    """The same for ahead."""
    deletes_asked: list[DeleteAsked] = field(default_factory=list)
    sequences_refused: list[SequenceRefused] = field(default_factory=list)
    log_starts: list[LogStart] = field(default_factory=list)
    """A line whenever one of a replica is not what it was."""
    vouched: list[Vouched] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    """Value -> key of its record, where others may have the same."""
    placed: dict[tuple[str, str], int] = field(default_factory=dict)
    """(partition, value) -> where a broker wrote it last, of records with such keys."""
    tombstones: set[str] = field(default_factory=set)
    """Those of them that delete their key; each is known by what a header of it says."""
    epoch_ms: int = 0
    """The wall's time when events were at 0 s."""
    was_idempotent: bool = True
    groups: GroupHistory = field(default_factory=GroupHistory)

    def has_compacted(self, partition: str) -> bool:
        """Whether offsets of it may be missing."""
        return any(one.partition == partition and one.policy.compacts for one in self.in_force)

    def wall_ms(self, at_s: float) -> int:
        """What a correct clock shows at `at_s`, in milliseconds."""
        return self.epoch_ms + int(at_s * 1000)
