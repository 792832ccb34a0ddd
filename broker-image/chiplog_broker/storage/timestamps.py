"""Finds records by time, for ListOffsets.

The time index gives a position before which no batch can match. From there the headers of batches
are compared, and only a batch that may contain the answer is read. If its records cannot be read,
because a client sent invalid bytes, the answer is taken from its header.

The timestamps in a batch header also come from the client, and may be wrong (Apache Kafka checks
every record that it receives, and corrects the header). So they determine only which batches are
read, not the answer. Because of wrong headers a search could read every batch, so it reads a
limited number of records. Then the answer is the first record that was not read: its offset may be
too early, but never too late.

The search runs in `steps`, between which the log may change. `MovedError` means that it did, and
that the search must start again.
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

HEADERS_PER_STEP: Final = 200
MAX_RECORDS: Final = 200_000
"""The number of records that one search reads at most. A batch of 1 MB has fewer, unless it is
compressed and its records are tiny."""
RECORDS_A_BATCH: Final = 100
"""Each batch counts as this many more records: reading and checking it costs about as much."""
MAX_INFLATED_BYTES: Final = 8 * 2**20
"""The largest decompressed batch that is read; larger ones count as unreadable."""


ReadBatch: TypeAlias = Callable[[Segment, int, int, int], bytes]
"""A function (segment, position, size in bytes, base offset) that reads and checks a batch."""


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
        """The number of records that may still be read; may become negative."""

    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.records_left <= 0

    def read(self, segment: Segment, place: "_Place") -> bytes:
        """Read and check a complete batch, and count it towards the limit."""
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
    """The first record of a segment, at or after `from_offset`, with at least `timestamp_ms`.

    None if there is none.
    """
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
        if not count % HEADERS_PER_STEP:
            yield None
            reader.check(segment)
    return None


def may_hold_newest(segments: Sequence[Segment], from_offset: int) -> list[Segment]:
    """The one or two segments that can contain the newest record at or after `from_offset`.

    It is the segment with the largest timestamp (the first of several), and in any case the segment
    that contains the offset: its largest timestamp may be that of a record before the offset, so
    that it cannot be compared.
    """
    remaining = [
        segment
        for segment in segments
        if segment.end_offset > from_offset and segment.max_timestamp_ms >= 0
    ]
    complete = [segment for segment in remaining if segment.base_offset >= from_offset]
    partial_ones = [segment for segment in remaining if segment.base_offset < from_offset]
    newest = [max(complete, key=lambda segment: segment.max_timestamp_ms)] if complete else []
    return partial_ones + newest


def newest_in(
    segment: Segment, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first record with the largest timestamp, at or after `from_offset`, in a segment."""
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
    """The one or two batches that can contain the newest record at or after `from_offset`.

    It is the batch with the largest timestamp, and in any case the batch that contains the offset,
    whose largest timestamp may be that of an earlier record.
    """
    if segment.base_offset >= from_offset:
        position = segment.position_of(segment.max_timestamp_offset)
        return [_Place(position, segment.header_at(position))]
    start = segment.position_of(from_offset)
    containing: list[_Place] = []
    newest: _Place | None = None
    for count, (position, header) in enumerate(
        walk_batches(segment.log, start, segment.size_bytes), start=1
    ):
        if header.base_offset < from_offset:
            containing.append(_Place(position, header))
        elif newest is None or header.newest_record_ms > newest.header.newest_record_ms:
            newest = _Place(position, header)
        if not count % HEADERS_PER_STEP:
            yield None
            reader.check(segment)
    return containing if newest is None else [*containing, newest]


def _first_in(
    segment: Segment, place: _Place, timestamp_ms: int, from_offset: int, reader: SearchReader
) -> Steps[TimestampOffset | None]:
    """The first record of a batch, at or after `from_offset`, with at least `timestamp_ms`.

    None if there is none. If the limit of the search is reached, or the batch cannot be read, the
    answer is an offset that is not after any such record of the batch, with the largest timestamp
    in the batch header: a consumer that starts there misses none.
    """
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
    """The first record with the largest timestamp, at or after `from_offset`, in a batch.

    If the limit of the search is reached, the answer is taken from the batch header.
    """
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
    """The answer from the batch header alone: its largest timestamp, at its first offset that is
    not below `from_offset`."""
    offset = max(header.base_offset, from_offset)
    return TimestampOffset(header.max_timestamp_ms, offset, header.leader_epoch)


def _payload(batch: bytes, header: BatchHeader) -> Steps[Buffer]:
    """The decompressed records of a batch. Raises `RecordsError`."""
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.codec is Codec.NONE:
        return bytes(packed)
    # The decompression is one step, which is run outside of the event loop's thread if necessary.
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
        # record[0] is the offset delta, record[3] the timestamp delta.
        yield [
            (
                base_offset + min(record[0], last_delta),
                stamp_ms if is_stamped else base_ms + record[3],
            )
            for record in records
        ]
