"""Finds frequent keys in bounded memory, with a bound of the error.

This is the summary of Misra and Gries (1982), as Agarwal, Cormode, Huang, Phillips, Wei and Yi made
it mergeable (Mergeable summaries, 2012). It has at most `capacity` keys with counters. If there are
more, the counter of the first key beyond the capacity is subtracted from all, and counters above
zero stay. No counter is too low by more than the sum of these subtractions, which is at most the
number of counted keys divided by `capacity` + 1. Sketches can be merged in any order and keep this
bound.
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
    """Frequent keys of a number of records; the module describes the algorithm."""

    capacity: int = CAPACITY
    counters: dict[bytes, int] = field(default_factory=dict)
    """Key -> a lower bound of the number of its records: there are at least so many."""
    error: int = 0
    """The maximum by which a counter is too low; also the maximum count of a key without a
    counter."""
    total: int = 0
    """The number of records with a key."""

    def add(self, counts: Mapping[bytes, int]) -> None:
        """Count more records: `counts` is their number by key."""
        for key, count in counts.items():
            self.counters[key] = self.counters.get(key, 0) + count
            self.total += count
        self._shrink()

    def merge(self, other: "Sketch") -> None:
        """Add the counts of another sketch, and its records whose keys have no counter there."""
        self.error += other.error
        # These records count in the total, too, although their keys have no counter.
        uncounted = other.total - sum(other.counters.values())
        self.add(other.counters)
        self.total += uncounted

    def most_frequent(self, at_least: float) -> tuple[tuple[bytes, int], ...]:
        """Keys whose count certainly reaches `at_least`, with their counters, the most frequent
        first."""
        found = [item for item in self.counters.items() if item[1] >= at_least]
        return tuple(sorted(found, key=lambda item: (-item[1], item[0])))

    def _shrink(self) -> None:
        """Reduce the counters to at most `capacity`: subtract the next largest one from all."""
        if len(self.counters) <= self.capacity:
            return
        subtracted = sorted(self.counters.values(), reverse=True)[self.capacity]
        self.counters = {
            key: count - subtracted for key, count in self.counters.items() if count > subtracted
        }
        self.error += subtracted


def shortened(key: bytes) -> bytes:
    """The key itself, or for a long one its beginning and a digest of the whole key."""
    if len(key) <= MAX_KEY_BYTES:
        return key
    digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
    return key[: MAX_KEY_BYTES - _DIGEST_BYTES] + digest
