"""Opens a log that may have been left in any state.

After a clean shutdown nothing is read except the end after the last index entry, if the log ends
where the shutdown left it. If it ends above, it is checked as after a crash, but nothing is
truncated: a clean shutdown leaves no incomplete write, so each fault is damage.

After a crash the recovery point divides the log; everything below it was durable when the
checkpoint was written:

* **above** it, a crash may have left anything. Every batch is checked (framing, checksum, offset
  continuity, epoch). At the first fault the log is truncated. The truncation is reported to the
  operator, because acknowledged records may be lost with it: an incomplete write cannot be
  distinguished from a changed bit. The batches before the fault are written again, to new files,
  and synced before they may be acknowledged: they may be in the page cache only, in pages that the
  kernel considers clean after a failed sync;
* **below** it, nothing may be missing or changed. A fault is damage: the log is not opened, its
  files stay as they are, and the replica is refetched.

Index files and snapshots above the recovery point may be wrong as well: they are derived again from
the batches. The epoch history is correct: no record is acknowledged before its epoch is saved, so a
batch of an unknown epoch is truncated.

These are generators, so that a large log does not block the event loop: they yield the bytes read
since the last step.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from chiplog_broker.ports.disk import Disk, SyncFailedError
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.batch_walk import read_batches, walk_batches
from chiplog_broker.storage.checkpoint_text import CheckpointError
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.epochs import EpochHistory, decode_epochs
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.health import NO_SPACE
from chiplog_broker.storage.loaded_log import LoadedLog
from chiplog_broker.storage.locating import is_cut_short
from chiplog_broker.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_in_name,
    segment_file,
)
from chiplog_broker.storage.producer_replay import load_snapshot, replay, snapshot_offsets
from chiplog_broker.storage.producer_snapshot import encode_snapshot
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.segment import IndexSettings, Segment
from chiplog_broker.storage.transactions import (
    NO_UNSTABLE_OFFSET,
    TRANSACTION_MASK,
    LogTransactions,
)
from chiplog_wire.records.batch import MAX_OFFSET, BatchHeader, check_crc
from chiplog_wire.records.control import EndMarker, read_marker
from chiplog_wire.records.errors import CorruptBatchError

_SCAN_BYTES = 2**20
_UNFINISHED = ".tmp"
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, _UNFINISHED, CLEANED_SUFFIX)
_INDEX_SUFFIXES = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX)

Steps = Generator[int, None, None]
"""A generator that yields the number of bytes read since its last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """The known facts about a log before its files are read."""

    disk: Disk
    directory: str
    config: LogConfig
    now_ms: int
    clean: bool
    """Whether the last broker shut down cleanly."""
    log_start_offset: int | None
    """From the checkpoint; None if there is no entry."""
    recovery_point: int | None
    """From the checkpoint; None if that file is damaged: then nothing may be truncated."""
    gap_end_offset: int = 0
    """The offset below which the log may have gaps: compaction removed records here, or in the log
    that this one was fetched from."""
    high_watermark: int = 0
    """From the checkpoint: transactions whose end markers are below it are decided."""


def _read_chunks(segment: Segment, position: int) -> Iterator[bytes]:
    """The bytes of a segment from a position on, in chunks."""
    while position < segment.size_bytes:
        data = segment.log.read(position, min(_SCAN_BYTES, segment.size_bytes - position))
        position += len(data)
        yield data


