"""The rows that are exchanged between the two stages of a verification: one table of plain tuples.

There are three kinds of rows. `READ`: one for each split and replica, its `text` is a
`reports.Read`. `BATCH`: a batch without its records. `RECORD`: a record of a compacted topic
without its value. Rows are sorted by topic, partition, key, kind, offset and replica. So the reads
of a partition come before its batches (neither has a key), and the records of a key are adjacent.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from chiplog_spark.verify.facts import Batch
from chiplog_spark.verify.surviving import Surviving


class Kind(IntEnum):
    """The kinds of rows."""

    READ = 0
    BATCH = 1
    RECORD = 2


class Row(NamedTuple):
    """One row; fields that its kind does not use are 0 or empty."""

    topic: str
    partition: int
    key: bytes
    kind: int
    offset: int
    replica: int
    last_offset: int = 0
    leader_epoch: int = 0
    stored_crc: int = 0
    computed_crc: int = 0
    size_bytes: int = 0
    record_count: int = 0
    attributes: int = 0
    max_timestamp_ms: int = 0
    digest: bytes = b""
    producer_id: int = 0
    producer_epoch: int = 0
    control: int = 0
    skipped: int = 0
    text: str = ""

    def batch(self) -> Batch:
        return Batch(
            self.replica,
            self.offset,
            self.last_offset,
            self.leader_epoch,
            self.stored_crc,
            self.computed_crc,
            self.size_bytes,
            self.record_count,
            self.attributes,
            self.max_timestamp_ms,
            self.digest,
            self.producer_id,
            self.producer_epoch,
            self.control,
            self.skipped,
        )

    def record(self) -> Surviving:
        return Surviving(
            self.key,
            self.offset,
            self.replica,
            self.digest,
            is_tombstone=bool(self.attributes & TOMBSTONE),
            is_transactional=bool(self.attributes & TRANSACTIONAL),
        )


TOMBSTONE: Final = 1
"""The bit in `attributes` of a record that is a tombstone."""
TRANSACTIONAL: Final = 2
"""The bit in `attributes` of a record that was written in a transaction."""

ORDER: Final = ("topic", "partition", "key", "kind", "offset", "replica")
PLACE: Final = ("topic", "partition", "key")
"""Rows that are equal in these columns are compared by one task."""


def row_of_batch(topic: str, partition: int, batch: Batch) -> Row:
    return Row(
        topic,
        partition,
        b"",
        Kind.BATCH,
        batch.base_offset,
        batch.replica,
        batch.last_offset,
        batch.leader_epoch,
        batch.stored_crc,
        batch.computed_crc,
        batch.size_bytes,
        batch.record_count,
        batch.attributes,
        batch.max_timestamp_ms,
        batch.digest,
        batch.producer_id,
        batch.producer_epoch,
        batch.control,
        batch.skipped,
    )


def row_of_record(topic: str, partition: int, record: Surviving) -> Row:
    return Row(
        topic,
        partition,
        record.key,
        Kind.RECORD,
        record.offset,
        record.replica,
        attributes=TOMBSTONE * record.is_tombstone | TRANSACTIONAL * record.is_transactional,
        digest=record.digest,
    )
