"""What a cluster says about a topic, and what a fetch brings: values only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from chiplog_spark.wire.access import Address
from chiplog_spark.wire.errors import DamagedBatch
from chiplog_spark.wire.verdicts import LEADER
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.errors import CorruptBatchError

EARLIEST: Final = -2
LATEST: Final = -1
CLEAN_POINT: Final = -1001
"""Not of Kafka: up to where a replica is compacted, -1 where it never was. Only of a replica."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Who leads and who holds one partition."""

    leader_id: int
    """-1 where nobody leads."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic as a broker describes it."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionFacts]
    brokers: Mapping[int, Address]

    def held_by(self, replica: int) -> list[int]:
        """The partitions of which there is a replica at that broker; all for `LEADER`."""
        return sorted(
            index
            for index, partition in self.partitions.items()
            if replica == LEADER or replica in partition.replicas
        )


@dataclass(frozen=True, slots=True)
class Place:
    """One replica of one partition of exactly this topic, whatever has its name later."""

    topic: str
    topic_id: UUID
    partition: int
    replica: int = LEADER


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches, as they are on the disk of the replica, and how far it may be read."""

    high_watermark: int
    log_start_offset: int
    records: memoryview


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One batch as it is on the wire; `data` belongs to the answer that it came in."""

    header: BatchHeader
    data: memoryview

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset


def batches_in(records: memoryview, at: Place, offset: int) -> Iterator[RawBatch]:
    """The whole batches of an answer; a part of one at its end is left out (Kafka sends such).

    Raises `DamagedBatch` where bytes are no batch: nobody can say where the next one begins.
    """
    position, end = 0, len(records)
    while end - position >= 17:
        length_bytes = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
        whole = position + 12 + length_bytes
        if length_bytes >= 0 and whole > end:
            return
        try:
            header = read_header(records, position)
        except CorruptBatchError as error:
            raise damaged(at, offset, f"no batch at or after offset {offset}: {error}") from None
        yield RawBatch(header, records[position:whole])
        offset, position = header.last_offset + 1, whole


def damaged(at: Place, offset: int, why: str) -> DamagedBatch:
    who = "the leader" if at.replica == LEADER else f"broker {at.replica}"
    return DamagedBatch(
        f"{who} holds damaged data at offset {offset} ({why})",
        "read another replica (option replica), and let this one be fetched again (spec.repair)",
        at.topic,
        at.partition,
    )
