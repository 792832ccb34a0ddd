"""What a run reads: ranges of offsets from what is committed to where the topic ends now.

Offsets are counted, not records: nobody knows how many of them compaction left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from chiplog_spark.export.commits import CommittedEnd, OffsetRange

FIRST_RECORDS_PER_FILE: Final = 50_000
"""Before anything was written nobody knows how large records are."""


class Held(NamedTuple):
    """What a partition holds: from the log start up to the high watermark."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large files and steps may become."""

    file_bytes: int
    records_per_file: int
    files_per_commit: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is still to be exported."""

    todo: tuple[OffsetRange, ...]
    """At most one a partition, none empty, by partition."""

    lost: tuple[OffsetRange, ...]
    """Not exported, and not in the topic any more."""


class WentBack(Exception):  # noqa: N818 - named for what it says
    """The topic ends before what was exported of it: it is not the topic that it was."""


def plan(held: Mapping[int, Held], ends: Iterable[CommittedEnd]) -> Plan:
    """What lies between what is committed and what there is. Raises `WentBack`.

    A partition of which nothing is committed begins at its log start: what retention took before
    the first export was never to be exported.
    """
    committed = {end.partition: end.offset for end in ends}
    if gone := sorted(set(committed) - set(held)):
        raise WentBack(f"partition {gone[0]} was exported, but does not exist any more")
    todo, lost = [], []
    for partition in sorted(held):
        here = held[partition]
        first = committed.get(partition, here.start)
        if first > here.end:
            raise WentBack(
                f"partition {partition} was exported up to {first}, but ends at {here.end}"
            )
        if first < here.start:
            lost.append(OffsetRange(partition=partition, first=first, end=here.start))
        start = max(first, here.start)
        if start < here.end:
            todo.append(OffsetRange(partition=partition, first=start, end=here.end))
    return Plan(tuple(todo), tuple(lost))


@dataclass(frozen=True, slots=True)
class Step:
    """What one commit holds: at most one range a partition, and the files that it becomes."""

    ranges: tuple[OffsetRange, ...]
    records_per_file: int

    @property
    def files(self) -> tuple[OffsetRange, ...]:
        """The ranges cut into files of nearly the same size, by partition and offset.

        As the data source cuts ranges into splits, so that a task writes one file.
        """
        return tuple(file for whole in self.ranges for file in cut(whole, self.records_per_file))


def cut(whole: OffsetRange, records: int) -> Iterable[OffsetRange]:
    """Parts of nearly the same size, none with more than so many offsets."""
    length = whole.end - whole.first
    count = -(-length // records)
    for number in range(count):
        yield OffsetRange(
            partition=whole.partition,
            first=whole.first + length * number // count,
            end=whole.first + length * (number + 1) // count,
        )


def next_step(todo: Iterable[OffsetRange], records_per_file: int, files: int) -> Step:
    """As much as fits into one commit, shared out evenly among the partitions that wait."""
    waiting = {range_.partition: range_ for range_ in todo}
    shares = dict.fromkeys(waiting, 0)
    room = files
    while room and waiting:
        for partition in sorted(waiting)[:room]:
            range_ = waiting[partition]
            shares[partition] += 1
            room -= 1
            if range_.first + shares[partition] * records_per_file >= range_.end:
                del waiting[partition]
    ranges = [
        OffsetRange(
            partition=range_.partition,
            first=range_.first,
            end=min(range_.end, range_.first + shares[range_.partition] * records_per_file),
        )
        for range_ in todo
        if shares[range_.partition]
    ]
    return Step(tuple(ranges), records_per_file)


def without(todo: Iterable[OffsetRange], step: Step) -> tuple[OffsetRange, ...]:
    """What is left when a step is done."""
    done = {range_.partition: range_.end for range_ in step.ranges}
    left = [
        OffsetRange(
            partition=range_.partition,
            first=done.get(range_.partition, range_.first),
            end=range_.end,
        )
        for range_ in todo
    ]
    return tuple(range_ for range_ in left if range_.first < range_.end)


def records_per_file(bounds: Bounds, offsets: int, written_bytes: int) -> int:
    """How many offsets a file may have, going by what was written before it.

    `offsets` and `written_bytes` are those of the last commit with files; both 0 where there is
    none.
    """
    if not offsets or not written_bytes:
        return min(FIRST_RECORDS_PER_FILE, bounds.records_per_file)
    fitting = bounds.file_bytes * offsets // written_bytes
    return max(1, min(fitting, bounds.records_per_file))
