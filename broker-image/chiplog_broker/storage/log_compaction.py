"""The interface of a log for compaction: what is dirty, and replacing segments."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

from chiplog_broker.storage.compaction_plan import Dirt, find_dirt, group_segments, must_roll
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import CompactionAbortedError, DamagedLogError
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_rolling import SegmentRoller
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.names import CLEANED_SUFFIX, SWAP_SUFFIX
from chiplog_broker.storage.segment import Segment
from chiplog_broker.storage.transaction_index import AbortedTransaction
from chiplog_wire.records.batch import BatchHeader
from chiplog_wire.records.errors import CorruptBatchError


class LogCompaction:
    """The view of one log that compaction works on."""

    __slots__ = ("_checks", "_roller", "_state")

    def __init__(self, state: LogState, roller: SegmentRoller, checks: LogChecks) -> None:
        self._state = state
        self._roller = roller
        self._checks = checks

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self._state.config

    @property
    def cut_count(self) -> int:
        """How often the log was truncated since it was opened; see `check_untouched`."""
        return self._state.cut_count

    @property
    def cleaner_offset(self) -> int:
        """The offset up to which the log is compacted."""
        state = self._state
        return state.env.checkpoints.cleaner_offsets.get(state.partition) or 0

    async def allow_gaps(self, end_offset: int) -> None:
        """Record durably that records below `end_offset` may be missing, before any is removed."""
        state = self._state
        checkpoints = state.env.checkpoints
        # Both are written even if they have not changed: the earlier write may not be durable yet.
        await checkpoints.gap_ends.put(state.partition, max(state.gap_end_offset, end_offset))
        await checkpoints.cleaner_offsets.put(state.partition, self.cleaner_offset)

    def dirt(self, high_watermark: int, now_ms: int) -> Dirt:
        """The part that can be compacted now.

        The active segment cannot, so it is rolled first if `max.compaction.lag.ms` requires it.
        """
        state = self._state
        if must_roll(state.segments.active, state.config, now_ms):
            self._roller.roll(now_ms)
        return find_dirt(
            state.segments.as_list(),
            state.config,
            cleaner_offset=self.cleaner_offset,
            log_start_offset=state.log_start_offset,
            safe_offset=min(
                high_watermark,
                state.durable_end_offset,
                state.producers.transactions.first_unstable_offset,
            ),
            now_ms=now_ms,
        )

    def segments_below(self, offset: int) -> list[Segment]:
        """The segments that begin below this offset."""
        return [segment for segment in self._state.segments if segment.base_offset < offset]

    def groups_below(self, offset: int) -> list[list[Segment]]:
        """Segments that begin below `offset`, in groups that become one segment each."""
        state = self._state
        return group_segments(
            self.segments_below(offset),
            max_bytes=state.config.segment_bytes,
            max_index_bytes=state.config.segment_index_bytes,
        )

    def remembered_batches(self) -> frozenset[int]:
        """The last offsets of the batches that are needed to detect retries of producers."""
        state = self._state
        return frozenset(
            batch.last_offset for _, entry in state.producers for batch in entry.batches
        )

    def epochs_without_batches(self) -> dict[int, int]:
        """The epochs of the producers whose last record is an end marker, by producer id: only
        their markers show which epochs have ended."""
        state = self._state
        return {number: entry.epoch for number, entry in state.producers if not entry.batches}

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of which records between these offsets may be."""
        return self._state.segments.aborted_transactions(offset, end_offset)

    def finished_batches(
        self, segment: Segment, offset: int, chunk_bytes: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of a finished segment; see `LogChecks`."""
        return self._checks.finished_batches(segment, offset, chunk_bytes)

    def begin_cleaned(self, base_offset: int) -> Segment:
        """A new empty segment that is not part of the log yet."""
        state = self._state
        segment = state.new_segment(base_offset, CLEANED_SUFFIX)
        segment.create(state.env.clock.now_ms())
        return segment

    def check_untouched(self, segments: Sequence[Segment], cut_count: int) -> None:
        """Raise `CompactionAbortedError` if a pass cannot continue: a segment was deleted, or the
        log was truncated or closed.

        `cut_count` is the number of truncations when the pass began.
        """
        state = self._state
        state.health.check()
        if state.is_closed or state.is_truncating or state.cut_count != cut_count:
            raise CompactionAbortedError(f"{state.partition} was closed or truncated")
        if any(segment.retired for segment in segments):
            raise CompactionAbortedError(f"{state.partition}: a segment was deleted")

    @property
    def newest_segment(self) -> Segment:
        """The active segment, which is written to."""
        return self._state.segments.active

    def found_damaged(self, segment: Segment, error: CorruptBatchError) -> DamagedLogError:
        """The error to raise for a damaged batch; the log is closed and the damage reported."""
        return self._checks.found_damaged(segment, error)

    def disk_failed(self, error: OSError) -> NoReturn:
        """Raise the error for a failed read or write of a pass.

        A full disk, or the limit of open files, ends only the pass. After any other error the
        directory is offline.
        """
        self._state.health.write_failed(error)

    async def replace_segments(
        self, old: Sequence[Segment], cleaned: Segment, cut_count: int
    ) -> None:
        """Replace the segments `old` by `cleaned`, which is complete and durable.

        On return a crash cannot undo the replacement: the next start completes it. There is no
        await between the two syncs, so other tasks see the log before or after it.
        """
        state = self._state
        async with state.surgery:
            self.check_untouched(old, cut_count)
            remove_at_ms = state.env.clock.now_ms() + state.config.file_delete_delay_ms
            try:
                cleaned.rename(SWAP_SUFFIX)
                await state.env.disk.sync_directory(state.directory)
                state.segments.replace(old, cleaned, remove_at_ms)
                await state.env.disk.sync_directory(state.directory)
                cleaned.rename("")
            except OSError as error:
                state.health.take_offline(error)
            state.sync.names_changed()

    async def compacted_up_to(self, offset: int, cut_count: int) -> None:
        """Record durably that the log is compacted up to `offset`."""
        state = self._state
        async with state.surgery:
            self.check_untouched((), cut_count)
            await state.env.checkpoints.cleaner_offsets.put(state.partition, offset)
