"""The latest offset of each key in the part of a log that is compacted, in bounded memory.

Keys of up to 16 bytes are stored as they are. For longer ones a hash of 20 bytes is stored, so a
hash is never equal to a short key, and a collision of two hashes is practically impossible.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from chiplog_wire.records.scan import ScannedRecord

ENTRY_BYTES: Final = 192
"""The memory that one entry takes at most: its part of a dictionary that is being copied because it
grows, a byte string of up to 20 bytes, an integer."""

_AS_IT_IS_BYTES: Final = 16
_HASH_BYTES: Final = 20
_NOWHERE: Final = -1


class KeyMap:
    """Keys and their latest offsets, up to `latest_offset`."""

    __slots__ = ("_offsets", "is_full", "latest_offset", "max_keys")

    def __init__(self, max_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self.max_keys = max(max_bytes // ENTRY_BYTES, 1)
        self.latest_offset = _NOWHERE
        """The last indexed offset; the keys of later records are not in the map."""
        self.is_full = False

    def __len__(self) -> int:
        return len(self._offsets)

    def index(self, records: Sequence[ScannedRecord], base_offset: int, from_offset: int) -> None:
        """Add the keys of one batch, in order, until there is no memory for another key.

        Records below `from_offset` are skipped: they are compacted already. If there is no memory
        for a key, `is_full` is set, and `latest_offset` is that of the record before it.
        """
        offsets = self._offsets
        free_entries = self.max_keys - len(offsets)
        for delta, _, _, _, key, _ in records:
            offset = base_offset + delta
            if offset < from_offset:
                continue
            if key is not None:
                if len(key) > _AS_IT_IS_BYTES:
                    key = blake2b(key, digest_size=_HASH_BYTES).digest()  # noqa: PLW2901 (hot)
                if free_entries > 0:
                    before = len(offsets)
                    offsets[key] = offset
                    free_entries -= len(offsets) - before
                elif key in offsets:
                    offsets[key] = offset
                else:
                    self.is_full = True
                    return
            self.latest_offset = offset

    def retained(
        self, records: Sequence[ScannedRecord], base_offset: int, *, drops_tombstones: bool
    ) -> list[ScannedRecord]:
        """The records of a batch that stay: all for which the map has no later record of the key.

        Records after `latest_offset` always stay, because the map does not cover them. Records
        without a key do not stay. With `drops_tombstones` tombstones do not stay either.
        """
        last_of, latest = self._offsets.get, self.latest_offset
        kept = []
        for record in records:
            # record[0] is the offset delta, [4] the key, [5] whether the record is a tombstone.
            offset, key = base_offset + record[0], record[4]
            if offset > latest:
                kept.append(record)
            elif key is not None:
                if len(key) > _AS_IT_IS_BYTES:
                    key = blake2b(key, digest_size=_HASH_BYTES).digest()
                if last_of(key, _NOWHERE) <= offset and not (drops_tombstones and record[5]):
                    kept.append(record)
        return kept

    def passed(self, last_offset: int) -> None:
        """Record that all records up to this offset were indexed, also if the last ones are
        missing."""
        self.latest_offset = max(self.latest_offset, last_offset)
