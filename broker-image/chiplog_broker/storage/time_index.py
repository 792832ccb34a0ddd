"""The time index: maps a timestamp to an offset.

An entry (timestamp, offset) means: the largest timestamp up to and including `offset` is
`timestamp`, and the batch that ends at `offset` has it. Timestamps rise strictly from entry to
entry. An entry has eight bytes for the timestamp and four for the offset relative to the segment's
base offset, big-endian. The last entry of a sealed segment has its largest timestamp, which
retention uses.
"""

from collections.abc import Iterable
from struct import Struct

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.sparse_index import SparseIndex
from chiplog_wire.records.batch import NO_TIMESTAMP

ENTRY = Struct(">qi")
_TIMESTAMP, _OFFSET = 0, 1


class TimeIndex(SparseIndex):
    """The `.timeindex` file of one segment."""

    __slots__ = ("_base_offset", "_last_timestamp_ms")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, ENTRY)
        self._base_offset = base_offset
        self._last_timestamp_ms: int | None = None
        """The timestamp of the last entry; None until it is needed."""

    def add_maximum(self, timestamp_ms: int, offset: int) -> None:
        """Add the largest timestamp so far, if it is larger than that of the last entry."""
        self.add_maxima([(timestamp_ms, offset)])

    def add_maxima(self, maxima: Iterable[tuple[int, int]]) -> None:
        """Add several timestamps with their offsets, each as `add_maximum` does."""
        last_ms, base_offset = self._last_timestamp_ms, self._base_offset
        if last_ms is None:
            last_ms, _ = self.maximum()
        entries = []
        for timestamp_ms, offset in maxima:
            if timestamp_ms > last_ms:
                entries.append((timestamp_ms, offset - base_offset))
                last_ms = timestamp_ms
        self.add_all(entries)
        self._last_timestamp_ms = last_ms

    def maximum(self) -> tuple[int, int]:
        """The largest timestamp of the entries and its offset; (-1, base offset) if there is
        none."""
        last = self.last() or (NO_TIMESTAMP, 0)
        # Remembered, so that no append has to read the file: its batch is written already when the
        # index needs this, and cannot be refused any more.
        self._last_timestamp_ms = last[_TIMESTAMP]
        return last[_TIMESTAMP], last[_OFFSET] + self._base_offset

    def offset_before(self, timestamp_ms: int) -> int:
        """The largest indexed offset up to which all timestamps are below `timestamp_ms`.

        The base offset if there is no such entry.
        """
        entry = self.floor_entry(timestamp_ms - 1, _TIMESTAMP)
        return entry[_OFFSET] + self._base_offset if entry else self._base_offset

    def cut_at_offset(self, offset: int) -> None:
        """Remove the entries of batches that end at or after `offset`."""
        self.truncate(self.floor(offset - self._base_offset - 1, _OFFSET) + 1)
        self._last_timestamp_ms = None

    def start_empty(self) -> None:
        """Start without entries; an existing file is removed without being read."""
        super().start_empty()
        self._last_timestamp_ms = None
