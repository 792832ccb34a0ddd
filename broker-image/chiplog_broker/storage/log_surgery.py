"""Removes records from a log: truncation, deletion of records, retention.

Each operation first stores durably what recovery needs after a crash: a recovery point that is not
above the truncation, or the new log start offset. Then it changes the log in one step without an
await, so that other tasks see the state before or after. During a truncation nothing may be
appended; retention and deletion do not change the end of the log.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from chiplog_broker.ports.disk import File
from chiplog_broker.storage.errors import DiskFullError, OffsetOutOfRangeError
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_rolling import SegmentRoller
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.producer_replay import load_snapshot, replay
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.retention import count_expired
from chiplog_broker.storage.segment import Segment


class LogSurgery:
    """Removes records from one log."""

    __slots__ = ("_checks", "_roller", "_state")

    def __init__(self, state: LogState, roller: SegmentRoller, checks: LogChecks) -> None:
        self._state = state
        self._roller = roller
        self._checks = checks

    async def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove records at or above `offset`, and the rest of the batch that contains it."""
        state = self._state
        async with self._exclusive_access():
            end_offset = self._batch_start(offset) if offset >= state.log_start_offset else offset
            keeps_records = end_offset >= state.log_start_offset
            if keeps_records:
                with self._block_appends(end_offset):
                    await self._truncate_to_boundary(end_offset, now_ms)
            else:
                # The batch that contains `offset` began before the log start offset, so nothing can
                # stay. (A truncation to exactly the log start offset also leaves no records, but
                # keeps the producer states.)
                await self._remove_all(min(offset, state.log_start_offset), now_ms)
        if not keeps_records:
            await state.sync.flush()

    async def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all records; the log is empty and begins at `offset`."""
        async with self._exclusive_access():
            await self._remove_all(offset, now_ms)
        await self._state.sync.flush()

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start offset to `offset`, durably, and return the present one.

        Segments that are completely below it are deleted.
        """
        state = self._state
        state.check_writable()
        async with self._exclusive_access():
            if offset > state.end_offset:
                raise OffsetOutOfRangeError(
                    f"offset {offset} is past the end of {state.partition}, {state.end_offset}"
                )
            if offset > state.log_start_offset:
                # Counted before the await. A segment that is finished during it is not deleted: its
                # producer snapshot may not be written yet.
                passed = sum(1 for segment in state.segments if segment.end_offset <= offset)
                count = min(passed, len(state.segments) - 1)
                await self._raise_log_start(offset)
                self._retire_oldest(count, now_ms)
        return state.log_start_offset

    async def enforce_retention(self, high_watermark: int, now_ms: int) -> int:
        """Delete the segments that retention has expired, but no records above the high watermark.

        Returns the number of deleted segments.
        """
        state = self._state
        state.check_writable()
        async with state.surgery:
            if not state.is_writable:
                return 0  # closed or found damaged in the meantime: its files must not be touched
            expired = count_expired(
                state.segments.as_list(),
                state.config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                log_start_offset=state.log_start_offset,
            )
            if expired == 0:
                return 0
            if expired == len(state.segments):
                # All segments go. An empty one at the log end must stay: the next offset is known
                # from it.
                self._roller.roll(now_ms)
            new_start = state.segments.as_list()[expired].base_offset
            await self._raise_log_start(max(new_start, state.log_start_offset))
            self._retire_oldest(expired, now_ms)
        return expired

    # --- inner workings ----------------------------------------------------------

    @asynccontextmanager
    async def _exclusive_access(self) -> AsyncIterator[None]:
        """A context in which no other task removes records; the log is writable when it begins.

        The caller must read the state of the log inside: another task may have truncated it before
        the context began.
        """
        async with self._state.surgery:
            self._state.check_writable()
            yield

    @contextmanager
    def _block_appends(self, offset: int) -> Iterator[None]:
        """A context in which nothing is appended, and records from `offset` on count as removed."""
        self._state.truncating_to = offset
        try:
            yield
        finally:
            self._state.truncating_to = None

    async def _truncate_to_boundary(self, end_offset: int, now_ms: int) -> None:
        """Truncate to `end_offset`, where a batch ends. If it is the log end, only leader epochs
        without records are removed."""
        state = self._state
        if end_offset < state.end_offset:
            await self._lower_checkpoints(end_offset)
            await self._truncate(end_offset, now_ms)
        state.epochs.truncate_end(end_offset)

    async def _remove_all(self, offset: int, now_ms: int) -> None:
        """Remove all records, epochs and producers; the log is empty and begins at `offset`."""
        state = self._state
        floor = min(offset, state.log_start_offset)
        with self._block_appends(floor):
            # First no record counts as durable any more: after a crash in the middle, recovery may
            # remove the old segments that are left. The new log start offset is stored before they
            # are removed.
            await self._lower_checkpoints(floor)
            # The stored log start offset cannot be taken back, so a descriptor for the new segment
            # is held from before.
            spare = self._spare_file()
            try:
                await state.env.checkpoints.log_starts.put(state.partition, offset)
            finally:
                spare.close()
            self._start_over(offset, now_ms)

    async def _lower_checkpoints(self, offset: int) -> None:
        """Lower all checkpoints to `offset`, durably.

        After a crash, no record above it may count as durable, compacted or committed. (Committed
        records are truncated only if an unclean election accepted their loss.)
        """
        state = self._state
        checkpoints = state.env.checkpoints
        for checkpoint in (
            checkpoints.recovery_points,
            checkpoints.high_watermarks,
            checkpoints.cleaner_offsets,
            checkpoints.high_watermarks_before_truncation,
        ):
            known = checkpoint.get(state.partition)
            if known is not None:
                # Also if it is low enough: another write of it may not be durable yet.
                await checkpoint.put(state.partition, min(known, offset))

    def _batch_start(self, offset: int) -> int:
        """The base offset of the batch that contains `offset`, or `offset` itself if there is none.

        Compaction leaves gaps. If `offset` is in a gap, or its batch follows one, the result is the
        end of the last batch before the gap: otherwise the log would end with a gap, and the next
        start could not distinguish it from a log that lost records.
        """
        state = self._state
        if offset >= state.end_offset:
            return offset
        segment = state.segments.segment_for(offset)
        with self._checks.checking(segment):
            base_offset = segment.header_at(segment.position_of(offset)).base_offset
            if base_offset <= state.gap_end_offset or base_offset > offset:
                return segment.end_at_or_below(min(base_offset, offset))
            return base_offset

    async def _truncate(self, end_offset: int, now_ms: int) -> None:
        """Remove the batches from `end_offset` on, and set the producer states to those before."""
        state = self._state
        state.cut_count += 1
        producers = await self._producers_at(end_offset)
        # There is no await from here on: other tasks see the log before or after.
        containing = state.segments.segment_for(end_offset)
        with self._checks.checking(containing):
            self._truncate_segment(containing, end_offset, now_ms)
        state.end_offset = end_offset
        state.producers = producers
        state.sync.wrote_to(state.segments.active, now_ms)
        state.sync.names_changed()
        state.sync.cut_at(end_offset)

    async def _producers_at(self, end_offset: int) -> ProducerStates:
        """The producer states as of `end_offset`, from the newest snapshot below it and the later
        batches."""
        state = self._state
        disk, first_offset = state.env.disk, state.segments.first.base_offset
        try:
            producers = load_snapshot(disk, state.directory, first_offset, end_offset)
        except OSError as error:
            state.health.read_failed(error)
        high_watermark = state.producers.transactions.high_watermark
        producers.transactions.stabilize(min(high_watermark, end_offset))
        for segment in state.segments.as_list():
            with self._checks.checking(segment):
                for _ in replay(producers, [segment], min(end_offset, segment.end_offset)):
                    await state.env.clock.sleep(0)
            await state.env.clock.sleep(0)
        return producers

    def _truncate_segment(self, containing: Segment, end_offset: int, now_ms: int) -> None:
        """Truncate the segment that contains `end_offset`, and remove all later ones."""
        state = self._state
        position = containing.position_of(end_offset)
        containing.open_files()
        remove_at_ms = now_ms + state.config.file_delete_delay_ms
        try:
            state.segments.retire_above(end_offset, remove_at_ms)
            state.segments.remove_snapshots_above(end_offset)
            containing.truncate(position, end_offset)
        except OSError as error:
            state.health.take_offline(error)

    def _spare_file(self) -> File:
        """An open file, whose descriptor is free for another one once it is closed.

        Raises `NoDescriptorError` if no file can be opened.
        """
        state = self._state
        try:
            return state.env.disk.open(state.segments.active.log_path)
        except OSError as error:
            state.health.read_failed(error)

    def _start_over(self, offset: int, now_ms: int) -> None:
        """Replace all segments by an empty one at `offset`; epochs and producers are cleared."""
        state = self._state
        state.cut_count += 1
        segment = state.new_segment(offset)
        remove_at_ms = now_ms + state.config.file_delete_delay_ms
        try:
            state.segments.replace_all(segment, remove_at_ms)
            state.segments.remove_snapshots_above(-1)  # all of them
            segment.create(now_ms)
        except OSError as error:
            state.health.take_offline(error)
        state.epochs.clear()
        state.producers = ProducerStates(offset)
        state.log_start_offset = state.end_offset = offset
        state.sync.wrote_to(segment, now_ms)
        state.sync.names_changed()
        state.sync.cut_at(min(offset, state.sync.durable_end_offset))

    async def _raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, which may be the present one."""
        state = self._state
        if state.sync.has_finished_segment:
            # Sync first, which writes the producer snapshots: after the records are deleted, only
            # snapshots contain their producers.
            with suppress(DiskFullError):
                await state.sync.flush()
            if state.sync.lacks_snapshot(offset):
                raise DiskFullError(
                    "there is no room for the snapshot of the deleted records' producers"
                )
        await state.env.checkpoints.log_starts.put(state.partition, offset)
        state.log_start_offset = offset
        state.epochs.truncate_start(offset)

    def _retire_oldest(self, count: int, now_ms: int) -> None:
        """Take the `count` oldest segments out of the log; their files are removed later."""
        state = self._state
        if count > 0:
            try:
                state.segments.retire_oldest(count, now_ms + state.config.file_delete_delay_ms)
            except OSError as error:
                state.health.take_offline(error)
            state.sync.names_changed()
