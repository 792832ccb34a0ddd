"""A sorted file of fixed-size entries: the base of the indexes of a segment.

Entries are appended and found by binary search. The newest ones stay in memory until there are
enough for one write, because a write for each entry would cost as much as writing its batch. A
crash does no harm: recovery rebuilds missing entries of the active segment, and the index of a
sealed segment is complete.

Kafka maps these files into memory; we read the few entries that a search needs.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from struct import Struct

from chiplog_broker.ports.disk import Disk, File

PENDING_ENTRIES = 512
"""This many entries are written together."""
_PAGE_ENTRIES = 2048
"""When a binary search has this many entries left, they are read together: 16 or 24 KiB."""

Entry = tuple[int, ...]


class SparseIndex:
    """Entries of two or more numbers. A number by which entries are found must not decrease from
    one entry to the next."""

    __slots__ = (
        "_disk",
        "_file",
        "_layout",
        "_may_have_rest",
        "_path",
        "_pending",
        "_pending_entries",
        "_stored",
    )

    def __init__(
        self, disk: Disk, path: str, layout: Struct, *, pending_entries: int = PENDING_ENTRIES
    ) -> None:
        """`layout` is the binary format of an entry. `pending_entries` are written together."""
        self._disk = disk
        self._pending_entries = pending_entries
        self._path = path
        self._layout = layout
        self._file: File | None = None
        self._stored: int | None = None
        """The number of entries in the file; None until it is needed."""
        self._pending: list[Entry] = []
        """The newest entries, which are not in the file yet."""
        self._may_have_rest = False
        """Whether a part of a write that failed may be in the file, behind its entries."""

    def __len__(self) -> int:
        return self._stored_entries() + len(self._pending)

    def is_complete(self) -> bool:
        """Whether the file exists and contains only complete entries."""
        return (
            self._disk.exists(self._path) and self._open_if_closed().size() % self._layout.size == 0
        )

    def start_empty(self) -> None:
        """Start without entries; a file of this name is not read.

        It is replaced by a new file: the first sync of the old one might report a write error of
        the last process.
        """
        self._stored = 0
        self._pending.clear()
        self._may_have_rest = False
        self.close()
        self._disk.remove(self._path)

    def add(self, *entry: int) -> None:
        """Append an entry. It is written to the file together with later ones."""
        self.add_all([entry])

    def add_all(self, entries: Iterable[Entry]) -> None:
        """Append entries. They are written to the file together with later ones."""
        pending = self._pending
        written_at = len(pending) // self._pending_entries
        pending.extend(entries)
        if len(pending) // self._pending_entries > written_at:
            try:
                self.flush()
            except OSError:
                # The entries stay in memory and can be used there. Sealing the segment writes them
                # again, and raises if that fails, too.
                return

    def flush(self) -> None:
        """Write the entries that are in memory only; creates the file even without entries."""
        stored = self._stored_entries()
        file = self._open_if_closed()
        self._remove_rest()
        if self._pending:
            pack, end = self._layout.pack, stored * self._layout.size
            self._may_have_rest = True
            file.write_at(end, b"".join(pack(*entry) for entry in self._pending))
            self._may_have_rest = False
            self._stored = stored + len(self._pending)
            self._pending.clear()

    def renamed(self, path: str) -> None:
        """Use this path from now on: the file was renamed."""
        self._path = path

    def keep_open(self) -> None:
        """Open the file now, and keep it open."""
        self._open_if_closed()

    async def sync(self) -> None:
        await self._open_if_closed().sync()

    def entry(self, number: int) -> Entry:
        """The entry with this number, which is in the file or in memory."""
        stored = self._stored_entries()
        if number >= stored:
            return self._pending[number - stored]
        return self._read(number, 1)[0]

    def last(self) -> Entry | None:
        """The newest entry; None if the index is empty."""
        count = len(self)
        return self.entry(count - 1) if count else None

    def floor(self, key: int, column: int) -> int:
        """The number of the last entry whose `column`, counted from 0, is at most `key`; -1 if none
        is."""
        return self._floor(key, column)[0]

    def floor_entry(self, key: int, column: int) -> Entry | None:
        """The last entry whose `column`, counted from 0, is at most `key`; None if there is
        none."""
        return self._floor(key, column)[1]

    def _floor(self, key: int, column: int) -> tuple[int, Entry | None]:
        """Number and content of the last entry whose `column` is at most `key`; (-1, None) if none
        is."""
        value_of = itemgetter(column)
        stored = self._stored_entries()
        pending = self._pending
        if pending and value_of(pending[0]) <= key:
            place = bisect_right(pending, key, key=value_of) - 1
            return stored + place, pending[place]
        # Search in the file: the entry is in [low, high).
        low, high = 0, stored
        while high - low > _PAGE_ENTRIES:
            middle = (low + high) // 2
            if value_of(self._read(middle, 1)[0]) <= key:
                low = middle
            else:
                high = middle
        width, unpack = self._layout.size, self._layout.unpack_from
        data = self._open_if_closed().read(low * width, (high - low) * width) if low < high else b""

        def in_page(number: int) -> Entry:
            """An entry of the bytes that were read, counted from `low`."""
            return unpack(data, number * width)

        page = range(high - low)
        found = bisect_right(page, key, key=lambda number: value_of(in_page(number))) - 1
        return low + found, in_page(found) if found >= 0 else None

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        stored = self._stored_entries()
        if count < stored:
            self._open_if_closed().truncate(count * self._layout.size)
            self._may_have_rest = False
            self._stored = count
            self._pending.clear()
        else:
            self._remove_rest()
            del self._pending[count - stored :]

    def _remove_rest(self) -> None:
        """Remove the part of a write that failed. If its entries are truncated, and fewer new ones
        written, it must not stand behind these."""
        if self._may_have_rest:
            self._open_if_closed().truncate(self._stored_entries() * self._layout.size)
            self._may_have_rest = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _stored_entries(self) -> int:
        """The number of complete entries in the file; 0 if it does not exist."""
        if self._stored is None:
            exists = self._disk.exists(self._path)
            self._stored = self._open_if_closed().size() // self._layout.size if exists else 0
        return self._stored

    def _open_if_closed(self) -> File:
        """The file, which is opened if it is closed, and created if it does not exist."""
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        return self._file

    def _read(self, first: int, count: int) -> list[Entry]:
        """Read `count` entries of the file, from the number `first` on."""
        width = self._layout.size
        data = self._open_if_closed().read(first * width, count * width)
        return list(self._layout.iter_unpack(data))
