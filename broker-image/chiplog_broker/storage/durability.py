"""Tracks the part of one log that is written but not durable, and syncs it.

One round makes durable, in this order: every segment with new bytes, oldest first; the names of
files that were created or removed; producer snapshots; the epoch history. Only then the durable end
offset is raised. So it never covers a record whose segment, file name or epoch could be lost.
"""

from collections.abc import Callable

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.errors import DiskFullError, RecordsTruncatedError
from chiplog_broker.storage.group_commit import GroupCommit
from chiplog_broker.storage.health import DirectoryHealth, lacks_descriptors
from chiplog_broker.storage.names import EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, segment_file
from chiplog_broker.storage.segment import Segment


class LogSync:
    """The unsynced part of one log."""

    __slots__ = (
        "_commit",
        "_directory",
        "_disk",
        "_end_offset",
        "_epoch_commit",
        "_epochs",
        "_health",
        "_names_changed",
        "_round_end",
        "_snapshots",
        "_unsynced",
        "unsynced_since_ms",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        health: DirectoryHealth,
        epochs: EpochHistory,
        *,
        durable_end_offset: int,
        end_offset: Callable[[], int],
    ) -> None:
        """`durable_end_offset`: all records below it are synced already. `end_offset` returns the
        present log end offset."""
        self._disk = disk
        self._directory = directory
        self._health = health
        self._epochs = epochs
        self._end_offset = end_offset
        self._unsynced: list[Segment] = []
        """Segments with bytes that are not synced, the oldest first."""
        self._snapshots: dict[int, bytes] = {}
        """Producer snapshots to be written with the next round, by offset."""
        self._names_changed = False
        """Whether the directory must be synced, because files were created or removed."""
        self.unsynced_since_ms: int | None = None
        """When the oldest unsynced byte was written; None if all are synced."""
        self._round_end = durable_end_offset
        """The end offset that the round in progress makes durable; a truncation lowers it."""
        self._commit = GroupCommit(self._sync_round, durable_end_offset)
        self._epoch_commit = GroupCommit(self._save_epochs)

    @property
    def durable_end_offset(self) -> int:
        """All records below this offset survive a power cut."""
        return self._commit.reached

    @property
    def epochs_saved(self) -> bool:
        """Whether the present epoch history is durable."""
        return self._epoch_commit.reached >= self._epochs.version

    @property
    def has_finished_segment(self) -> bool:
        """Whether a finished segment, or its producer snapshot, is not synced yet."""
        return len(self._unsynced) > 1 or bool(self._snapshots)

    def lacks_snapshot(self, offset: int) -> bool:
        """Whether a producer snapshot as of `offset` or before is not written yet."""
        return any(pending <= offset for pending in self._snapshots)

    @property
    def is_all_durable(self) -> bool:
        """Whether all records, file names, snapshots and epochs are durable."""
        return (
            not (self._unsynced or self._snapshots or self._names_changed)
            and self.epochs_saved
            and self.durable_end_offset == self._end_offset()
        )

    def wrote_to(self, segment: Segment, now_ms: int) -> None:
        """Record that `segment` has bytes that are not synced."""
        if not segment.unsynced:
            segment.unsynced = True
            self._unsynced.append(segment)
            if self.unsynced_since_ms is None:
                self.unsynced_since_ms = now_ms

    def names_changed(self) -> None:
        """Record that a file was created or removed in the log's directory."""
        self._names_changed = True

    def add_snapshot(self, offset: int, data: bytes) -> None:
        """Have this producer snapshot, as of `offset`, written with the next round."""
        self._snapshots[offset] = data

    def cut_at(self, offset: int) -> None:
        """After a truncation to `offset`: callers that wait for records above it get an error."""
        self._round_end = min(self._round_end, offset)
        self._commit.withdraw(offset, RecordsTruncatedError(f"the log was truncated to {offset}"))
        for later in [pending for pending in self._snapshots if pending > offset]:
            del self._snapshots[later]

    async def reach(self, offset: int) -> None:
        """Return once everything below `offset` is durable."""
        await self._commit.reach(offset)

    async def flush(self) -> None:
        """Make everything durable now, including names and snapshots."""
        if not self.is_all_durable:
            await self._commit.once_more()

    async def idle(self) -> None:
        """Return when no sync of this log is in progress."""
        await self._commit.idle()
        await self._epoch_commit.idle()

    async def save_epochs(self) -> None:
        """Return once the present epoch history is durable."""
        await self._epoch_commit.reach(self._epochs.version)

    async def _sync_round(self) -> int:
        """Make everything durable that is written now; returns the durable end offset.

        All that is written during the round waits for the next one.
        """
        self._round_end = self._end_offset()
        segments, self._unsynced = self._unsynced, []
        snapshots, self._snapshots = self._snapshots, {}
        names_changed, self._names_changed = self._names_changed, False
        unsynced_since_ms, self.unsynced_since_ms = self.unsynced_since_ms, None
        for segment in segments:
            segment.unsynced = False
        try:
            for segment in segments:
                if not segment.retired:
                    await segment.sync()
            if names_changed:
                await self._disk.sync_directory(self._directory)
        except OSError as error:
            if lacks_descriptors(error):
                # A file could not be opened, but no sync has failed: the next round can do it all.
                self._restore_unsynced(segments, snapshots, unsynced_since_ms)
                self._names_changed |= names_changed
                self._health.write_failed(error)  # raises
            self._health.take_offline(error)
        for offset, data in snapshots.items():
            await self._write_snapshot(offset, data)
        await self.save_epochs()
        return self._round_end

    def _restore_unsynced(
        self, segments: list[Segment], snapshots: dict[int, bytes], unsynced_since_ms: int | None
    ) -> None:
        """Give the segments and snapshots of a failed round to the next one, before newer ones.

        Snapshots of records that were truncated in the meantime are dropped.
        """
        for segment in segments:
            segment.unsynced = True
        self._unsynced = segments + [
            segment for segment in self._unsynced if segment not in segments
        ]
        kept = {offset: data for offset, data in snapshots.items() if offset <= self._round_end}
        self._snapshots = kept | self._snapshots
        self.unsynced_since_ms = unsynced_since_ms

    async def _save_epochs(self) -> int:
        """Write the epoch history; returns the version that was written."""
        version = self._epochs.version
        path = f"{self._directory}/{EPOCH_CHECKPOINT}"
        try:
            await self._disk.replace(path, self._epochs.encode())
        except OSError as error:
            self._health.write_failed(error)
        return version

    async def _write_snapshot(self, offset: int, data: bytes) -> None:
        """Write a snapshot, unless its records were truncated in the meantime."""
        path = self._snapshot_path(offset)
        try:
            if offset <= self._round_end:
                await self._disk.replace(path, data)
            # Not `else`: a truncation during the await lowers `_round_end`.
            if offset > self._round_end:
                self._disk.remove(path)
                self._names_changed = True
        except OSError as error:
            try:
                self._health.write_failed(error)
            except DiskFullError:
                # Without the snapshot recovery only takes longer: no error. The next round tries
                # again.
                self._snapshots.setdefault(offset, data)

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
