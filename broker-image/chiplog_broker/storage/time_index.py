"""Time index: from a timestamp to an offset.

An entry (timestamp, offset) says: the largest timestamp up to and including `offset` is
`timestamp`, and the batch that ends at `offset` holds it. Timestamps strictly rise from
entry to entry. Eight bytes for the timestamp, four for the offset relative to the
segment's base, big-endian. The last entry of a sealed segment is its largest timestamp,
by which retention judges it.
"""

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

    def add_maximum(self, timestamp_ms: int, offset: int) -> None:
        """Note the largest timestamp so far, if it is larger than what is noted."""
        if self._last_timestamp_ms is None:
            self._last_timestamp_ms = self.maximum()[0]
        if timestamp_ms > self._last_timestamp_ms:
            self.add(timestamp_ms, offset - self._base_offset)
            self._last_timestamp_ms = timestamp_ms

    def maximum(self) -> tuple[int, int]:
        """The largest noted timestamp and the offset it belongs to; (-1, base) if none."""
        last = self.last()
        if last is None:
            return NO_TIMESTAMP, self._base_offset
        return last[_TIMESTAMP], last[_OFFSET] + self._base_offset

    def offset_before(self, timestamp_ms: int) -> int:
        """An offset up to which every timestamp is below `timestamp_ms`."""
        entry = self.floor_entry(timestamp_ms - 1, _TIMESTAMP)
        return entry[_OFFSET] + self._base_offset if entry else self._base_offset

    def cut_at_offset(self, offset: int) -> None:
        """Forget entries of batches that end at or after `offset`."""
        self.truncate(self.floor(offset - self._base_offset - 1, _OFFSET) + 1)
        self._last_timestamp_ms = None

    def start_empty(self) -> None:
        super().start_empty()
        self._last_timestamp_ms = None
