"""The segments of one log, oldest first; the last one is active.

There is always at least one. A deleted segment keeps its files under another name for
`file.delete.delay.ms`, so that reads in progress can finish.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.names import (
    SNAPSHOT_SUFFIX,
    offset_in_name,
    segment_file,
)
from chiplog_broker.storage.segment import Segment
from chiplog_broker.storage.transaction_index import AbortedTransaction

_base_of = attrgetter("base_offset")


class LogSegments:
    """An ordered list of segments without gaps between them."""

    __slots__ = ("_directory", "_disk", "_retired", "_segments", "active")

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._retired: list[tuple[int, Segment]] = []
        """Deleted segments, with the time in ms when their files are to be removed."""
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def as_list(self) -> list[Segment]:
        return list(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def bytes_from(self, offset: int) -> int:
        """The size of the records at and above `offset`.

        It is exact where a segment begins. Within a segment all records count as equally large,
        so that nothing has to be read: a metrics scrape does this for many partitions.
        """
        found = 0
        for segment in reversed(self._segments):
            if segment.base_offset < offset:
                offsets = segment.end_offset - segment.base_offset
                rest = max(segment.end_offset - offset, 0)
                return found + segment.size_bytes * rest // max(offsets, 1)
            found += segment.size_bytes
        return found

    def segment_for(self, offset: int) -> Segment:
        """The segment that contains `offset`: the last one that begins at or below it, or the first
        one if all begin above it."""
        active = self.active
        if offset >= active.base_offset:
            return active
        return self._segments[self._number_for(offset)]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that contains `offset`, as `segment_for` finds it, and all later ones."""
        return self._segments[self._number_for(offset) :]

    def _number_for(self, offset: int) -> int:
        """The number of the last segment that begins at or below `offset`; 0 if none does."""
        return max(bisect_right(self._segments, offset, key=_base_of) - 1, 0)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of which records between `offset` and `end_offset` may be, in
        the order of their markers.

        All records below `end_offset` must be of decided transactions.
        """
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(offset):
            for aborted in segment.aborted_from(offset):
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found  # later ones began at or above `end_offset`
        return found

    def add(self, segment: Segment) -> None:
        """Add a new active segment, which begins where the last one ends."""
        self.active.sealed = True
        self._segments.append(segment)
        self.active = segment

    def retire_oldest(self, count: int, remove_at_ms: int) -> None:
        """Delete the oldest segments with their snapshots; at least one segment must stay."""
        for segment in self._segments[:count]:
            self._retire(segment, remove_at_ms)
            self._disk.remove(self._snapshot_path(segment.base_offset))
        del self._segments[:count]

    def retire_above(self, offset: int, remove_at_ms: int) -> None:
        """Delete the segments that begin above `offset`; the last remaining one becomes active."""
        while len(self._segments) > 1 and self._segments[-1].base_offset > offset:
            self._retire(self._segments.pop(), remove_at_ms)
        self.active = self._segments[-1]

    def replace(self, old: Sequence[Segment], new: Segment, remove_at_ms: int) -> None:
        """Replace the adjacent segments `old` by one, and delete the producer snapshots between
        them."""
        number = self._segments.index(old[0])
        for segment in old:
            self._retire(segment, remove_at_ms)
        for segment in old[1:]:
            self._disk.remove(self._snapshot_path(segment.base_offset))
        self._segments[number : number + len(old)] = [new]

    def replace_all(self, segment: Segment, remove_at_ms: int) -> None:
        """Delete all segments; `segment` is the only one now."""
        for old in self._segments:
            self._retire(old, remove_at_ms)
        self._segments[:] = [segment]
        self.active = segment

    def remove_snapshots_above(self, offset: int) -> None:
        """Remove the producer snapshots above `offset`: their records were truncated."""
        for name in self._disk.names(self._directory):
            snapshot_offset = offset_in_name(name, SNAPSHOT_SUFFIX)
            if snapshot_offset is not None and snapshot_offset > offset:
                self._disk.remove(f"{self._directory}/{name}")

    def remove_retired(self, now_ms: int) -> int:
        """Remove the files of deleted segments whose delay has passed; returns their number."""
        if not self._retired:  # nearly always: this is called often
            return 0
        due = [segment for remove_at_ms, segment in self._retired if remove_at_ms <= now_ms]
        self._retired = [entry for entry in self._retired if entry[0] > now_ms]
        for segment in due:
            segment.remove_retired()
        return len(due)

    def close(self) -> None:
        """Close the files of all segments, also of deleted ones."""
        for segment in self._segments:
            segment.close()
        for _, segment in self._retired:
            segment.close()

    def _retire(self, segment: Segment, remove_at_ms: int) -> None:
        """Mark a segment as deleted; its files are removed at `remove_at_ms`."""
        segment.retire()
        self._retired.append((remove_at_ms, segment))

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
