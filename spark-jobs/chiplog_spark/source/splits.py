"""Cutting ranges of offsets into splits: so that one large partition uses many executors."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from chiplog_spark.source.ranges import Range
from chiplog_spark.wire.facts import Place, TopicFacts

MAX_SPLITS: Final = 10_000
"""Tasks of one read. Spark's driver keeps all of them in memory, so more offsets make larger
splits."""


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a partition that one task reads."""

    at: Place
    start: int
    end: int
    begins_range: bool
    """Whether a batch that begins before `start` belongs to this split, and not to the previous
    one."""

    def owns(self, base_offset: int) -> bool:
        """Whether a batch belongs to this split: each batch belongs to exactly one split of a
        range."""
        return base_offset < self.end and (self.begins_range or base_offset >= self.start)


def splits_of(
    topic: TopicFacts, replica: int, ranges: Iterable[Range], records_per_split: int
) -> list[Split]:
    """Splits of similar size in each partition, none above `records_per_split`.

    They are larger if there would be more than `MAX_SPLITS`. Sizes are in offsets: how many records
    compaction has removed is unknown.
    """
    nonempty = [range_ for range_ in ranges if range_.start < range_.end]
    total = sum(range_.end - range_.start for range_ in nonempty)
    size = max(records_per_split, -(-total // MAX_SPLITS))  # rounded up
    return [
        split
        for range_ in nonempty
        for split in _cut(
            Place(topic.name, topic.topic_id, range_.partition, replica), range_, size
        )
    ]


def _cut(at: Place, range_: Range, size: int) -> Iterable[Split]:
    """Splits of nearly equal length, each with at most `size` offsets."""
    length = range_.end - range_.start
    count = -(-length // size)  # rounded up
    bounds = [range_.start + length * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield Split(at, start, end, begins_range=start == range_.start)
