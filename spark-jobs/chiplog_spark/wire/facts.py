"""The metadata of a topic, and the result of a fetch. Values only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

from chiplog_spark.wire.access import Address
from chiplog_spark.wire.errors import DamagedBatch
from chiplog_spark.wire.verdicts import LEADER
from chiplog_wire.protocol.messages import AbortedTransaction
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.errors import CorruptBatchError

EARLIEST: Final = -2
LATEST: Final = -1
CLEAN_POINT: Final = -1001
"""Chiplog's own: requests the offset up to which a replica is compacted; -1 if it never was."""


class Isolation(IntEnum):
    """Kafka's isolation levels: which records of transactions a reader gets."""

    READ_UNCOMMITTED = 0
    """All records below the high watermark, whatever becomes of their transactions."""
    READ_COMMITTED = 1
    """Only records below the last stable offset: that of the oldest open transaction. Records of
    aborted transactions are among them, and listed, so that the reader skips them."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The leader and the replicas of one partition."""

    leader_id: int
    """-1 if there is no leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic, as a broker describes it."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionFacts]
    brokers: Mapping[int, Address]

    def held_by(self, replica: int) -> list[int]:
        """The partitions that have a replica on this broker; all for `LEADER`."""
        return sorted(
            index
            for index, partition in self.partitions.items()
            if replica == LEADER or replica in partition.replicas
        )


@dataclass(frozen=True, slots=True)
class Place:
    """One replica of one partition of the topic with this id, even if the name is used again
    later."""

    topic: str
    topic_id: UUID
    partition: int
    replica: int = LEADER


@dataclass(frozen=True, slots=True)
class Fetched:
    """Complete batches, as the replica stores them, and the offsets that may be read."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview
    aborted: Sequence[AbortedTransaction] | None = None
    """The aborted transactions of which records may be in `records`; None for
    `READ_UNCOMMITTED`."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One batch as it was received; `data` is a view of the answer."""

    header: BatchHeader
    data: memoryview
    is_aborted: bool | None = None
    """Whether its broker lists it as part of an aborted transaction; None for
    `READ_UNCOMMITTED`."""

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset


def batches_in(records: memoryview, at: Place, offset: int) -> Iterator[RawBatch]:
    """The complete batches in the records of a fetch from `offset`.

    An incomplete batch at the end, which Kafka may send, is left out.

    Raises `DamagedBatch` if bytes are no batch: the start of the next one is unknown then.
    """
    position, end = 0, len(records)
    # The first 17 bytes contain base offset, length, leader epoch and magic; the length counts the
    # bytes after the first 12.
    while end - position >= 17:
        length_bytes = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
        next_position = position + 12 + length_bytes
        if length_bytes >= 0 and next_position > end:
            return
        try:
            header = read_header(records, position)
        except CorruptBatchError as error:
            raise damaged(at, offset, f"no batch at or after offset {offset}: {error}") from None
        yield RawBatch(header, records[position:next_position])
        offset, position = header.last_offset + 1, next_position


def damaged(at: Place, offset: int, why: str) -> DamagedBatch:
    """The error for bytes at an offset that are not a valid batch."""
    who = "the leader" if at.replica == LEADER else f"broker {at.replica}"
    return DamagedBatch(
        f"{who} holds damaged data at offset {offset} ({why})",
        "read another replica (option replica), and let this one be fetched again (spec.repair)",
        at.topic,
        at.partition,
    )
