"""Bands of a lag. A lag that moves to another band is published soon: it has changed by about half,
or has begun or ended.

Band 0 is no lag, and band n is from 1.5^(n-1) to 1.5^n records (or seconds), in whole numbers. An
unknown lag has a band of its own.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Final

from chiplog_core.ids import MAX_INT64

UNKNOWN: Final = -1
"""The band of an unknown lag."""


def _edges() -> tuple[int, ...]:
    """The smallest lag of each band, from band 1 on. Each edge is 1.5 times the one before."""
    edges = [1]
    while edges[-1] <= MAX_INT64:
        edges.append(max(edges[-1] + 1, edges[-1] * 3 // 2))
    return tuple(edges)


EDGES: Final = _edges()
assert all(lower < upper for lower, upper in pairwise(EDGES))


def band(lag: int | None) -> int:
    """The band of a lag; `UNKNOWN` for None and for a lag below 0."""
    if lag is None or lag < 0:
        return UNKNOWN
    return bisect_right(EDGES, lag)
