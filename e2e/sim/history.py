"""The history of a run: what clients did and saw, what brokers wrote, what their disks hold.

Checkers see nothing else. A partition is named by a unique label of topic, number and topic id:
a topic that is created again under an old name has partitions with other labels.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from e2e.sim.groups.history import GroupHistory
from e2e.sim.move_history import MoveHistory
from e2e.sim.transactions.history import TransactionHistory
from e2e.sim.upkeep_history import UpkeepHistory
from e2e.sim.users.history import UserHistory


class Kind(StrEnum):
    """What a client did or got."""

    SENT = "sent"
    ACKED = "acked"
    """A record was acknowledged with acks=all. Acknowledgements of acks=1 are not noted: such
    records may be lost."""
    FAILED = "failed"
    """The record was refused with an error after which it is certainly not stored."""
    READ = "read"
    SOUGHT = "sought"
    """A reader moved to another offset by its own decision."""
    OUT_OF_RANGE = "out of range"
    """A reader got OFFSET_OUT_OF_RANGE."""
    END = "end"
    """A reader got the high watermark."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of one client. `value` is a record's unique value; `offset` is -1 if unknown."""

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
    """Name of the broker's process; another one after each restart."""
    partition: str
    leader_epoch: int
    base_offset: int
    digest: int
    """Checksum of the batch: equal on leader and followers, which write the same bytes."""
    last_offset: int = -1
    size_bytes: int = 0
    newest_ms: int = -1
    """The largest timestamp of the batch, from its header."""
    skipped: frozenset[int] = frozenset()
    """Offsets that this replica lacks because compaction had removed their records at the leader:
    from its log end offset before this batch to the batch's last offset. Only noted while records
    have keys."""


class Batch(NamedTuple):
    """A batch in a segment of a replica, read at the end of the run."""

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
    """Whether the PartitionMap lists this replica in the ISR."""
    log_start_offset: int = 0
    batches: tuple[Batch, ...] = ()
    is_damaged: bool = False
    """Whether its broker reports it as damaged: it serves no requests then."""

    @property
    def end_offset(self) -> int:
        """The log end offset; that of an empty log is its start."""
        return self.batches[-1].last_offset + 1 if self.batches else self.log_start_offset


class Leadership(NamedTuple):
    """A partition's entry in its PartitionMap; `leader` and `isr` are "broker@session" as text."""

    leader: str
    leader_epoch: int
    partition_epoch: int
    isr: tuple[str, ...]
    min_isr: int = 1
    is_asking: bool = False
    """Whether the operator waits for reports of the replicas before it elects a leader."""
    replicas: tuple[int, ...] = ()
    """Broker ids, in the order of the map; during a reassignment also those in `removing`."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leftovers: tuple[tuple[int, int], ...] = ()
    """(broker id, partition epoch of the order to delete the data; -1 without an order)."""

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that the partition will have after its reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The broker ids of the ISR, without sessions."""
        return tuple(map(broker_of, self.isr))

    @property
    def removable(self) -> frozenset[int]:
        """The brokers that may delete their data of the partition."""
        return frozenset(broker for broker, since in self.leftovers if since >= 0)

    @property
    def holders(self) -> frozenset[int]:
        """The brokers that may have data of the partition."""
        return frozenset(self.replicas).union(broker for broker, _ in self.leftovers)


def broker_of(member: str) -> int:
    """The broker id in "broker@session"."""
    return int(member.partition("@")[0])


class Decision(NamedTuple):
    """A partition before and after one write of its map."""

    at_s: float
    partition: str
    before: Leadership
    after: Leadership


class Policy(NamedTuple):
    """The settings of a topic by which brokers delete records: retention and compaction."""

    deletes: bool = True
    retention_ms: int = -1
    retention_bytes: int = -1
    compacts: bool = False
    delete_retention_ms: int = 0


POLL_S: Final = 0.5
"""How often the state of the brokers is read."""


@dataclass(slots=True, kw_only=True)
class InForce:
    """A time span in which a running broker applied a policy to its replica of a partition."""

    partition: str
    policy: Policy
    from_s: float
    to_s: float
    newest_ms: int
    """The latest wall-clock time that any broker's clock showed in this time span."""


