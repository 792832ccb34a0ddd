"""Finding records by time, as ListOffsets asks for them.

The time index names a place from which no earlier batch can match; from there batches are
judged by their headers, and only the one that must hold the answer is opened. A client may
have put anything into a batch: if its records cannot be read, the whole batch answers. What
its header says of time, a client has written, too: so it decides where to look, never what
is answered.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from chiplog_broker.records.batch import BatchHeader
from chiplog_broker.records.errors import RecordsError
from chiplog_broker.records.reader import read_records
from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.segment import Segment

ReadBatch: TypeAlias = Callable[[Segment, int, int, int], bytes]
"""The batch at a position, of so many bytes, with this base offset; checked."""


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class _Place(NamedTuple):
    """A batch of a segment."""

    position: int
    header: BatchHeader


def first_at_or_after(
    segment: Segment, timestamp_ms: int, from_offset: int, read_batch: ReadBatch
) -> TimestampOffset | None:
    """The first record not older than `timestamp_ms`, at or after `from_offset`."""
    if segment.max_timestamp_ms < timestamp_ms:
        return None
    nearby = max(segment.time_index.offset_before(timestamp_ms), from_offset)
    start = segment.position_of(nearby)
    for position, header in walk_batches(segment.log, start, segment.size_bytes):
        if header.newest_record_ms >= timestamp_ms:
            for found in _records(segment, _Place(position, header), from_offset, read_batch):
                if found.timestamp_ms >= timestamp_ms:
                    return found
    return None


def may_hold_newest(segments: Sequence[Segment], from_offset: int) -> list[Segment]:
    """Where the newest record at or after an offset can be; of equals it is in the first.

    The segment that holds the offset is one of them, since its newest may lie before that.
    """
    left = [one for one in segments if one.end_offset > from_offset and one.max_timestamp_ms >= 0]
    whole = [one for one in left if one.base_offset >= from_offset]
    begun = [one for one in left if one.base_offset < from_offset]
    return begun + ([max(whole, key=lambda one: one.max_timestamp_ms)] if whole else [])


def newest_in(segment: Segment, from_offset: int, read_batch: ReadBatch) -> TimestampOffset | None:
    """The first record with the largest timestamp, of those at or after an offset."""
    best: TimestampOffset | None = None
    for place in _newest_batches(segment, from_offset):
        for found in _records(segment, place, from_offset, read_batch):
            if best is None or found.timestamp_ms > best.timestamp_ms:
                best = found
    return best


def _newest_batches(segment: Segment, from_offset: int) -> list[_Place]:
    """The batch that holds the offset, of which only a part counts; and the newest after it."""
    if segment.base_offset >= from_offset:
        position = segment.position_of(segment.max_timestamp_offset)
        return [_Place(position, segment.header_at(position))]
    start = segment.position_of(from_offset)
    begun: list[_Place] = []
    newest: _Place | None = None
    for position, header in walk_batches(segment.log, start, segment.size_bytes):
        if header.base_offset < from_offset:
            begun.append(_Place(position, header))
        elif newest is None or header.newest_record_ms > newest.header.newest_record_ms:
            newest = _Place(position, header)
    return begun if newest is None else [*begun, newest]


def _records(
    segment: Segment, place: _Place, from_offset: int, read_batch: ReadBatch
) -> Iterator[TimestampOffset]:
    """Of one batch; or one for all of them, where they cannot be read."""
    header = place.header
    batch = read_batch(segment, place.position, header.size_bytes, header.base_offset)
    try:
        for record in read_records(batch, header):
            if record.offset >= from_offset:
                yield TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    except RecordsError:
        offset = max(header.base_offset, from_offset)
        yield TimestampOffset(header.max_timestamp_ms, offset, header.leader_epoch)
