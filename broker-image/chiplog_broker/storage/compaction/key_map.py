"""The latest offset of each key in the part of a log that is being compacted, in bounded memory.

Keys of up to 16 bytes are kept as they are. Of longer ones a hash of 20 bytes is kept: so
neither is ever taken for the other, and two keys are not taken for one in any lifetime.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from chiplog_wire.records.scan import ScannedRecord

ENTRY_BYTES: Final = 192
"""What one entry takes at most: a place in a dictionary that has just grown (and is copied at
that moment), a byte string of up to 20 bytes, an integer."""

_AS_IT_IS_BYTES: Final = 16
_HASH_BYTES: Final = 20
_NOWHERE: Final = -1


class KeyMap:
    """Keys and the offsets where they stand last, up to `latest_offset`."""

    __slots__ = ("_offsets", "is_full", "latest_offset", "max_keys")

    def __init__(self, max_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self.max_keys = max(max_bytes // ENTRY_BYTES, 1)
        self.latest_offset = _NOWHERE
        """Whatever lies above is not known here."""
        self.is_full = False

    def __len__(self) -> int:
        return len(self._offsets)

    def index(self, records: Sequence[ScannedRecord], base_offset: int, from_offset: int) -> None:
        """Note records of one batch, in order, until there is no room for another key."""
        offsets = self._offsets
        room = self.max_keys - len(offsets)
        for delta, _, _, _, key, _ in records:
            offset = base_offset + delta
            if offset < from_offset:
                continue
            if key is not None:
                if len(key) > _AS_IT_IS_BYTES:
                    key = blake2b(key, digest_size=_HASH_BYTES).digest()  # noqa: PLW2901 (hot)
                if room > 0:
                    before = len(offsets)
                    offsets[key] = offset
                    room -= len(offsets) - before
                elif key in offsets:
                    offsets[key] = offset
                else:
                    self.is_full = True
                    return
            self.latest_offset = offset

    def retained(
        self, records: Sequence[ScannedRecord], base_offset: int, *, drops_tombstones: bool
    ) -> list[ScannedRecord]:
        """Those of a batch that stay: the latest of their keys, as far as is known here."""
        last_of, latest = self._offsets.get, self.latest_offset
        kept = []
        for record in records:
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
        """Everything up to here was seen, gaps too."""
        self.latest_offset = max(self.latest_offset, last_offset)
