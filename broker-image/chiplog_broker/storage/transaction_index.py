"""The transaction index: the aborted transactions whose markers are in a segment (`.txnindex`).

    version: 2 bytes, 0 | producer id, first offset, last offset, last stable offset: 8 bytes each

The format is Kafka's. An entry is added with each abort marker, so the last offsets rise, and the
last stable offsets do not fall. Most segments have no such file. An entry is written at once; if
that fails, with the next one, or when the segment is finished.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.sparse_index import SparseIndex
from chiplog_broker.storage.transactions import EndedTransaction

ENTRY = Struct(">hqqqq")
_VERSION = 0
_LAST_OFFSET = 3
_READ_ENTRIES = 256
"""This many entries are read together."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its abort marker."""
    last_stable_offset: int
    """The last stable offset of the log after this marker."""


class TransactionIndex(SparseIndex):
    """The `.txnindex` file of one segment, which exists only if it has entries."""

    __slots__ = ()

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(disk, path, ENTRY, pending_entries=1)

    def is_complete(self) -> bool:
        """Whether the file contains only complete entries of this format, or does not exist."""
        if not self._disk.exists(self._path):
            return True
        last = self.last() if super().is_complete() else None
        return last is not None and last[0] == _VERSION

    def add_ended(self, ended: Iterable[EndedTransaction]) -> None:
        """Add those of these transactions that were aborted."""
        for one in ended:
            if not one.is_commit:
                self.add(_VERSION, *one[:4])

    def add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the entries of another index."""
        for one in aborted:
            self.add(_VERSION, *one)

    def aborted_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """The transactions whose markers are at or above `offset`, in the order of the markers."""
        if not len(self):
            return
        first, stored = self.floor(offset - 1, _LAST_OFFSET) + 1, self._stored_entries()
        for number in range(first, stored, _READ_ENTRIES):
            for entry in self._read(number, min(_READ_ENTRIES, stored - number)):
                yield AbortedTransaction._make(entry[1:])
        for entry in self._pending[max(first - stored, 0) :]:
            yield AbortedTransaction._make(entry[1:])

    def flush(self) -> None:
        """Write the entries that are in memory only."""
        if self._pending:
            super().flush()

    async def sync(self) -> None:
        """Make the file durable, if there is one."""
        if len(self):
            await super().sync()

    def keep_open(self) -> None:
        """Open the file, if there is one, and keep it open."""
        if len(self):
            super().keep_open()

    def cut_at_offset(self, offset: int) -> None:
        """Remove the transactions whose markers are at or above `offset`."""
        if len(self):
            self.truncate(self.floor(offset - 1, _LAST_OFFSET) + 1)
