"""Producer snapshots: `<offset>.snapshot`, the producers' state up to that offset.

    version 2 | CRC32C of all that follows 4 | count 4 | entries of 46 bytes

As in Kafka an entry keeps the last batch only, so right after a restart one batch per
producer can be recognised as a duplicate, more once the log was read behind the snapshot.
"""

import struct
from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from chiplog_broker.records.batch import MAX_SEQUENCE, NO_SEQUENCE
from chiplog_broker.storage.producers import NO_TRANSACTION, ProducerEntry, SentBatch

VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator
epoch, first offset of the open transaction."""

_NO_OFFSET = -1


class SnapshotError(Exception):
    """The file is not a whole snapshot."""


def encode_snapshot(entries: Iterable[tuple[int, ProducerEntry]]) -> bytes:
    packed = [_encode_entry(producer_id, entry) for producer_id, entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[tuple[int, ProducerEntry]]:
    """The entries; `SnapshotError` if a single bit is wrong."""
    try:
        version, crc = _PREFIX.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    except struct.error:
        raise SnapshotError(f"{len(data)} bytes are too few for a snapshot") from None
    if version != VERSION:
        raise SnapshotError(f"version {version} is not known")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise SnapshotError("the CRC does not fit")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{count} entries do not fill {len(body)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        producer_id,
        entry.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else _NO_OFFSET,
        last.last_offset - last.first_offset if last else 0,
        entry.log_time_ms,
        entry.coordinator_epoch,
        entry.transaction_start,
    )


def _decode_entry(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator, transaction = fields
    entry = ProducerEntry(epoch)
    entry.log_time_ms = timestamp_ms
    entry.coordinator_epoch = coordinator
    entry.transaction_start = max(transaction, NO_TRANSACTION)
    if offset >= 0:
        first_sequence = (sequence - delta) & MAX_SEQUENCE
        entry.batches.append(
            SentBatch(first_sequence, sequence, offset - delta, offset, timestamp_ms)
        )
    return producer_id, entry
