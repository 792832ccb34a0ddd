"""Translates a group's committed offsets from the old partitions of a topic to the new ones.

A group continues in a new partition at the first record that it has not committed, from whichever
old partition that came. So nothing is skipped; what it has committed and comes after that record is
read again. Which record came from where is known for runs of records and not for each one, so an
offset may be a little lower than necessary, and never higher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import Offset, PartitionIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Records that follow each other in a new partition and come from one old partition, in its
    order. Records of the old partition between them may be in other new partitions."""

    first_offset: Offset
    """Of the first record, in the new partition."""
    count: int
    """The number of records, at least 1. Their offsets in the new partition have no gaps."""
    source: PartitionIndex
    """The old partition."""
    source_first: Offset
    """The offset of the first record in the old partition."""
    source_last: Offset
    """The offset of the last record in the old partition."""

    def fewest_committed(self, committed: Offset) -> int:
        """How many records of the run are certainly below this offset of the old partition."""
        if self.source_last < committed:
            return self.count
        if self.source_first >= committed:
            return 0
        # All source offsets differ, so at most this many records are at or above `committed`.
        return max(self.count - (self.source_last - committed + 1), 1)

    def most_committed(self, committed: Offset) -> int:
        """How many records of the run may be below this offset of the old partition."""
        if self.source_last < committed:
            return self.count
        return min(self.count - 1, max(committed - self.source_first, 0))


@dataclass(frozen=True, slots=True)
class Translation:
    """Where a group continues in the new partitions."""

    offsets: Mapping[PartitionIndex, Offset]
    """For each new partition the offset to commit."""
    replayed: int
    """At most this many records that the group has committed are read again."""


def translated(
    copied: Mapping[PartitionIndex, Sequence[Run]],
    ends: Mapping[PartitionIndex, Offset],
    committed: Mapping[PartitionIndex, Offset],
) -> Translation:
    """Where a group continues that has `committed` these offsets of old partitions.

    `copied` are the runs of each new partition, by offset, and `ends` the log end offsets. In an
    old partition without a committed offset the group has committed nothing.
    """
    offsets, replayed = {}, 0
    for partition, end in ends.items():
        runs = copied.get(partition, ())
        offsets[partition] = start = _start(runs, end, committed)
        replayed += sum(_replayed(run, start, committed) for run in runs)
    return Translation(offsets, replayed)


def _start(runs: Sequence[Run], end: Offset, committed: Mapping[PartitionIndex, Offset]) -> Offset:
    """The offset of the first record that may not be committed; the end if all are."""
    for run in runs:
        passed = run.fewest_committed(committed.get(run.source, Offset(0)))
        if passed < run.count:
            return Offset(run.first_offset + passed)
    return end


def _replayed(run: Run, start: Offset, committed: Mapping[PartitionIndex, Offset]) -> int:
    """How many committed records of a run, at most, are at or above `start`."""
    most = run.most_committed(committed.get(run.source, Offset(0)))
    return max(most - max(start - run.first_offset, 0), 0)
