"""The facts that are known before the read, and the checked fields of a batch."""

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from chiplog_wire.records.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)

UNKNOWN: Final = -1


class Control(IntEnum):
    """What a batch is for transactions."""

    RECORDS = 0
    """No control batch."""
    ABORT = 1
    COMMIT = 2
    EMPTY = 3
    """A control batch whose record compaction has removed."""
    UNREADABLE = 4
    """A control batch that is not an end marker."""


class Batch(NamedTuple):
    """One batch of one replica, as the data source `chiplog` reads it in mode `batches`."""

    replica: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    stored_crc: int
    computed_crc: int
    size_bytes: int
    record_count: int
    attributes: int
    max_timestamp_ms: int
    digest: bytes
    """A digest of everything that must be equal on every replica."""
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    control: int = Control.RECORDS
    skipped: int = UNKNOWN
    """Whether readers with `READ_COMMITTED` skip it as aborted, by its broker's list: 1 or 0. -1 if
    they do not get that far, or it was not checked."""

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def was_compacted(self) -> bool:
        """Whether the batch itself shows that the topic was compacted; False proves nothing."""
        span = self.last_offset - self.base_offset + 1
        return self.record_count < span or bool(self.attributes & DELETE_HORIZON_MASK)


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The leader's epochs, oldest first; empty if the leader did not report them."""

    starts: tuple[EpochStart, ...] = ()

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset; -1 if it is not known."""
        at = bisect_right(self.starts, offset, key=lambda start: start.start_offset)
        return self.starts[at - 1].epoch if at else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """One replica when the read was planned."""

    broker: int
    in_sync: bool
    """Whether it is in the ISR, so it has every record below the high watermark."""
    start_offset: int = UNKNOWN
    clean_offset: int | None = None
    """The offset up to which it is compacted: below it each key occurs at most once. -1 if it never
    was compacted, None if the broker does not report it."""
    stable_offset: int = UNKNOWN
    """Its last stable offset before the partition's end offset was requested; -1 if not known."""
    late_stable_offset: int = UNKNOWN
    """Its last stable offset when it had all records below the end offset; -1 if not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition when the read was planned. Its end offset is fixed then."""

    topic: str
    partition: int
    leader: int
    start_offset: int
    """The log start offset of the leader."""
    end_offset: int
    """The leader's high watermark: everything is checked up to here, exclusive."""
    epochs: EpochHistory = EpochHistory()
    replicas: tuple[ReplicaFacts, ...] = ()
    partitions: int = 1
    """The number of the topic's partitions."""
    compacts: bool = False
    """Whether it is or was compacted: replicas may have gaps, and different ones."""
    deletes: bool = True
    """Whether `cleanup.policy` contains delete."""
    retention_ms: int = UNKNOWN
    retention_bytes: int = UNKNOWN
    """-1 means no limit, as in Kafka."""
    timestamp_after_max_ms: int = 2**63 - 1
    topic_id: str = ""
    """In Kafka's text form."""
    planned_ms: int = 0
    """When the read was planned, in milliseconds since 1970: all checked records were appended
    before."""

    def replica(self, broker: int) -> ReplicaFacts | None:
        return next((replica for replica in self.replicas if replica.broker == broker), None)
