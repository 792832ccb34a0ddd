"""Which keys are frequent, in bounded memory, with a bound on the error.

The summary of Misra and Gries (1982) as Agarwal, Cormode, Huang, Phillips, Wei and Yi made it
mergeable (Mergeable summaries, 2012): at most `capacity` keys with counters; when there are more,
the counter of the first one too many is subtracted from all, and what is left above zero stays. The
sum of what was subtracted is how much any counter may lack, and that is at most the number of keys
that were counted, over `capacity` + 1. Sketches of parts are added in any order and keep the bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

CAPACITY: Final = 256
"""Keys that are counted at a time; the error is less than 0.4 % of the records."""

MAX_KEY_BYTES: Final = 256
"""Longer keys are counted by their beginning and a digest of the whole."""
_DIGEST_BYTES: Final = 16


@dataclass(slots=True)
class Sketch:
    """Frequent keys of so many records."""

    capacity: int = CAPACITY
    counters: dict[bytes, int] = field(default_factory=dict)
    """At least so many records have the key."""
    error: int = 0
    """And at most so many more; a key without a counter has at most so many."""
    total: int = 0
    """Records with a key."""

    def add(self, counts: Mapping[bytes, int]) -> None:
        """Count some more keys."""
        for key, count in counts.items():
            self.counters[key] = self.counters.get(key, 0) + count
            self.total += count
        self._shrink()

    def merge(self, other: "Sketch") -> None:
        """Count what another sketch counted."""
        self.error += other.error
        uncounted = other.total - sum(other.counters.values())
        self.add(other.counters)
        self.total += uncounted

    def most_frequent(self, at_least: float) -> tuple[tuple[bytes, int], ...]:
        """Keys and counts, the most frequent first, that surely reach a count."""
        found = [item for item in self.counters.items() if item[1] >= at_least]
        return tuple(sorted(found, key=lambda item: (-item[1], item[0])))

    def _shrink(self) -> None:
        if len(self.counters) <= self.capacity:
            return
        too_many = sorted(self.counters.values(), reverse=True)[self.capacity]
        self.counters = {
            key: count - too_many for key, count in self.counters.items() if count > too_many
        }
        self.error += too_many


def short(key: bytes) -> bytes:
    """The key, or what stands for it where it is long: two long keys stay two."""
    if len(key) <= MAX_KEY_BYTES:
        return key
    digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
    return key[: MAX_KEY_BYTES - _DIGEST_BYTES] + digest