class DeleteAsked(NamedTuple):
    """A user's DeleteRecords request for the records below `offset`.

    It holds the topic's name instead of a partition's label, as the request does.
    """

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
    """Whether the ISR in the map lists this broker with its present session."""


class Vouched(NamedTuple):
    """How much a member of an ISR had synced to its disk when the map with this ISR was written."""

    at_s: float
    partition: str
    member: str
    durable_end: int
    """Everything below it would survive a power cut at this moment."""
    committed_end: int
    """The largest high watermark of this partition that any broker had had by then."""


class SequenceRefused(NamedTuple):
    """A producer got OUT_OF_ORDER_SEQUENCE_NUMBER, though all its earlier batches were
    acknowledged."""

    at_s: float
    asked_s: float
    """When the request was sent."""
    client: str
    partition: str
    value: str
    """Value of the first record of the refused batch."""
    broker_id: int
    """The broker that refused it."""
    error: str


class Span(NamedTuple):
    """A time span in which the cluster was healthy and clients wrote to these partitions."""

    from_s: float
    to_s: float
    partitions: frozenset[str]


@dataclass(slots=True)
class History:
    """All that checkers get: events in their order, and what was read after the last write."""

    events: list[Event] = field(default_factory=list)
    final: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Partition -> (offset, value) of all its records; no entry if it could not be read."""
    starts: dict[str, int] = field(default_factory=dict)
    """Partition -> its log start offset at the end of the run; no entry stands for 0."""
    ends: dict[str, int] = field(default_factory=dict)
    """Partition -> its high watermark at the end of the run."""
    appends: list[Append] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    well: list[Span] = field(default_factory=list)
    gave_up_hanging: list[tuple[str, float]] = field(default_factory=list)
    """(client, when it closed a connection on which nothing arrived any more, or stopped waiting
    for one to open), in the order of time."""
    deleted: dict[str, float] = field(default_factory=dict)
    """Partition -> when a user asked to delete its topic."""
    made: dict[str, float] = field(default_factory=dict)
    """Partition -> when its topic was requested; no entry for topics from before the clients."""
    in_force: list[InForce] = field(default_factory=list)
    asked_policies: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Topic -> all (name, value) of settings that its PartitionMap ever had."""
    clock_lag_ms: int = 0
    """The largest lag of any broker's clock behind the true time."""
    clock_lead_ms: int = 0
    """The largest lead of any broker's clock before the true time."""
    deletes_asked: list[DeleteAsked] = field(default_factory=list)
    sequences_refused: list[SequenceRefused] = field(default_factory=list)
    log_starts: list[LogStart] = field(default_factory=list)
    """One entry for each change of a replica's log start offset."""
    vouched: list[Vouched] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    """Value -> key of its record, only for keys that several records may have."""
    placed: dict[tuple[str, str], int] = field(default_factory=dict)
    """(partition, value) -> the offset at which a broker last wrote a record in `keys`."""
    tombstones: set[str] = field(default_factory=set)
    """Values of the tombstones in `keys`; a tombstone carries its value in a header."""
    epoch_ms: int = 0
    """The wall-clock time at 0 s of the events' time."""
    was_idempotent: bool = True
    """Whether producers were idempotent: only then is their order kept."""
    groups: GroupHistory = field(default_factory=GroupHistory)
    moves: MoveHistory = field(default_factory=MoveHistory)
    upkeep: UpkeepHistory = field(default_factory=UpkeepHistory)
    users: UserHistory = field(default_factory=UserHistory)
    transactions: TransactionHistory = field(default_factory=TransactionHistory)
    with_markers: frozenset[str] = frozenset()
    """Partitions with transactions among those of the events: markers take offsets there."""

    def has_gaps(self, partition: str) -> bool:
        """Whether there may be offsets in this partition at which readers get no record."""
        return partition in self.with_markers or self.has_compacted(partition)

    def has_compacted(self, partition: str) -> bool:
        """Whether any broker ever compacted this partition, so that offsets may be missing."""
        return any(one.partition == partition and one.policy.compacts for one in self.in_force)

    def wall_ms(self, at_s: float) -> int:
        """What a correct clock shows at `at_s`, in milliseconds."""
        return self.epoch_ms + int(at_s * 1000)
