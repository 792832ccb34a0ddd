"""The name of a partition."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple


class At(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[At]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each topic with the numbers of its partitions, both in order."""
    for topic, of_topic in groupby(sorted(partitions), lambda at: at.topic):
        yield topic, tuple(at.partition for at in of_topic)
