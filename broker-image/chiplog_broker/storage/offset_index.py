"""Offset index: from an offset to a position in the segment's file, and from a position
to a batch boundary. Every `index.interval.bytes` of log, one entry.

An entry holds the *last* offset of a batch, relative to the segment's base offset, and
the position where that batch begins; four bytes each, big-endian.
"""

from struct import Struct

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.sparse_index import SparseIndex

ENTRY = Struct(">ii")
_OFFSET, _POSITION = 0, 1


class OffsetIndex(SparseIndex):
    """The `.index` file of one segment."""

    __slots__ = ("_base_offset",)

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, ENTRY)
        self._base_offset = base_offset

    def add_batch(self, last_offset: int, position: int) -> None:
        self.add(last_offset - self._base_offset, position)

    def position_before(self, offset: int) -> int:
        """A batch boundary at or before the batch that holds `offset`, close to it."""
        entry = self.floor_entry(offset - self._base_offset, _OFFSET)
        return entry[_POSITION] if entry else 0

    def boundary_before(self, position: int) -> int:
        """The last indexed batch boundary that is not past `position`."""
        entry = self.floor_entry(position, _POSITION)
        return entry[_POSITION] if entry else 0

    def last_position(self) -> int:
        """Where the last indexed batch begins; 0 without entries."""
        last = self.last()
        return last[_POSITION] if last else 0

    def cut_at_position(self, position: int) -> None:
        """Forget the batches that begin at or after `position`."""
        self.truncate(self.floor(position - 1, _POSITION) + 1)
