"""End markers: control batches that end a transaction in one partition (KIP-98).

A transaction coordinator has one written to each partition of the transaction. Its only record has
a key of version and type (0 aborts, 1 commits), and a value of version and coordinator epoch.
Consumers do not deliver it, and use the abort markers to find the records to skip.
"""

import struct
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import BatchHeader
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

MARKER_KEY = Struct(">hh")
"""The key of a marker: its version, and `ABORT` or `COMMIT`."""
_VALUE = Struct(">hi")
_VERSION = 0
ABORT, COMMIT = 0, 1


class EndMarker(NamedTuple):
    """The content of an end marker."""

    is_commit: bool
    """False: the transaction is aborted."""
    coordinator_epoch: int
    """The leader epoch of the coordinator that decided it, in `__transaction_state`."""


def build_marker(marker: EndMarker, producer: Producer, now_ms: int) -> bytearray:
    """The control batch with this marker, at base offset 0. `producer` has no sequence number."""
    record = NewRecord(
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        key=MARKER_KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT),
        timestamp_ms=now_ms,
    )
    return build_batch([record], BatchOptions(producer=producer, transactional=True, control=True))


def read_marker(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None if compaction has removed it, or if the batch is of
    another type. The caller checks the checksum."""
    try:
        for record in read_records(batch, header):
            _, kind = MARKER_KEY.unpack_from(record.key or b"")
            _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
            if kind in (ABORT, COMMIT):
                return EndMarker(kind == COMMIT, coordinator_epoch)
            break
    except (RecordsError, struct.error):
        pass
    return None


def read_markers(batches: memoryview, headers: Iterable[BatchHeader]) -> dict[int, EndMarker]:
    """The markers among consecutive batches, by their offsets; `headers` are those of the
    batches."""
    found, position = {}, 0
    for header in headers:
        end = position + header.size_bytes
        if header.is_control:
            marker = read_marker(batches[position:end], header)
            if marker is not None:
                found[header.base_offset] = marker
        position = end
    return found
