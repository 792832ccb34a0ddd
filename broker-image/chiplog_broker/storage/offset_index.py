"""The offset index: finds the position of an offset in the segment's file, and the batch boundary
before a position.

It has one entry for every `index.interval.bytes` of the log. An entry has the *last* offset of a
batch, relative to the segment's base offset, and the position where that batch begins; four bytes
each, big-endian.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.sparse_index import Entry, SparseIndex

ENTRY = Struct(">ii")
_OFFSET, _POSITION = 0, 1


class IndexedBatch(NamedTuple):
    """The batch of an index entry."""

    last_offset: int
    position: int


class OffsetIndex(SparseIndex):
    """The `.index` file of one segment."""

    __slots__ = ("_base_offset",)

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, ENTRY)
        self._base_offset = base_offset

    def add_batch(self, last_offset: int, position: int) -> None:
        self.add(last_offset - self._base_offset, position)

    def add_batches(self, batches: Iterable[tuple[int, int]]) -> None:
        """Add several batches, each as `add_batch` does."""
        base_offset = self._base_offset
        self.add_all([(last_offset - base_offset, position) for last_offset, position in batches])

    def batch_before(self, offset: int) -> IndexedBatch | None:
        """The last indexed batch that ends at or before `offset`; None if there is none."""
        return self._to_indexed_batch(self.floor_entry(offset - self._base_offset, _OFFSET))

    def batch_at_or_before(self, position: int) -> IndexedBatch | None:
        """The last indexed batch that begins at or before `position`; None if there is none."""
        return self._to_indexed_batch(self.floor_entry(position, _POSITION))

    def last_batch(self) -> IndexedBatch | None:
        """The last indexed batch; None without entries."""
        return self._to_indexed_batch(self.last())

    def cut_at_position(self, position: int) -> None:
        """Remove the entries of batches that begin at or after `position`."""
        self.truncate(self.floor(position - 1, _POSITION) + 1)

    def _to_indexed_batch(self, entry: Entry | None) -> IndexedBatch | None:
        """The batch of an entry, with its absolute offset; None for None."""
        if entry is None:
            return None
        return IndexedBatch(entry[_OFFSET] + self._base_offset, entry[_POSITION])
