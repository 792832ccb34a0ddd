"""One segment: a file of batches, two sparse indexes for it, and an index of the transactions that
were aborted in it.

Only the active segment of a log is written to. Positions are byte offsets in the file and always
batch boundaries. `_boundaries` maps a few recent offsets to positions: most reads begin at the last
append, or where the last read ended.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from chiplog_broker.ports.disk import Disk, File
from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from chiplog_broker.storage.offset_index import ENTRY as OFFSET_ENTRY
from chiplog_broker.storage.offset_index import IndexedBatch, OffsetIndex
from chiplog_broker.storage.sparse_index import SparseIndex
from chiplog_broker.storage.time_index import ENTRY as TIME_ENTRY
from chiplog_broker.storage.time_index import TimeIndex
from chiplog_broker.storage.transaction_index import AbortedTransaction, TransactionIndex
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from chiplog_wire.records.errors import DamagedBatchError

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Indexes store offsets relative to the segment's base offset, in four bytes."""

LARGEST_INTERVAL_BYTES = 64 * 2**10
"""The largest index interval, also if a topic's `index.interval.bytes` is larger. Each read walks
over the batches between two index entries. Batches may be tiny, and this many bytes of them take
about a millisecond."""

_REMEMBERED_BOUNDARIES = 512
"""The number of offsets whose positions are remembered."""


class SegmentSlice(NamedTuple):
    """Consecutive complete batches of one segment."""

    position: int
    size_bytes: int
    next_offset: int
    """The offset after the last batch."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The density and the maximum size of the indexes."""

    interval_bytes: int
    max_bytes: int

    @classmethod
    def of(cls, interval_bytes: int, max_bytes: int) -> "IndexSettings":
        """The configured values, with the interval limited to `LARGEST_INTERVAL_BYTES`."""
        return cls(min(interval_bytes, LARGEST_INTERVAL_BYTES), max_bytes)


