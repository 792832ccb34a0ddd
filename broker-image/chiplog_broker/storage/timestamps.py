"""Finding records by time, as ListOffsets asks for them.

The time index names a place from which no earlier batch can match; from there batches are
judged by their headers, and only the one that must hold the answer is opened. A client may
have put anything into a batch: if its records cannot be read, the whole batch answers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chiplog_broker.records.batch import BatchHeader
from chiplog_broker.records.errors import RecordsError
from chiplog_broker.records.reader import read_records
from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.segment import Segment


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    """The first record not older than `timestamp_ms`, at or after `from_offset`."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms or segment.end_offset <= from_offset:
            continue
        nearby = max(segment.time_index.offset_before(timestamp_ms), from_offset)
        start = segment.position_of(nearby)
        for position, header in walk_batches(segment.log, start, segment.size_bytes):
            if header.max_timestamp_ms >= timestamp_ms:
                found = _first_in_batch(segment, position, header, timestamp_ms, from_offset)
                if found is not None:
                    return found
    return None


def newest(segments: Sequence[Segment], from_offset: int) -> TimestampOffset | None:
    """The first record with the largest timestamp of all."""
    candidates = [segment for segment in segments if segment.max_timestamp_ms >= 0]
    if not candidates:
        return None
    segment = max(candidates, key=lambda candidate: candidate.max_timestamp_ms)
    position = segment.position_of(segment.max_timestamp_offset)
    header = segment.header_at(position)
    return _first_in_batch(segment, position, header, segment.max_timestamp_ms, from_offset)


def _first_in_batch(
    segment: Segment,
    position: int,
    header: BatchHeader,
    timestamp_ms: int,
    from_offset: int,
) -> TimestampOffset | None:
    batch = segment.log.read(position, header.size_bytes)
    try:
        for record in read_records(batch, header):
            if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    except RecordsError:
        offset = max(header.base_offset, from_offset)
        return TimestampOffset(header.max_timestamp_ms, offset, header.leader_epoch)
    return None
