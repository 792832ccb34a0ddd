"""Finds records by time, for ListOffsets.

The time index gives a position before which no batch can match. From there the headers of batches
are compared, and only the batch that must contain the answer is read. If its records cannot be
read, because a client sent invalid bytes, the answer is that of its header.

A client also writes the timestamps in the header. So they determine only which batches are read,
never the answer. Apache Kafka checks every record that it receives, and corrects the header. Wrong
headers could make a search read every batch. So a search reads a limited number of records; after
that the first record that was not read is the answer: its offset may be too early, but never too
late.

Everything is done in `steps`, between which the log may change: then `MovedError` means that the
search must start again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.segment import Segment
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import HEADER_BYTES, BatchHeader, Codec
from chiplog_wire.records.compression import decompress
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.scan import scan_payload
from chiplog_wire.steps import Steps

HEADERS_A_STEP: Final = 200
MAX_RECORDS: Final = 200_000
"""Records read in one search. A batch of 1 MB has fewer, unless it is compressed and they are
tiny."""
RECORDS_A_BATCH: Final = 100
"""Opening a batch costs as much as reading this many records."""
MAX_INFLATED_BYTES: Final = 8 * 2**20
"""The largest decompressed batch that is read; larger ones count as unreadable."""


ReadBatch: TypeAlias = Callable[[Segment, int, int, int], bytes]
"""Reads and checks the batch of this size and base offset at a position."""


class MovedError(Exception):
    """The log changed since the search began."""


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class SearchReader:
    """Reads batches for one search, within its limit."""

    __slots__ = ("_read_batch", "check", "records_left")

    def __init__(self, read_batch: ReadBatch, check: Callable[[Segment], None]) -> None:
        """`check` raises `MovedError` if a segment changed since the search began."""
        self._read_batch = read_batch
        self.check = check
        self.records_left = MAX_RECORDS

    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.records_left <= 0

    def read(self, segment: Segment, place: "_Place") -> bytes:
        """A whole batch, checked."""
        self.records_left -= RECORDS_A_BATCH
        header = place.header
        return self._read_batch(segment, place.position, header.size_bytes, header.base_offset)


class _Place(NamedTuple):
    """A batch of a segment."""

    position: int
    header: BatchHeader


def first_at_or_after(
    segment: Segment, timestamp_ms: int, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first record at or after `from_offset` with at least `timestamp_ms`."""
    reader.check(segment)
    if segment.max_timestamp_ms < timestamp_ms:
        return None
    nearby = max(segment.time_index.offset_before(timestamp_ms), from_offset)
    start = segment.position_of(nearby)
    for count, (position, header) in enumerate(
        walk_batches(segment.log, start, segment.size_bytes), start=1
    ):
        if header.newest_record_ms >= timestamp_ms:
            place = _Place(position, header)
            found = yield from _first_in(segment, place, timestamp_ms, from_offset, reader)
            if found is not None:
                return found
        if not count % HEADERS_A_STEP:
            yield None
            reader.check(segment)
    return None


def may_hold_newest(segments: Sequence[Segment], from_offset: int) -> list[Segment]:
    """The segments that can contain the newest record at or after an offset; of equal ones the
    first.

    The segment that contains the offset is one of them, as its newest record may be before the
    offset.
    """
    left = [
        segment
        for segment in segments
        if segment.end_offset > from_offset and segment.max_timestamp_ms >= 0
    ]
    whole = [segment for segment in left if segment.base_offset >= from_offset]
    begun = [segment for segment in left if segment.base_offset < from_offset]
    return begun + ([max(whole, key=lambda segment: segment.max_timestamp_ms)] if whole else [])


def newest_in(
    segment: Segment, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first record with the largest timestamp at or after an offset."""
    reader.check(segment)
    best: TimestampOffset | None = None
    places = yield from _newest_batches(segment, from_offset, reader)
    for place in places:
        found = yield from _newest_of(segment, place, from_offset, reader)
        if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
            best = found
    return best


def _newest_batches(
    segment: Segment, from_offset: int, reader: SearchReader
) -> Steps[list[_Place]]:
    """The batch that contains the offset, of which only a part counts, and the newest one after
    it."""
    if segment.base_offset >= from_offset:
        position = segment.position_of(segment.max_timestamp_offset)
        return [_Place(position, segment.header_at(position))]
    start = segment.position_of(from_offset)
    begun: list[_Place] = []
    newest: _Place | None = None
    for count, (position, header) in enumerate(
        walk_batches(segment.log, start, segment.size_bytes), start=1
    ):
        if header.base_offset < from_offset:
            begun.append(_Place(position, header))
        elif newest is None or header.newest_record_ms > newest.header.newest_record_ms:
            newest = _Place(position, header)
        if not count % HEADERS_A_STEP:
            yield None
            reader.check(segment)
    return begun if newest is None else [*begun, newest]


def _first_in(
    segment: Segment, place: _Place, timestamp_ms: int, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first record of a batch that is new enough, or that is beyond the limit of the search."""
    header = place.header
    if reader.is_over():
        return _from_header(header, from_offset)
    batch = reader.read(segment, place)
    try:
        payload = yield from _payload(batch, header)
        reader.check(segment)
        for records in _records(payload, header):
            for offset, found_ms in records:
                if found_ms >= timestamp_ms and offset >= from_offset:
                    return TimestampOffset(found_ms, offset, header.leader_epoch)
            reader.records_left -= len(records)
            if reader.is_over():
                return _from_header(header, max(records[-1][0], from_offset))
            yield None
            reader.check(segment)
    except RecordsError:
        return _from_header(header, from_offset)
    return None


def _newest_of(
    segment: Segment, place: _Place, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first of the newest records of a batch, at or after an offset."""
    header = place.header
    best: TimestampOffset | None = None
    batch = reader.read(segment, place)
    try:
        payload = yield from _payload(batch, header)
        reader.check(segment)
        for records in _records(payload, header):
            for offset, found_ms in records:
                if offset >= from_offset and (best is None or found_ms > best.timestamp_ms):
                    best = TimestampOffset(found_ms, offset, header.leader_epoch)
            reader.records_left -= len(records)
            if reader.is_over():
                return _from_header(header, from_offset)
            yield None
            reader.check(segment)
    except RecordsError:
        return _from_header(header, from_offset)
    return best


def _from_header(header: BatchHeader, from_offset: int) -> TimestampOffset:
    """The answer from the batch header alone."""
    offset = max(header.base_offset, from_offset)
    return TimestampOffset(header.max_timestamp_ms, offset, header.leader_epoch)


def _payload(batch: bytes, header: BatchHeader) -> Steps[Buffer]:
    """The decompressed records of a batch. Raises `RecordsError`."""
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.codec is Codec.NONE:
        return bytes(packed)
    payload: Buffer = yield partial(decompress, header.codec, packed, MAX_INFLATED_BYTES)
    return payload


def _records(payload: Buffer, header: BatchHeader) -> Iterator[list[tuple[int, int]]]:
    """Offsets and timestamps of a batch's records, in portions.

    A record whose offset is beyond the end of its batch counts as its last record.
    """
    base_offset, last_delta = header.base_offset, header.last_offset_delta
    base_ms = header.base_timestamp_ms
    is_stamped, stamp_ms = header.is_log_append_time, header.max_timestamp_ms
    for records in scan_payload(payload, header.record_count):
        yield [
            (
                base_offset + min(record[0], last_delta),
                stamp_ms if is_stamped else base_ms + record[3],
            )
            for record in records
        ]