class Segment:
    """One segment of a log."""

    __slots__ = (
        "_boundaries",
        "_bytes_since_entry",
        "_directory",
        "_disk",
        "_log",
        "_mark",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "base_offset",
        "created_ms",
        "end_offset",
        "first_timestamp_ms",
        "index_full",
        "index_settings",
        "offset_index",
        "retired",
        "sealed",
        "size_bytes",
        "time_index",
        "transaction_index",
        "unsynced",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        index_settings: IndexSettings,
        mark: str = "",
    ) -> None:
        """`mark` is a suffix of the file names of a segment that is not in use yet."""
        self._disk = disk
        self._directory = directory
        self._mark = mark
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        self.sealed = False
        """Whether it is finished: no more appends, and its indexes are complete."""
        self.retired = False
        """Whether it was deleted; readers may still have its files open."""
        self.unsynced = False
        """Whether it has bytes that are not synced."""
        self.created_ms = 0
        """When it was created, or opened by this process."""
        self.first_timestamp_ms = NO_TIMESTAMP
        """The largest timestamp of the first batch; -1 if it has none, or is not known yet."""
        self.offset_index = OffsetIndex(disk, self._path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(disk, self._path(TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex(disk, self._path(TXN_INDEX_SUFFIX))
        self.index_settings = index_settings
        self.index_full = False
        """Whether an index has reached its largest size: the next batch needs a new segment."""
        self._bytes_since_entry = 0
        """The bytes of the batches since the last index entry."""
        self._log: File | None = None
        """The log file if it is open."""
        self._max_timestamp_ms: int | None = None
        """The largest timestamp; None until it is needed, then it is read from the time index."""
        self._max_timestamp_offset = base_offset
        """The last offset of the batch with the largest timestamp."""
        self._boundaries: dict[int, int] = {}
        """The file positions of some recently used offsets at which batches begin."""

    # --- opening -------------------------------------------------------------

    def create(self, now_ms: int) -> None:
        """Create the segment without records. Files from an earlier, failed attempt are emptied."""
        self._log = self._disk.open(self._path(LOG_SUFFIX), create=True)
        self._log.truncate(0)
        self._start_indexes()
        self.created_ms = now_ms
        self._max_timestamp_ms = NO_TIMESTAMP

    def open_sealed(self, end_offset: int, now_ms: int) -> None:
        """Open a segment that is not the last one; nothing is read, and no file stays open."""
        self.size_bytes = self.log.size()
        self.close()
        self.end_offset = end_offset
        self.created_ms = now_ms
        self.sealed = True

    def open_active(self, now_ms: int) -> None:
        """Open a segment and determine its end: read the batches after the last index entry.

        Raises `DamagedBatchError`.
        """
        self.size_bytes = self.log.size()
        self.created_ms = now_ms
        self.refresh_tail()
        self._close_indexes()

    def refresh_tail(self) -> None:
        """Determine end offset and largest timestamp again, from the last index entry on.

        Raises `DamagedBatchError`, also if an index entry differs from its batch.
        """
        self._boundaries.clear()
        self._max_timestamp_ms, self._max_timestamp_offset = self._newest_by_index()
        self.end_offset = self.base_offset
        indexed = self.offset_index.last_batch()
        for _, header in self._batches_from(indexed):
            self._count_read(header)
        self._bytes_since_entry = self.size_bytes - (indexed.position if indexed else 0)
        self.index_full = False
        self.first_timestamp_ms = NO_TIMESTAMP
        if self.size_bytes:
            for _, first in walk_batches(self.log, 0, self.size_bytes):
                self.first_timestamp_ms = first.newest_record_ms
                break

    def indexes_are_complete(self) -> bool:
        """Whether all index files exist that must, and contain only complete entries."""
        return (
            self.offset_index.is_complete()
            and self.time_index.is_complete()
            and self.transaction_index.is_complete()
        )

    def start_rebuild(self, now_ms: int) -> None:
        """Empty the indexes; the caller then calls `count` for every batch of the file, and adds
        the aborted transactions."""
        self.created_ms = now_ms
        self._start_indexes()
        self._boundaries.clear()
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = self.end_offset = self.base_offset
        self._bytes_since_entry = self.size_bytes = 0
        self.first_timestamp_ms = NO_TIMESTAMP
        self.index_full = False

    # --- writing -------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Write complete batches at the end of the file; changes nothing if that fails.

        The caller then calls `count` for each of them.
        """
        self.log.append(data)

    def count(self, last_offset: int, max_timestamp_ms: int, batch_bytes: int) -> None:
        """Count the next batch of the file: advance the end, and index the batch if an entry is
        due."""
        position = self.size_bytes
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self._bytes_since_entry > self.index_settings.interval_bytes:
            self.offset_index.add_batch(last_offset, position)
            self.time_index.add_maximum(self.max_timestamp_ms, self._max_timestamp_offset)
            self._bytes_since_entry = 0
            self._indexed()
        self._bytes_since_entry += batch_bytes
        self.size_bytes = end = position + batch_bytes
        self.end_offset = following = last_offset + 1
        self._remember(following, end)

    def count_all(self, run: Sequence[BatchHeader]) -> None:
        """Count the next batches of the file, as `count` does for each.

        A loop of its own, because a follower needs it for every batch. Only the end of the last
        batch is remembered.
        """
        interval_bytes = self.index_settings.interval_bytes
        position, since_entry = self.size_bytes, self._bytes_since_entry
        newest_ms, newest_offset = self.max_timestamp_ms, self._max_timestamp_offset
        if position == 0:
            self.first_timestamp_ms = run[0].newest_record_ms
        by_offset, by_time = [], []
        for header in run:
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp_ms > newest_ms and header.record_count:
                newest_ms, newest_offset = header.max_timestamp_ms, last_offset
            if since_entry > interval_bytes:
                by_offset.append((last_offset, position))
                by_time.append((newest_ms, newest_offset))
                since_entry = 0
            size_bytes = header.length_bytes + LENGTH_OVERHEAD_BYTES
            since_entry += size_bytes
            position += size_bytes
        self._max_timestamp_ms, self._max_timestamp_offset = newest_ms, newest_offset
        self._bytes_since_entry, self.size_bytes = since_entry, position
        if by_offset:
            self.offset_index.add_batches(by_offset)
            self.time_index.add_maxima(by_time)
            self._indexed()
        self.end_offset = following = last_offset + 1
        self._remember(following, position)

    def seal(self) -> None:
        """Write the complete indexes, with a last entry for the largest timestamp.

        If the roll to a new segment fails afterwards, appends continue here and this is repeated.
        """
        if self.max_timestamp_ms > NO_TIMESTAMP:
            self.time_index.add_maximum(self.max_timestamp_ms, self._max_timestamp_offset)
        self.offset_index.flush()
        self.time_index.flush()
        self.transaction_index.flush()

    def take_over(self, cleaned_from: "Segment") -> None:
        """Finish a compacted segment: it gets the creation time of the segment that it replaces."""
        self.created_ms = cleaned_from.created_ms
        self.sealed = True

    def rename(self, mark: str) -> None:
        """Rename the files to end with `mark`, for example `.swap`, or without one.

        The log file is last: its name decides after a crash whether the segment is complete.
        """
        files = (
            (INDEX_SUFFIX, self.offset_index),
            (TIME_INDEX_SUFFIX, self.time_index),
            (TXN_INDEX_SUFFIX, self.transaction_index),
            (LOG_SUFFIX, None),
        )
        for suffix, index in files:
            old, new = self._path(suffix), self._path(suffix, mark)
            if suffix != TXN_INDEX_SUFFIX or self._disk.exists(old):
                self._disk.rename(old, new)
            if index is not None:
                index.renamed(new)
        self._mark = mark

    def truncate(self, position: int, end_offset: int) -> None:
        """Truncate the file at a batch boundary; `end_offset` is the first offset that is
        removed."""
        self.log.truncate(position)
        self.size_bytes = position
        self.offset_index.cut_at_position(position)
        self.time_index.cut_at_offset(end_offset)
        self.transaction_index.cut_at_offset(end_offset)
        self.sealed = False
        self.refresh_tail()

    def open_files(self) -> None:
        """Open all files that `truncate` needs, so that it cannot fail half-way."""
        self.log.size()
        for index in self._indexes():
            index.keep_open()

    async def sync(self) -> None:
        """Make the bytes durable; for a sealed segment the indexes, too."""
        await self.log.sync()
        if not self.sealed:
            return
        for index in self._indexes():
            # It may have been deleted during the last await. Then its files were renamed, and need
            # no sync.
            if not self.retired:
                await index.sync()
        self._close_indexes()

    # --- reading -------------------------------------------------------------

    @property
    def log(self) -> File:
        """The log file, which is opened if it is not open."""
        if self._log is None:
            self._log = self._disk.open(self._path(LOG_SUFFIX))
        return self._log

    @property
    def log_path(self) -> str:
        """The path of the log file in the data directory."""
        return self._path(LOG_SUFFIX)

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp in the segment; -1 if there is none. Raises `DamagedBatchError`."""
        if self._max_timestamp_ms is None:
            self._max_timestamp_ms, self._max_timestamp_offset = self._newest_by_index()
        return self._max_timestamp_ms

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch with the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp_ms >= 0 else self.base_offset

    @property
    def oldest_ms(self) -> int:
        """The timestamp of the first batch; if it has none, when the segment was created."""
        if self.first_timestamp_ms < 0 and self.size_bytes:
            self.first_timestamp_ms = self.header_at(0).newest_record_ms
        return self.first_timestamp_ms if self.first_timestamp_ms >= 0 else self.created_ms

    @property
    def index_bytes(self) -> int:
        """The size of the larger of the two indexes; `segment.index.bytes` limits each of them."""
        larger = max(
            len(self.offset_index) * OFFSET_ENTRY.size, len(self.time_index) * TIME_ENTRY.size
        )
        if self.sealed:
            self._close_indexes()  # `len` opened them; sealed segments keep no index open
        return larger

    def end_at_or_below(self, offset: int) -> int:
        """The end offset of the last batch that ends at or below `offset`; the base offset if there
        is none."""
        end_offset = self.base_offset
        for _, header in self._batches_from(self.offset_index.batch_before(offset - 1)):
            if header.last_offset >= offset:
                break
            end_offset = header.last_offset + 1
        return end_offset

    def position_of(self, offset: int) -> int:
        """The position of the batch that contains `offset`, or of the next one.

        Raises `DamagedBatchError` if the batches on the way are not in order: the requested one may
        be among them.
        """
        if offset >= self.end_offset:
            return self.size_bytes
        known = self._boundaries.get(offset)
        if known is not None:
            return known
        following = self.base_offset
        for position, header in self._batches_from(self.offset_index.batch_before(offset)):
            if header.base_offset < following:
                what = f"offset {header.base_offset} where {following} or a later one belongs"
                raise DamagedBatchError(what, position)
            if header.last_offset >= offset:
                return position
            following = header.last_offset + 1
        return self.size_bytes

    def slice_from(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool
    ) -> SegmentSlice:
        """Complete batches from the one that contains `offset` up to `up_to_offset`.

        They have at most `max_bytes` together; with `min_one` the first one is returned even if it
        is larger. The slice may be empty.
        """
        start = self.position_of(offset)
        bound = self.position_of(up_to_offset)
        if start >= bound:
            return SegmentSlice(start, 0, offset)
        if start + max_bytes < bound:
            end, next_offset = self._boundary_within(start, start + max_bytes)
            if end == start and min_one:
                end = start + self.header_at(start).size_bytes
                next_offset = self._offset_at(end)
            if end == start:
                return SegmentSlice(start, 0, offset)
        else:
            end, next_offset = bound, self._offset_at(bound)
        self._remember(next_offset, end)
        return SegmentSlice(start, end - start, next_offset)

    def aborted_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """The aborted transactions whose markers are in this segment, at or above `offset`, in the
        order of the markers."""
        try:
            yield from self.transaction_index.aborted_from(offset)
        finally:
            if self.sealed:
                self.transaction_index.close()  # sealed segments keep no index open

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins at `position`."""
        return read_header(self.log.read(position, HEADER_BYTES))

    def _boundary_within(self, start: int, limit: int) -> tuple[int, int]:
        """The last batch boundary between the positions `start` and `limit`, and the offset of the
        batch that begins there."""
        indexed = self.offset_index.batch_at_or_before(limit)
        if indexed is not None and indexed.position > start:
            batches = self._batches_from(indexed)
        else:
            batches = walk_batches(self.log, start, self.size_bytes)
        for position, header in batches:
            if position + header.size_bytes > limit:
                return position, header.base_offset
        return self.size_bytes, self.end_offset

    def _batches_from(self, indexed: IndexedBatch | None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from an indexed one on; of all batches if it is None.

        Indexes have no checksum: because of a changed bit, records could be skipped. So the batch
        at the position is compared with the index entry. Raises `DamagedBatchError`.
        """
        batches = walk_batches(self.log, indexed.position if indexed else 0, self.size_bytes)
        if indexed is None:
            return batches
        first = next(batches, None)
        if first is None or first[1].last_offset != indexed.last_offset:
            ends = "no batch" if first is None else f"a batch up to {first[1].last_offset}"
            raise DamagedBatchError(
                f"the index names a batch up to {indexed.last_offset} where there is {ends}",
                indexed.position,
            )
        return chain((first,), batches)

    def _newest_by_index(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of its batch; (-1, base offset) if there is
        none.

        They are those of the last entry of the time index. The index has no checksum, and retention
        relies on the result: if the entry differs from its batch, all batches are read instead.
        """
        if not len(self.time_index):
            return self.time_index.maximum()
        timestamp_ms, offset = by_index = self.time_index.maximum()
        with suppress(DamagedBatchError):
            for _, header in self._batches_from(self.offset_index.batch_before(offset)):
                if header.last_offset >= offset:
                    if (header.newest_record_ms, header.last_offset) == (timestamp_ms, offset):
                        return by_index
                    break
        newest = NO_TIMESTAMP, self.base_offset
        for _, header in walk_batches(self.log, 0, self.size_bytes):
            if header.newest_record_ms > newest[0]:
                newest = header.newest_record_ms, header.last_offset
        return newest

    def _offset_at(self, position: int) -> int:
        """The base offset of the batch at a batch boundary; the end offset at the end."""
        if position == self.size_bytes:
            return self.end_offset
        return self.header_at(position).base_offset

    def _remember(self, offset: int, position: int) -> None:
        """Remember the position of an offset; the oldest of too many is forgotten."""
        boundaries = self._boundaries
        boundaries[offset] = position
        if len(boundaries) > _REMEMBERED_BOUNDARIES:
            del boundaries[next(iter(boundaries))]

    def _indexed(self) -> None:
        """After new entries of the indexes: notice if one of them is full."""
        limit_bytes = self.index_settings.max_bytes
        # One entry of the time index stays free, because `seal` adds one.
        self.index_full = (
            len(self.offset_index) >= limit_bytes // OFFSET_ENTRY.size
            or len(self.time_index) >= limit_bytes // TIME_ENTRY.size - 1
        )

    # --- the end -------------------------------------------------------------

    def retire(self) -> None:
        """Mark the segment as deleted by renaming its files. Readers can continue: the files stay
        open."""
        self.retired = True
        for suffix in SEGMENT_SUFFIXES:
            path = self._path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)

    def remove_retired(self) -> None:
        """Close and remove the files of a deleted segment."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self._path(suffix) + DELETED_SUFFIX)

    def discard(self) -> None:
        """Close and remove the files of a segment that never became part of the log."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self._path(suffix))

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        self._close_indexes()

    def _close_indexes(self) -> None:
        """Close the descriptors; most segments are idle, and lookups open them again."""
        for index in self._indexes():
            index.close()

    def _start_indexes(self) -> None:
        """Let all indexes start without entries."""
        for index in self._indexes():
            index.start_empty()

    def _indexes(self) -> tuple[SparseIndex, ...]:
        return self.offset_index, self.time_index, self.transaction_index

    def _path(self, suffix: str, mark: str | None = None) -> str:
        """The path of a file of this segment, with its present mark unless another is given."""
        mark = self._mark if mark is None else mark
        return f"{self._directory}/{segment_file(self.base_offset, suffix)}{mark}"

    def _count_read(self, header: BatchHeader) -> None:
        """Advance end offset and largest timestamp by a batch that was read from the file."""
        last_offset = header.last_offset
        self.end_offset = last_offset + 1
        if header.newest_record_ms > self.max_timestamp_ms:
            self._max_timestamp_ms = header.newest_record_ms
            self._max_timestamp_offset = last_offset