class _TailStart(NamedTuple):
    """The byte position in a segment, and the offset, where the batches above the recovery point
    begin."""

    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The bytes that recovery removed from the end of a log."""

    size_bytes: int
    reason: str


class LogRecovery:
    """Recovers one log. Exhaust `run()`, then take the results."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._disk = source.disk
        self._names: list[str] = []
        self._known_durable_end = source.recovery_point or 0
        """The recovery point, or 0 if it is unknown: all records below it were durable."""
        self._gap_end_offset = source.gap_end_offset
        self.segments: list[Segment] = []
        self.epochs = EpochHistory()
        self.producers = ProducerStates()
        self.log_start_offset = source.log_start_offset or 0
        self.durable_end_offset = 0
        self.cut: Cut | None = None
        """What is removed from the end of the log. It is set one step of `run` before the removal,
        so that the caller can store it first."""
        self.unsynced: list[Segment] = []
        self._epochs_known = True
        """Whether the epoch history could be read; otherwise it is derived from the batches."""
        self._epochs_contradicted = False
        """Whether a batch has an older epoch than the history says: the batch or the history was
        changed."""
        self._gap: tuple[int, int] | None = None
        """The newest gap between batches, which compaction may leave: its first offset, and the
        offset after it."""
        self._transactions = LogTransactions()
        self._transactions_end = NO_UNSTABLE_OFFSET
        """The open transactions at the start of the segment that is scanned, and its base offset;
        an offset that no segment has until they are needed."""
        self._last_base_offset = 0
        """The base offset of the last batch that was scanned."""
        self._rebuilt: list[Segment] = []
        """Sealed segments with rebuilt indexes, or a truncated file, which must be synced."""
        self._snapshot = b""
        """The producer snapshot as of the first batch above the recovery point."""
        self._snapshots: dict[int, bytes] = {}
        """By base offset: the producer snapshots of segments that have none on disk."""
        self.had_no_space = False
        """Whether the disk was full, so that the bytes above the recovery point were rewritten in
        place."""
        self._tail_starts: dict[int, _TailStart] = {}
        """By base offset: where the batches above the recovery point begin in each segment that was
        read."""

    def run(self) -> Steps:
        """Open the log, and recover it if the last shutdown was not clean.

        Raises `DamagedLogError` if it must not be used.
        """
        self._remove_leftovers()
        yield from self._find_segments()
        self._load_epochs()
        try:
            if self._source.clean:
                yield from self._open_clean()
            else:
                yield from self._recover()
        except CorruptBatchError as error:
            raise DamagedLogError(str(error)) from error
        yield from self._fix_log_start()
        self.epochs.truncate_start(self.log_start_offset)
        # Remove epochs that begin at or above the log end: they have no records. In an empty log
        # the one that begins at its start stays, unless a batch has contradicted the history: if
        # that epoch were wrong, the records of no leader could continue the log.
        last_kept = self.log_start_offset + (0 if self._epochs_contradicted else 1)
        self.epochs.truncate_end(max(self._end_offset, last_kept))

    async def rewrite_tail(self) -> None:
        """Write the bytes above the recovery point to new files, durable on return.

        A failed sync may have left pages that the kernel considers clean and never wrote; another
        sync succeeds without writing them (fsyncgate). On ext4, overwriting them does not help,
        because it treats these blocks as unwritten afterwards; it is done only if there is no space
        for a new file.

        Call this after `run`. Raises `OSError`.
        """
        to_rewrite = [
            (segment, tail_start)
            for segment in self.unsynced
            if (tail_start := self._tail_starts.get(segment.base_offset)) is not None
            and tail_start.position < segment.size_bytes
        ]
        for segment, tail_start in to_rewrite:
            await self._rewrite_to_new_file(segment, tail_start)
        if to_rewrite:
            self.epochs.touch()

    async def _rewrite_to_new_file(self, segment: Segment, tail_start: "_TailStart") -> None:
        """Move the batches from `tail_start` on to a new file.

        If durable batches precede them, these stay in the old file, and the new file becomes a
        segment of its own. Otherwise the new file replaces the old one.
        """
        path = self._path(segment_file(tail_start.offset, LOG_SUFFIX))
        try:
            await self._copy(segment, tail_start.position, path + _UNFINISHED)
            if tail_start.position:
                snapshot = self._path(segment_file(tail_start.offset, SNAPSHOT_SUFFIX))
                await self._disk.replace(snapshot, self._snapshot)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._disk.remove(path + _UNFINISHED)
            self.had_no_space = True
            await self._rewrite_in_place(segment, tail_start.position)
            return
        self._disk.rename(path + _UNFINISHED, path)
        # Make the new name durable before the old bytes are removed. A restart in between finds
        # both copies, and uses the new one.
        await self._disk.sync_directory(self._source.directory)
        if tail_start.position == 0:
            segment.close()  # the old file was replaced: the next access opens the new one
            return
        tail = self._new_segment(tail_start.offset)
        tail.start_rebuild(self._source.now_ms)
        for _, header in walk_batches(tail.log, 0, tail.log.size()):
            tail.count(header.last_offset, header.newest_record_ms, header.size_bytes)
        tail.transaction_index.add_aborted(segment.aborted_from(tail_start.offset))
        # The kernel may still report a failed sync of the last process, once, to the next sync of
        # the file. The bytes that it concerns were copied: ignore it here.
        with suppress(SyncFailedError):
            await segment.log.sync()
        is_newest, tail.sealed = segment is self.segments[-1], segment.sealed
        segment.truncate(tail_start.position, tail_start.offset)
        await segment.log.sync()
        for part in (segment,) if is_newest else (segment, tail):
            part.seal()
            part.sealed = True
        for segments in (self.segments, self.unsynced):
            segments.insert(segments.index(segment) + 1, tail)

    async def _copy(self, segment: Segment, position: int, path: str) -> None:
        """Copy the bytes of a segment from `position` on to a new file, durable on return."""
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            for data in _read_chunks(segment, position):
                file.append(data)
                await asyncio.sleep(0)
            await file.sync()
        finally:
            file.close()

    async def _rewrite_in_place(self, segment: Segment, position: int) -> None:
        """Rewrite a segment in place, so that its pages are dirty and get synced again.

        Used if the volume has no space for a new file.
        """
        # The kernel may still report a failed sync of the last process, once: ignore it here.
        with suppress(SyncFailedError):
            await segment.log.sync()
        for data in _read_chunks(segment, position):
            segment.log.write_at(position, data)
            position += len(data)
            await asyncio.sleep(0)

    def loaded(self) -> LoadedLog:
        """The recovered state, from which the log starts."""
        return LoadedLog(
            segments=self.segments,
            epochs=self.epochs,
            producers=self.producers,
            log_start_offset=self.log_start_offset,
            durable_end_offset=self.durable_end_offset,
            unsynced=self.unsynced,
            snapshots=self._snapshots,
        )

    def close(self) -> None:
        """Close the files of a log that will not be used."""
        for segment in self.segments:
            segment.close()

    # --- files -------------------------------------------------------------------

    def _remove_leftovers(self) -> None:
        """Remove unfinished files that are not needed: their content also exists elsewhere."""
        self._names = self._disk.names(self._source.directory)
        names = set(self._names)
        for name in self._names:
            if name.endswith(SWAP_SUFFIX):
                raise DamagedLogError(f"{name}: an unfinished compaction")
            stem, _, kind = name.partition(".")
            is_orphan = f".{kind}" in _INDEX_SUFFIXES and f"{stem}{LOG_SUFFIX}" not in names
            if is_orphan or name.endswith(_LEFTOVER_SUFFIXES):
                self._disk.remove(self._path(name))
                names.remove(name)
        self._names = sorted(names)

    def _find_segments(self) -> Steps:
        """Find the segments, and remove those below the log start offset.

        If the oldest one is missing, although no durable record was in it, the log becomes empty.
        """
        bases = [
            offset
            for name in self._names
            if (offset := offset_in_name(name, LOG_SUFFIX)) is not None
        ]
        yield from self._finish_deletion(bases)
        self.segments = [self._new_segment(base) for base in bases]
        first = bases[0] if bases else None
        checkpointed = self._source.log_start_offset
        start_is_missing = first is None or (checkpointed is not None and first > checkpointed)
        if start_is_missing:
            self._check_nothing_durable_is_missing()
            yield from self._replace_all(
                self.log_start_offset, "the segment of the log start offset is missing"
            )

    def _finish_deletion(self, bases: list[int]) -> Steps:
        """Delete segments below the log start offset, which a crash may have left.

        The newest of them stay as long as the segment after them has no producer snapshot: then
        their batches are needed to restore the producers. But the crash may have interrupted the
        deletion of any of them, so a fault in one is not damage: it is deleted, with all older
        ones.
        """
        deleted = max(bisect_right(bases, self.log_start_offset) - 1, 0)
        while deleted and segment_file(bases[deleted], SNAPSHOT_SUFFIX) not in self._names:
            is_complete = yield from self._is_complete_up_to(bases[deleted - 1], bases[deleted])
            if not is_complete:
                break
            deleted -= 1
        for base_offset in bases[:deleted]:
            self._remove_segment(base_offset)
        del bases[:deleted]

    def _is_complete_up_to(self, base_offset: int, next_base: int) -> Generator[int, None, bool]:
        """Whether a segment is complete and correct up to the start of the next one."""
        end_offset = base_offset
        file = self._disk.open(self._path(segment_file(base_offset, LOG_SUFFIX)))
        try:
            for header, batch in read_batches(file, 0, file.size(), _SCAN_BYTES):
                if end_offset == next_base:
                    break
                check_crc(batch, header)
                self._check_place(header, end_offset)
                end_offset = header.last_offset + 1
                yield header.size_bytes
        except CorruptBatchError:
            pass  # the segment is not complete, as `end_offset` shows
        finally:
            file.close()
        return end_offset == next_base

    def _check_nothing_durable_is_missing(self) -> None:
        """Raise `DamagedLogError` if the missing oldest segment had durable records, as all others
        after a clean shutdown."""
        recovery_point = self._source.recovery_point
        is_before_durable = self._source.clean and bool(self.segments)
        if recovery_point is None or recovery_point > self.log_start_offset or is_before_durable:
            raise DamagedLogError(
                f"the segment of log start {self.log_start_offset} is missing, "
                f"the log was durable up to {recovery_point}"
            )

    def _replace_all(self, base_offset: int, reason: str) -> Steps:
        """Remove all segments; the log is empty and begins at `base_offset`.

        If there are bytes to remove, `cut` is set with this reason one step before.
        """
        lost_bytes = sum(segment.log.size() for segment in self.segments)
        if lost_bytes:
            self.cut = Cut(lost_bytes, reason)
            yield 0
        for segment in self.segments:
            segment.close()
            self._remove_segment(segment.base_offset)
        new_segment = self._new_segment(base_offset)
        new_segment.create(self._source.now_ms)
        self.segments = [new_segment]

    def _load_epochs(self) -> None:
        """Load the saved epoch history. If that fails, it is derived from the batches."""
        try:
            self.epochs = decode_epochs(read_file(self._disk, self._path(EPOCH_CHECKPOINT)))
        except (FileNotFoundError, CheckpointError):
            self._epochs_known = False

    # --- after a clean shutdown ----------------------------------------------------

    def _open_clean(self) -> Steps:
        """Open the log after a clean shutdown: only the end of the last segment is read.

        If the log ends above the recovery point, it is checked from there on as after a crash. Then
        any fault is damage.
        """
        yield from self._open_tail(self.segments[-1])
        self._forget_what_was_scanned()
        if 0 < self._known_durable_end < self._end_offset:
            # A clean shutdown stores the log end as the recovery point. So a header at the end of
            # the log was changed, or the checkpoint is an older copy.
            yield from self._recover()
            self._check_last_batch()
            return
        for number, segment in enumerate(self.segments[:-1]):
            next_base = self.segments[number + 1].base_offset
            if segment.indexes_are_complete():
                segment.open_sealed(next_base, self._source.now_ms)
            else:
                yield from self._rebuild_sealed(segment, next_base)
        self.unsynced = self._rebuilt
        self.durable_end_offset = self._end_offset
        if (self._source.recovery_point or 0) > self._end_offset:
            raise DamagedLogError(
                f"the log ends at {self._end_offset}, "
                f"it was durable up to {self._source.recovery_point}"
            )
        if not self._epochs_known:
            yield from self._rebuild_epochs(self.segments)
        self.producers = self._snapshot_up_to(self._end_offset)
        yield from replay(self.producers, self.segments, self._end_offset)

    def _forget_what_was_scanned(self) -> None:
        """Forget what `_scan` concluded from the last segment alone: it may be scanned again, after
        earlier ones."""
        self._snapshot, self._gap = b"", None
        if not self._epochs_known:
            self.epochs.clear()

    def _check_last_batch(self) -> None:
        """Raise `DamagedLogError` if the base offset of the last batch may have been changed.

        That is so if it follows a gap that begins below the recovery point: without the gap the log
        may end at the recovery point, where the clean shutdown left it. If any other batch is above
        the recovery point, the log was longer, and the checkpoint is an older copy.
        """
        if self._gap is None:
            return
        first, following = self._gap
        if first < self._known_durable_end and following == self._last_base_offset:
            segment = next(one for one in reversed(self.segments) if one.size_bytes)
            path = self._path(segment_file(segment.base_offset, LOG_SUFFIX))
            raise DamagedLogError(
                f"{path}: the last batch has offset {following}, but {first} was expected: the log "
                f"ended at {self._known_durable_end} when the broker was shut down",
                file=path,
                offset=first,
            )

    def _open_tail(self, segment: Segment) -> Steps:
        """Open the last segment with its indexes; if they are wrong, read all of it."""
        if segment.indexes_are_complete():
            try:
                segment.open_active(self._source.now_ms)
            except CorruptBatchError:
                pass  # the index may be wrong: check the batches below
            else:
                return
        yield from self._scan_durable(segment)

    # --- after a crash ---------------------------------------------------------------

    def _recover(self) -> Steps:
        """Check the batches from the recovery point on; at the first fault, truncate the log.

        Raises `DamagedLogError` for a fault below the recovery point.
        """
        first_unverified = self._first_unverified()
        for number, segment in enumerate(self.segments[:first_unverified]):
            yield from self._check_sealed(segment, self.segments[number + 1].base_offset)
        if not self._epochs_known:
            yield from self._rebuild_epochs(self.segments[:first_unverified])
        yield from self._prepare_producers(first_unverified)
        self.unsynced = self.segments[first_unverified:]
        for number, segment in enumerate(self.unsynced, first_unverified):
            fault = self._gap_before(number)
            if fault is not None:
                # This segment and all later ones are removed.
                yield from self._truncate_after(number - 1, fault)
                break
            if number > first_unverified:
                self._snapshots[segment.base_offset] = self._snapshot_now()
            fault = yield from self._scan(segment, up_to=self._base_after(number))
            if fault is not None:
                yield from self._truncate_after(number, fault)
                break
        if self._end_offset < self._known_durable_end:
            raise self._damage_error(
                self.segments[-1],
                f"the log ends here, it was durable up to {self._known_durable_end}",
            )
        # Recovery has changed segments: set again those that must be synced. All but the last one
        # are finished.
        self.unsynced = [*self._rebuilt, *self.segments[first_unverified:]]
        for segment in self.segments[first_unverified:-1]:
            segment.seal()
            segment.sealed = True
        self.durable_end_offset = min(self._known_durable_end, self._end_offset)

    def _first_unverified(self) -> int:
        """The number of the first segment whose batches must all be checked.

        It is the last segment that begins below the recovery point: its end may not be durable.
        All earlier segments are durable completely (bytes, indexes and file names), because they
        were sealed and synced before any record of this segment became durable.
        """
        first_unverified = 0
        for number, segment in enumerate(self.segments):
            if segment.base_offset < self._known_durable_end:
                first_unverified = number
        return first_unverified

    def _check_sealed(self, segment: Segment, next_base: int) -> Steps:
        """Check that a segment below the recovery point ends where the next one begins."""
        if segment.indexes_are_complete():
            try:
                segment.open_active(self._source.now_ms)
            except CorruptBatchError:
                pass  # the index may be wrong: check the batches
            else:
                if segment.end_offset == next_base:
                    segment.sealed = True
                    return
        yield from self._rebuild_sealed(segment, next_base, up_to=next_base)

    def _prepare_producers(self, first_unverified: int) -> Steps:
        """Restore the producers as of the first segment that is checked.

        Snapshots above the recovery point are removed, because they may be wrong. Missing ones
        below it are created again.
        """
        # The snapshot at the start of the oldest segment is kept in any case: the batches before
        # it are deleted, so its producers cannot be restored from the log.
        durable_end = max(self._known_durable_end, self.segments[0].base_offset)
        for offset in snapshot_offsets(self._disk, self._source.directory):
            if offset > durable_end:
                self._disk.remove(self._path(segment_file(offset, SNAPSHOT_SUFFIX)))
        self.producers = self._snapshot_up_to(durable_end)
        for segment, following in pairwise(self.segments[: first_unverified + 1]):
            offset = following.base_offset
            if offset > self.producers.end_offset:
                # The snapshot is missing: the disk was full, or an earlier version wrote none.
                yield from replay(self.producers, [segment], offset)
                self._snapshots[offset] = self._snapshot_now()

    def _base_after(self, number: int) -> int | None:
        """The base offset of the next segment; None for the active one."""
        is_newest = number == len(self.segments) - 1
        return None if is_newest else self.segments[number + 1].base_offset

    def _gap_before(self, number: int) -> str | None:
        """The fault if this segment does not begin where the one before ends; else None."""
        if number == 0 or self.segments[number - 1].end_offset == self.segments[number].base_offset:
            return None
        self._check_order(self.segments[number - 1], self.segments[number].base_offset)
        return f"the next segment begins at offset {self.segments[number].base_offset}"

    def _truncate_after(self, number: int, reason: str) -> Steps:
        """Remove all batches after the last correct one of a segment, and all later segments.

        Raises `DamagedLogError` if a record below the recovery point would be lost.
        """
        segment = self.segments[number]
        position, offset = segment.size_bytes, segment.end_offset
        place = f"{segment_file(segment.base_offset, LOG_SUFFIX)} at byte {position}"
        recovery_point = self._source.recovery_point
        if recovery_point is None or offset < recovery_point:
            why = f"{reason}; offset {offset} is below the recovery point {recovery_point}"
            raise self._damage_error(segment, why)
        if self._source.clean:
            raise self._damage_error(segment, f"{reason}, although the last shutdown was clean")
        later = self.segments[number + 1 :]
        lost_bytes = segment.log.size() - position + sum(lost.log.size() for lost in later)
        self.cut = Cut(lost_bytes, f"{place}: {reason}")
        yield 0
        for lost in later:
            lost.close()
            self._remove_segment(lost.base_offset)
        del self.segments[number + 1 :]
        segment.log.truncate(position)

    # --- reading batches -----------------------------------------------------------

    def _rebuild_sealed(
        self, segment: Segment, next_base: int, *, up_to: int | None = None
    ) -> Steps:
        """Check a sealed segment and rebuild its indexes; `up_to` as in `_scan`.

        Raises `DamagedLogError` if a batch is wrong, or if it does not end at `next_base`.
        """
        yield from self._scan_durable(segment, up_to=up_to)
        if segment.end_offset != next_base:
            raise self._damage_error(
                segment, f"ends at {segment.end_offset}, the next segment begins at {next_base}"
            )
        segment.seal()
        segment.sealed = True
        self._rebuilt.append(segment)

    def _scan_durable(self, segment: Segment, *, up_to: int | None = None) -> Steps:
        """Check a segment below the recovery point and rebuild its indexes; `up_to` as in `_scan`.

        Raises `DamagedLogError` if a batch is wrong.
        """
        fault = yield from self._scan(segment, up_to=up_to)
        if fault is not None:
            raise self._damage_error(segment, fault)

    def _scan(
        self, segment: Segment, *, up_to: int | None = None
    ) -> Generator[int, None, str | None]:
        """Check every batch of a segment and rebuild its indexes.

        Returns the fault at which it stopped, or None. `up_to` is the base offset of the next
        segment: batches from there on are removed here, because the last start has copied them to
        the next segment (see `rewrite_tail`).
        """
        segment.start_rebuild(self._source.now_ms)
        self._tail_starts[segment.base_offset] = _TailStart(0, segment.base_offset)
        unreported_bytes = 0
        try:
            file = segment.log
            for header, batch in read_batches(file, 0, file.size(), _SCAN_BYTES):
                if segment.end_offset == up_to:
                    file.truncate(segment.size_bytes)
                    break
                check_crc(batch, header)
                self._check_order(segment, header.base_offset)
                self._check_place(header, segment.end_offset)
                self._check_epoch(header)
                is_above_durable_end = header.last_offset >= self._known_durable_end
                if is_above_durable_end and segment.size_bytes and not self._snapshot:
                    self._snapshot = self._snapshot_now()
                segment.count(header.last_offset, header.newest_record_ms, header.size_bytes)
                self._last_base_offset = header.base_offset
                if not is_above_durable_end:
                    tail_start = _TailStart(segment.size_bytes, segment.end_offset)
                    self._tail_starts[segment.base_offset] = tail_start
                if header.attributes & TRANSACTION_MASK:
                    yield from self._record_transactional(segment, header, batch)
                else:
                    self._record(header)
                unreported_bytes += header.size_bytes
                if unreported_bytes >= _SCAN_BYTES:
                    yield unreported_bytes
                    unreported_bytes = 0
        except CorruptBatchError as error:
            if segment.end_offset != up_to:
                return str(error)
            segment.log.truncate(segment.size_bytes)
        if self._transactions_end == segment.base_offset:
            self._transactions_end = segment.end_offset
        yield unreported_bytes
        return None

    def _record(self, header: BatchHeader, marker: EndMarker | None = None) -> None:
        """Update the producers with the next batch, unless their snapshot already contains it."""
        if header.last_offset >= self.producers.end_offset:
            self.producers.record(header, header.base_offset, marker)

    def _record_transactional(
        self, segment: Segment, header: BatchHeader, batch: memoryview
    ) -> Steps:
        """Update the producers with the next transactional or control batch of a segment that is
        scanned. If it aborts a transaction, add that to the index of the segment.

        The producers do not show when a transaction began, if they are of a snapshot from within
        this segment. So the open transactions are known separately, from the segment's start on.
        """
        marker = read_marker(batch, header) if header.is_control else None
        self._record(header, marker)
        if self._transactions_end != segment.base_offset:
            self._transactions = yield from self._transactions_at(segment)
            self._transactions_end = segment.base_offset
        ended = self._transactions.apply(header, header.base_offset, marker)
        if ended is not None:
            segment.transaction_index.add_ended([ended])

    def _transactions_at(self, segment: Segment) -> Generator[int, None, LogTransactions]:
        """The open transactions at the start of a segment, from the newest producer snapshot at or
        below it. Earlier segments may not be opened yet. Raises `DamagedLogError`."""
        states = self._snapshot_up_to(segment.base_offset)
        states.transactions.stabilize(MAX_OFFSET)  # only the open ones matter
        unreported_bytes = 0
        for earlier, following in pairwise(self.segments):
            if earlier is segment:
                break
            if following.base_offset <= states.end_offset:
                continue
            try:
                for position, header in walk_batches(earlier.log, 0, earlier.log.size()):
                    if header.base_offset >= following.base_offset:
                        break
                    is_new = header.last_offset >= states.end_offset
                    if is_new and header.attributes & TRANSACTION_MASK:
                        marker = None
                        if header.is_control:
                            batch = earlier.log.read(position, header.size_bytes)
                            marker = read_marker(batch, header)
                        states.transactions.apply(header, header.base_offset, marker)
                    unreported_bytes += header.size_bytes
                    if unreported_bytes >= _SCAN_BYTES:
                        yield unreported_bytes
                        unreported_bytes = 0
            except CorruptBatchError as error:
                raise DamagedLogError(f"{earlier.log_path}: {error}") from error
        yield unreported_bytes
        return states.transactions

    def _check_place(self, header: BatchHeader, expected: int) -> None:
        """Check the offsets of a batch: the checksum does not cover the base offset.

        It must begin at the offset `expected`, or after a gap that compaction may have left. Raises
        `CorruptBatchError`.
        """
        base_offset = header.base_offset
        is_gap = expected < base_offset <= self._gap_end_offset
        if base_offset != expected and not is_gap:
            raise CorruptBatchError(
                f"the batch has offset {base_offset}, but {expected} was expected"
            )
        if header.last_offset_delta < 0 or header.last_offset_delta + 1 < header.record_count:
            raise CorruptBatchError(
                f"the batch has {header.record_count} records for {header.last_offset_delta + 1} "
                "offsets"
            )

    def _check_order(self, segment: Segment, next_offset: int) -> None:
        """Raise `DamagedLogError` if the next batch has a lower offset, and a gap came before.
        Otherwise, if the next batch begins after a gap, remember that gap.

        Normally the log is truncated before a batch with too low an offset. But if a gap came
        before, it may be that the gap does not exist: the base offset of the batch after it was
        changed to a higher one. Then the truncated log would end at an offset that it never had.
        """
        end_offset = segment.end_offset
        if next_offset < end_offset and self._gap is not None:
            first, following = self._gap
            raise self._damage_error(
                segment,
                f"offset {next_offset} comes after offset {end_offset - 1}, so offsets {first} to "
                f"{following - 1} may not be missing at all",
            )
        if next_offset > end_offset:
            self._gap = (end_offset, next_offset)

    def _check_epoch(self, header: BatchHeader) -> None:
        """Raise `CorruptBatchError` unless the epoch history has the epoch of this batch.

        The history was saved before any record of its newest epoch was acknowledged. Without a
        history it is derived here.
        """
        epoch, offset = header.leader_epoch, max(header.base_offset, self.log_start_offset)
        if header.last_offset < self.log_start_offset:
            return
        if not self._epochs_known:
            self.epochs.assign(epoch, offset)
        known = self.epochs.epoch_at(offset)
        if known != epoch:
            self._epochs_contradicted = epoch < known
            raise CorruptBatchError(
                f"offset {offset} has epoch {epoch}, but the epoch history has {known}"
            )

    def _rebuild_epochs(self, segments: list[Segment]) -> Steps:
        """Derive the epoch history from the batches: its file is missing or damaged.

        What was derived from some of them before, in another order, is forgotten.
        """
        self.epochs.clear()
        for segment in segments:
            walked_bytes = 0
            for _, header in walk_batches(segment.log, 0, segment.size_bytes):
                self.epochs.assign(header.leader_epoch, header.base_offset)
                walked_bytes += header.size_bytes
                if walked_bytes >= _SCAN_BYTES:
                    yield walked_bytes
                    walked_bytes = 0

    # --- the rest ------------------------------------------------------------------

    def _damage_error(self, segment: Segment, why: str) -> DamagedLogError:
        """The error to raise for damage in a segment: `why`, and the place where it begins.

        The place is the end of the correct batches that were counted, `size_bytes` and
        `end_offset` of the segment.
        """
        path = self._path(segment_file(segment.base_offset, LOG_SUFFIX))
        place = f"{path} at byte {segment.size_bytes}"
        return DamagedLogError(
            f"{place}: {why}",
            file=path,
            offset=segment.end_offset,
            is_cut=is_cut_short(segment.log, segment.size_bytes),
        )

    def _fix_log_start(self) -> Steps:
        """Raise the log start offset to the first segment; if the log ends below it, empty it."""
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        if self._end_offset < self.log_start_offset:
            # All remaining records are below a log start offset that was raised durably: they were
            # to be deleted.
            yield from self._replace_all(
                self.log_start_offset, "the segment is below the log start offset"
            )
            self.unsynced = list(self.segments)
            self.durable_end_offset = self.log_start_offset
            self.producers = ProducerStates(self.log_start_offset)
            self._snapshots.clear()
            self.epochs.clear()

    @property
    def _end_offset(self) -> int:
        return self.segments[-1].end_offset

    def _snapshot_now(self) -> bytes:
        """A snapshot of the producers of all batches that were read."""
        return encode_snapshot(self.producers, self._source.now_ms)

    def _snapshot_up_to(self, offset: int) -> ProducerStates:
        """The producers of the newest snapshot on disk at or below `offset`."""
        first_offset = self.segments[0].base_offset
        states = load_snapshot(self._disk, self._source.directory, first_offset, offset)
        # A segment may have the ends of millions of transactions: do not remember all of them.
        states.transactions.stabilize(self._source.high_watermark)
        return states

    def _new_segment(self, base_offset: int) -> Segment:
        """A segment with the present settings, whose files are neither read nor created yet."""
        config = self._source.config
        settings = IndexSettings.of(config.index_interval_bytes, config.segment_index_bytes)
        return Segment(self._disk, self._source.directory, base_offset, settings)

    def _remove_segment(self, base_offset: int) -> None:
        """Remove all files of a segment, with the producer snapshot at its start."""
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            self._disk.remove(self._path(segment_file(base_offset, suffix)))

    def _path(self, name: str) -> str:
        return f"{self._source.directory}/{name}"
