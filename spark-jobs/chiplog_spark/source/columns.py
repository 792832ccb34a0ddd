"""Converts batches to columns: plain lists of limited size, without Spark and Arrow."""

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from chiplog_spark.source.decoding import decoded
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import Place, RawBatch, damaged
from chiplog_wire.records.batch import CRC_START, BatchHeader
from chiplog_wire.records.errors import RecordsError

CHUNK_ROWS: Final = 20_000
CHUNK_BYTES: Final = 8 * 2**20
"""A chunk is passed on when it has this size; it may be larger by one batch."""

# The range of timestamps that Spark can represent in microseconds.
_LAST_MS: Final = (2**63 - 1) // 1000
_FIRST_MS: Final = -(2**63) // 1000 + 1
_PLACE: Final = struct.Struct(">qi")
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

RECORD_COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    *("leaderEpoch", "batchBaseOffset", "batchCrc"),
)
BATCH_COLUMNS: Final = (
    *("topic", "partition", "replica", "baseOffset", "lastOffset", "leaderEpoch", "storedCrc"),
    *("computedCrc", "sizeBytes", "recordsCount", "attributes", "baseTimestamp", "maxTimestamp"),
    *("producerId", "producerEpoch", "baseSequence", "digest", "payload", "error"),
)


@dataclass(frozen=True, slots=True)
class Unread:
    """Offsets of a replica that could not be read, both ends included, and why."""

    first_offset: int
    last_offset: int
    why: WireError


@dataclass(slots=True)
class Chunk:
    """Rows of one partition: a list of values for each column."""

    columns: dict[str, list[Any]]
    size_bytes: int = 0
    rows: int = 0
    has_headers: bool = field(default=False)

    @property
    def is_full(self) -> bool:
        return self.rows >= CHUNK_ROWS or self.size_bytes >= CHUNK_BYTES


def new_chunk(names: tuple[str, ...]) -> Chunk:
    """A chunk without rows that has these columns."""
    return Chunk({name: [] for name in names})


def add_records(chunk: Chunk, batch: RawBatch, split: Split) -> None:
    """Add those records of a batch whose offsets are in the split. Raises `DamagedBatch`.

    Control batches are skipped: they mark the ends of transactions, and are no data for readers. So
    are aborted batches, which only readers with `READ_COMMITTED` get marked as such.
    """
    header = batch.header
    check_crc(batch, split.at)
    if header.is_control or batch.is_aborted:
        return
    try:
        found = decoded(batch.data, header)
    except RecordsError as error:
        raise damaged(split.at, batch.base_offset, str(error)) from error
    offsets = [header.base_offset + delta for delta in found.offset_deltas]
    if header.is_log_append_time:
        times = [microseconds(header.max_timestamp_ms)] * len(offsets)
    else:
        base_ms = header.base_timestamp_ms
        times = [microseconds(base_ms + delta) for delta in found.time_deltas_ms]
    # A batch may begin before the split, or end after it.
    own = slice(bisect_left(offsets, split.start), bisect_left(offsets, split.end))
    keys, values = found.keys[own], found.values[own]
    count = len(keys)
    time_type = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
    columns = chunk.columns
    columns["key"] += keys
    columns["value"] += values
    columns["topic"] += [split.at.topic] * count
    columns["partition"] += [split.at.partition] * count
    columns["offset"] += offsets[own]
    columns["timestamp"] += times[own]
    columns["timestampType"] += [time_type] * count
    columns["headers"] += found.headers[own]
    columns["leaderEpoch"] += [header.leader_epoch] * count
    columns["batchBaseOffset"] += [header.base_offset] * count
    columns["batchCrc"] += [header.crc] * count
    chunk.has_headers |= found.has_headers
    chunk.rows += count
    chunk.size_bytes += sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
    if found.has_headers:
        headers = (pair for of_record in found.headers[own] for pair in of_record or ())
        chunk.size_bytes += sum(len(key) + len(value or b"") for key, value in headers)


def add_batch(chunk: Chunk, batch: RawBatch, at: Place, *, with_payload: bool) -> None:
    """Add one batch as a row. A wrong checksum is no error here: the row has both checksums."""
    header, data = batch.header, batch.data
    payload = bytes(data) if with_payload else None
    row = (
        *(at.topic, at.partition, at.replica, header.base_offset, header.last_offset),
        *(header.leader_epoch, header.crc, crc32c(data[CRC_START:]), len(data)),
        *(header.record_count, header.attributes, header.base_timestamp_ms),
        *(header.max_timestamp_ms, header.producer_id, header.producer_epoch),
        *(header.base_sequence, digest(header, data), payload, None),
    )
    _add_row(chunk, row)
    # A row without its payload needs about 200 bytes.
    chunk.size_bytes += 200 + (len(data) if with_payload else 0)


def add_unread(chunk: Chunk, unread: Unread, at: Place) -> None:
    """Add a row for offsets that could not be read: all other columns are null, except `error`."""
    first_columns = (at.topic, at.partition, at.replica, unread.first_offset, unread.last_offset)
    nulls = (None,) * (len(BATCH_COLUMNS) - len(first_columns) - 1)
    _add_row(chunk, (*first_columns, *nulls, str(unread.why)))


def _add_row(chunk: Chunk, row: tuple[Any, ...]) -> None:
    """Add one value to each of `BATCH_COLUMNS`."""
    for name, value in zip(BATCH_COLUMNS, row, strict=True):
        chunk.columns[name].append(value)
    chunk.rows += 1


def digest(header: BatchHeader, data: memoryview) -> bytes:
    """SHA-256 of the bytes that are equal on all replicas: base offset, epoch, and everything that
    the checksum covers."""
    sha256 = hashlib.sha256(_PLACE.pack(header.base_offset, header.leader_epoch))
    sha256.update(data[CRC_START:])
    return sha256.digest()


def check_crc(batch: RawBatch, at: Place) -> None:
    """Raises `DamagedBatch` if the bytes of a batch do not have the checksum in its header."""
    computed = crc32c(batch.data[CRC_START:])
    if computed != batch.header.crc:
        why = f"its CRC is {computed:#010x}, the header says {batch.header.crc:#010x}"
        raise damaged(at, batch.base_offset, why)


def microseconds(timestamp_ms: int) -> int:
    """A timestamp in microseconds, as Spark stores it; one out of its range becomes the nearest."""
    return min(max(timestamp_ms, _FIRST_MS), _LAST_MS) * 1000


def chunks_of(
    found: Iterator[RawBatch | Unread], split: Split, *, batches: bool, with_payload: bool = False
) -> Iterator[Chunk]:
    """The rows of a split in chunks of limited size. Raises `WireError`.

    With `batches` each batch is a row, and unread offsets are a row with an error. Otherwise each
    record is a row, and unread offsets raise their error.
    """
    names = BATCH_COLUMNS if batches else RECORD_COLUMNS
    chunk = new_chunk(names)
    for item in found:
        if isinstance(item, Unread):
            if not batches:
                raise item.why
            add_unread(chunk, item, split.at)
        elif not batches:
            add_records(chunk, item, split)
        elif split.owns(item.base_offset):
            add_batch(chunk, item, split.at, with_payload=with_payload)
        if chunk.is_full:
            yield chunk
            chunk = new_chunk(names)
    if chunk.rows:
        yield chunk
