"""The offsets of a replica that were read: others may be missing without being lost."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Range(NamedTuple):
    """Offsets from `start` to `end`, exclusive, of one replica."""

    replica: int
    start: int
    end: int


class Covered:
    """The ranges that were read of one replica; adjacent ones are joined."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        """Join overlapping and adjacent ranges, so that `ranges` is sorted and has gaps in between.

        Empty ranges are left out.
        """
        joined: list[tuple[int, int]] = []
        for part in sorted(ranges, key=lambda part: part.start):
            if part.end <= part.start:
                continue
            if joined and part.start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], part.end)
            else:
                joined.append((part.start, part.end))
        self.ranges = tuple(joined)

    def range_at(self, offset: int) -> tuple[int, int] | None:
        """Start and end of the range that contains an offset; None if it was not read."""
        at = bisect_right(self.ranges, offset, key=lambda part: part[0]) - 1
        if at < 0 or offset >= self.ranges[at][1]:
            return None
        return self.ranges[at]

    def holds(self, start: int, end: int) -> bool:
        """Whether all of these offsets were read."""
        found = self.range_at(start)
        return found is not None and end <= found[1]

    @property
    def end(self) -> int:
        """The end of the last range; 0 for none."""
        return self.ranges[-1][1] if self.ranges else 0
