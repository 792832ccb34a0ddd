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
        )

    def record(self) -> Surviving:
        return Surviving(
            self.key, self.offset, self.replica, self.digest, bool(self.attributes & TOMBSTONE)
        )


TOMBSTONE: Final = 1
"""The value of `attributes` of a record that is a tombstone."""

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
    )


def row_of_record(topic: str, partition: int, record: Surviving) -> Row:
    return Row(
        topic,
        partition,
        record.key,
        Kind.RECORD,
        record.offset,
        record.replica,
        attributes=TOMBSTONE if record.is_tombstone else 0,
        digest=record.digest,
    )
