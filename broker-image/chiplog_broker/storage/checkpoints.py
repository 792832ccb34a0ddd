"""Checkpoint files with an offset of each partition: recovery points, log start offsets, high
watermarks.

Changes of several partitions share a write. A file may be outdated, but never in a way that does
harm: a value that the next step relies on is durable before that step. For example, a recovery
point is lowered before a truncation, and a log start offset is raised before a deletion.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.checkpoint_text import CheckpointError, format_offsets, parse_offsets
from chiplog_broker.storage.group_commit import GroupCommit
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.names import (
    CLEANER_OFFSETS,
    GAP_ENDS,
    HIGH_WATERMARKS,
    HIGH_WATERMARKS_BEFORE_TRUNCATION,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)

Entries: TypeAlias = Mapping[TopicPartition, int]
InForce: TypeAlias = Callable[[Entries, Entries], Entries]
"""Called after a write that failed, with the entries of the file and those that could not be
written; returns the entries that are in force."""


def stored_ones(stored: Entries, _: Entries) -> Entries:
    """The entries of the file are in force, as if the others had never been set."""
    return stored


def refused_ones(_: Entries, refused: Entries) -> Entries:
    """The refused entries are in force until the next start."""
    return refused


def higher_ones(stored: Entries, refused: Entries) -> Entries:
    """Of each partition the higher entry: a higher one is knowledge, and a lower one would hold
    only after a truncation, which is refused as well."""
    return {**refused, **{name: max(at, refused.get(name, at)) for name, at in stored.items()}}


class OffsetCheckpoint:
    """One checkpoint file. `damaged`: it existed when it was opened, but could not be parsed."""

    __slots__ = (
        "_commit",
        "_disk",
        "_health",
        "_in_force",
        "_offsets",
        "_path",
        "_stored",
        "_version",
        "_waiting",
        "damaged",
        "is_missing",
    )

    def __init__(
        self, disk: Disk, path: str, health: DirectoryHealth, in_force: InForce = stored_ones
    ) -> None:
        """`in_force`: which entries are in force after a write that failed."""
        self._in_force = in_force
        self._disk = disk
        self._path = path
        self._health = health
        self.damaged = False
        """Whether the file could not be parsed: then `get` knows no entries."""
        self.is_missing = not disk.exists(path)
        self._offsets: dict[TopicPartition, int] = {}
        try:
            if not self.is_missing:
                self._offsets.update(_read(disk, path))
        except (CheckpointError, ValueError):
            self.damaged = True
        self._stored = dict(self._offsets)
        """The entries in the file."""
        self._waiting: list[Mapping[TopicPartition, int | None]] = []
        """The changes since the last write began, oldest first; None removes an entry."""
        self._version = 0
        """The number of changes; a write makes all changes up to its version durable."""
        self._commit = GroupCommit(self._write)

    def get(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    async def put(self, partition: TopicPartition, offset: int) -> None:
        """Set one entry; durable on return."""
        await self.update({partition: offset})

    async def update(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set these entries and keep the others; durable on return."""
        await self._change(offsets)

    async def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove these entries; durable on return."""
        await self._change(dict.fromkeys(partitions))

    async def create(self) -> None:
        """Write the file if it does not exist."""
        if self.is_missing:
            self._version += 1
            await self._commit.reach(self._version)

    async def rewrite(self) -> None:
        """Write the file again, durably: the content that was read at the start may have been in
        the page cache only. A damaged file is not overwritten."""
        if self._offsets and not self.damaged:
            self._version += 1
            await self._commit.reach(self._version)

    async def _change(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set these entries, remove those with None, and keep the others; durable on return."""
        if any(self._offsets.get(partition) != offset for partition, offset in offsets.items()):
            _apply(offsets, self._offsets)
            self._version += 1
        # Also without a change: an earlier call with the same entry may not have written it yet.
        if self._version > self._commit.reached:
            self._waiting.append(offsets)
        await self._commit.reach(self._version)

    async def _write(self) -> int:
        """Write all entries to the file; returns the version of the entries that it contains."""
        version = self._version
        written, self._waiting = dict(self._offsets), []
        lines = format_offsets(
            f"{partition.topic} {partition.partition} {offset}"
            for partition, offset in sorted(written.items())
        )
        try:
            await self._disk.replace(self._path, lines)
        except OSError as error:
            self._take_back(written)
            self._health.write_failed(error)
        self._stored = written
        self.is_missing = False
        return version

    def _take_back(self, refused: dict[TopicPartition, int]) -> None:
        """After a write that failed: go back to the entries of the file, and the changes since.

        Otherwise a later write for another partition would store what was refused, and a caller
        that tries again might take it for stored. `refused` are the entries of that write.
        """
        self._offsets = dict(self._in_force(self._stored, refused))
        for offsets in self._waiting:
            _apply(offsets, self._offsets)


class DirectoryCheckpoints:
    """The checkpoint files of a data directory."""

    __slots__ = (
        "cleaner_offsets",
        "gap_ends",
        "high_watermarks",
        "high_watermarks_before_truncation",
        "log_starts",
        "recovery_points",
    )

    def __init__(self, disk: Disk, health: DirectoryHealth) -> None:
        self.recovery_points = OffsetCheckpoint(disk, RECOVERY_POINTS, health)
        self.log_starts = OffsetCheckpoint(disk, LOG_START_OFFSETS, health)
        self.high_watermarks = OffsetCheckpoint(disk, HIGH_WATERMARKS, health, higher_ones)
        """The last known high watermarks. One that could not be stored is still known."""
        self.cleaner_offsets = OffsetCheckpoint(disk, CLEANER_OFFSETS, health)
        """The offsets up to which logs are compacted; 0 for one that was fetched with gaps."""
        self.gap_ends = OffsetCheckpoint(disk, GAP_ENDS, health, refused_ones)
        """The offsets below which logs may have gaps, because compaction removed records here or on
        the leader that the log was fetched from. A log without an entry has no gaps."""
        self.high_watermarks_before_truncation = OffsetCheckpoint(
            disk, HIGH_WATERMARKS_BEFORE_TRUNCATION, health, higher_ones
        )
        """The last known high watermarks of logs whose end was lost at a start of the broker: it
        was truncated, or the log was found shorter than its high watermark."""

    async def forget(self, partition: TopicPartition) -> None:
        """Remove the entries of a partition that is deleted or created again."""
        for checkpoint in self._all():
            await checkpoint.forget([partition])

    async def rewrite(self) -> None:
        """Make the content of all files durable: it may be in the page cache only."""
        for checkpoint in self._all():
            await checkpoint.rewrite()

    def _all(self) -> tuple[OffsetCheckpoint, ...]:
        return (
            self.recovery_points,
            self.log_starts,
            self.high_watermarks,
            self.cleaner_offsets,
            self.gap_ends,
            self.high_watermarks_before_truncation,
        )


def _apply(
    changes: Mapping[TopicPartition, int | None], offsets: dict[TopicPartition, int]
) -> None:
    """Set these entries in `offsets`, and remove those with None."""
    for partition, offset in changes.items():
        if offset is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = offset


def _read(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The entries of a file. Raises `CheckpointError`, or `ValueError` for a wrong number."""
    rows = parse_offsets(read_file(disk, path))
    return {TopicPartition(row[0], int(row[1])): int(row[2]) for row in rows}
