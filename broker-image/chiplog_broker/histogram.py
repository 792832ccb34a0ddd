"""A histogram of durations, as plain integers; labels are added at a scrape."""

from bisect import bisect_left
from typing import Final

BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Histogram:
    """How many durations fell into each bucket, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.sum_s = 0.0
        # The last count is of durations above all bounds.
        self.counts = [0] * (len(BUCKETS_S) + 1)

    def observe(self, seconds: float) -> None:
        self.sum_s += seconds
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1

    @property
    def total(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of an upper bound and the number of durations up to it, as Prometheus expects."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*BUCKETS_S, "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((str(bound), total))
        return buckets
