"""Producer snapshots: `<offset>.snapshot`, the state of producers up to that offset.

    version: 2 bytes | CRC32C of all that follows: 4 bytes | count: 4 bytes | entries of 46 bytes

The format is Kafka's, in which a producer has one entry, for its last batch. Here it has several:
first one without a batch, whose timestamp is the time of its last write, then one for each
remembered batch, oldest first. Kafka uses the last entry of each producer, which is the one that it
would have written itself. With all batches, retries of a producer are recognized right after a
restart, too.

A transaction whose end marker the high watermark may not have passed has an entry of its own,
before all others of its producer: the last offset is -2 minus the marker's offset, and the first
offset of the transaction is in place of the timestamp. Kafka does not store these transactions.

The time of the last write is by the wall clock when the snapshot was made. Only differences are
used, so the clock need not be right.
"""

import struct
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from chiplog_broker.storage.producers import (
    NO_TRANSACTION,
    ProducerEntry,
    ProducerStates,
    SentBatch,
)
from chiplog_broker.storage.transactions import UnsafeEnd
from chiplog_wire.records.batch import MAX_SEQUENCE, NO_SEQUENCE

VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator
epoch, first offset of the open transaction."""

_NO_OFFSET = -1
_UNSAFE_END = -2
"""Minus the offset of an end marker: the last offset in the entry of a transaction."""


class Snapshot(NamedTuple):
    """The content of a snapshot file."""

    producers: list[tuple[int, ProducerEntry]]
    """By id; their `written_ms` are relative to that of the most recent writer."""
    unsafe: list[UnsafeEnd]


class SnapshotError(Exception):
    """The file is not a valid snapshot."""


def encode_snapshot(states: ProducerStates, now_ms: int) -> bytes:
    """The content of a snapshot file; `now_ms` is the present wall clock time."""
    unsafe: dict[int, list[UnsafeEnd]] = {}
    for end in states.transactions.unsafe:
        unsafe.setdefault(end.producer_id, []).append(end)
    packed = [
        entry
        for producer_id, producer in states
        for entry in _encode(
            producer_id,
            producer,
            unsafe.get(producer_id, ()),
            now_ms - (states.time_ms - producer.written_ms),
        )
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> Snapshot:
    """The content of a snapshot file. Raises `SnapshotError` if any bit is wrong."""
    try:
        version, crc = _PREFIX.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    except struct.error:
        raise SnapshotError(f"{len(data)} bytes are too few for a snapshot") from None
    if version != VERSION:
        raise SnapshotError(f"version {version} is not known")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise SnapshotError("the CRC does not match")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{count} entries do not fill {len(body)} bytes")
    return _decode(_ENTRY.iter_unpack(body[_COUNT.size :]))


def _encode(
    producer_id: int, entry: ProducerEntry, unsafe: Iterable[UnsafeEnd], written_ms: int
) -> Iterator[bytes]:
    """The packed entries of one producer: its transactions with unsafe ends, the time of its last
    write, then its batches."""
    # (last sequence, last offset, offset delta, timestamp)
    rows = [(NO_SEQUENCE, _UNSAFE_END - end.last_offset, 0, end.first_offset) for end in unsafe]
    rows.append((NO_SEQUENCE, _NO_OFFSET, 0, written_ms))
    for batch in entry.batches:
        delta = batch.last_offset - batch.first_offset
        rows.append((batch.last_sequence, batch.last_offset, delta, batch.timestamp_ms))
    for row in rows:
        yield _ENTRY.pack(
            producer_id, entry.epoch, *row, entry.coordinator_epoch, entry.transaction_start
        )


def _decode(rows: Iterable[tuple[int, ...]]) -> Snapshot:
    """The content of a snapshot; several rows belong to one producer."""
    entries: dict[int, ProducerEntry] = {}
    written_ms: dict[int, int] = {}
    unsafe = []
    for producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator, begun in rows:
        if offset <= _UNSAFE_END:
            unsafe.append(UnsafeEnd(timestamp_ms, _UNSAFE_END - offset, producer_id))
            continue
        entry = entries.setdefault(producer_id, ProducerEntry(epoch))
        entry.coordinator_epoch = coordinator
        entry.transaction_start = max(begun, NO_TRANSACTION)
        if offset < 0:  # the entry without a batch
            written_ms[producer_id] = timestamp_ms
            continue
        first_sequence = (sequence - delta) & MAX_SEQUENCE
        entry.add(SentBatch(first_sequence, sequence, offset - delta, offset, timestamp_ms))
    newest_ms = max(written_ms.values(), default=0)
    for producer_id, entry in entries.items():
        # Without that entry (in Kafka's files) the producer counts as the most recent writer, so
        # that it is not forgotten early.
        entry.written_ms = written_ms.get(producer_id, newest_ms) - newest_ms
    return Snapshot(list(entries.items()), unsafe)
