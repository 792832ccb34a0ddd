"""What a run exports: ranges from the committed offsets to the present end of the topic.

Sizes are in offsets, not records: how many of these are of records that compaction has removed, of
aborted transactions, or of end markers is unknown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from chiplog_spark.export.commits import CommittedEnd, OffsetRange

FIRST_RECORDS_PER_FILE: Final = 50_000
"""The limit for the first files: the size of records is unknown before any were written."""


class Held(NamedTuple):
    """The offsets of a partition, from the log start offset to the last stable offset."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of files and steps."""

    file_bytes: int
    records_per_file: int
    files_per_commit: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges that are not exported yet."""

    todo: tuple[OffsetRange, ...]
    """At most one range per partition, none empty, ordered by partition."""

    lost: tuple[OffsetRange, ...]
    """Offsets that were not exported and do not exist any more."""


class WentBack(Exception):  # noqa: N818 - named for what it says
    """The topic ends before the exported offsets: it is another topic, or has lost records."""


def plan(held: Mapping[int, Held], ends: Iterable[CommittedEnd]) -> Plan:
    """The ranges between the committed end offsets (`ends`) and the present ones (in `held`).

    Raises `WentBack` if a partition has disappeared or ends below its committed offset.

    A partition without a commit begins at its log start offset: records that retention deleted
    before the first export are not counted as lost.
    """
    committed = {end.partition: end.offset for end in ends}
    if missing := sorted(set(committed) - set(held)):
        raise WentBack(f"partition {missing[0]} was exported, but does not exist any more")
    todo, lost = [], []
    for partition in sorted(held):
        offsets = held[partition]
        first = committed.get(partition, offsets.start)
        if first > offsets.end:
            raise WentBack(
                f"partition {partition} was exported up to {first}, but ends at {offsets.end}"
            )
        if first < offsets.start:
            lost.append(OffsetRange(partition=partition, first=first, end=offsets.start))
        start = max(first, offsets.start)
        if start < offsets.end:
            todo.append(OffsetRange(partition=partition, first=start, end=offsets.end))
    return Plan(tuple(todo), tuple(lost))


@dataclass(frozen=True, slots=True)
class Step:
    """The content of one commit: at most one range per partition, and the files that it becomes."""

    ranges: tuple[OffsetRange, ...]
    records_per_file: int

    @property
    def files(self) -> tuple[OffsetRange, ...]:
        """The ranges divided into files of nearly the same size, by partition and offset.

        The data source divides ranges into splits in the same way, so that each task writes one
        file.
        """
        return tuple(
            file for whole in self.ranges for file in split_range(whole, self.records_per_file)
        )


def split_range(whole: OffsetRange, records: int) -> Iterable[OffsetRange]:
    """Parts of nearly the same size, each with at most this many offsets."""
    length = whole.end - whole.first
    count = -(-length // records)  # rounded up
    for number in range(count):
        yield OffsetRange(
            partition=whole.partition,
            first=whole.first + length * number // count,
            end=whole.first + length * (number + 1) // count,
        )


def next_step(todo: Iterable[OffsetRange], records_per_file: int, files: int) -> Step:
    """The beginning of `todo` that fits into one commit of at most `files` files.

    The files are distributed evenly among the partitions that are not complete.
    """
    incomplete = {range_.partition: range_ for range_ in todo}
    files_of_partition = dict.fromkeys(incomplete, 0)
    files_left = files
    while files_left and incomplete:
        for partition in sorted(incomplete)[:files_left]:
            range_ = incomplete[partition]
            files_of_partition[partition] += 1
            files_left -= 1
            if range_.first + files_of_partition[partition] * records_per_file >= range_.end:
                del incomplete[partition]
    ranges = [
        OffsetRange(
            partition=range_.partition,
            first=range_.first,
            end=min(
                range_.end, range_.first + files_of_partition[range_.partition] * records_per_file
            ),
        )
        for range_ in todo
        if files_of_partition[range_.partition]
    ]
    return Step(tuple(ranges), records_per_file)


def remaining_after(todo: Iterable[OffsetRange], step: Step) -> tuple[OffsetRange, ...]:
    """The ranges of `todo` that are left after a step."""
    exported_ends = {range_.partition: range_.end for range_ in step.ranges}
    left = [
        OffsetRange(
            partition=range_.partition,
            first=exported_ends.get(range_.partition, range_.first),
            end=range_.end,
        )
        for range_ in todo
    ]
    return tuple(range_ for range_ in left if range_.first < range_.end)


def records_per_file(bounds: Bounds, offsets: int, written_bytes: int) -> int:
    """The number of offsets for a file, estimated from the size of earlier files.

    `offsets` and `written_bytes` are those of the last commit with files; both are 0 if there is
    none.
    """
    if not offsets or not written_bytes:
        return min(FIRST_RECORDS_PER_FILE, bounds.records_per_file)
    fitting_offsets = bounds.file_bytes * offsets // written_bytes
    return max(1, min(fitting_offsets, bounds.records_per_file))
