"""What a log offers to compaction: what is dirty, and new segments in the place of old ones."""

from collections.abc import Sequence
from typing import NoReturn

from chiplog_broker.records.errors import CorruptBatchError
from chiplog_broker.storage.compaction.plan import Dirt, find_dirt, group_segments, must_roll
from chiplog_broker.storage.errors import CompactionAbortedError, DamagedLogError
from chiplog_broker.storage.log_state import index_settings
from chiplog_broker.storage.log_surgery import LogSurgery
from chiplog_broker.storage.names import CLEANED_SUFFIX, SWAP_SUFFIX
from chiplog_broker.storage.segment import Segment


class LogCompaction(LogSurgery):
    """What compaction does to a log."""

    __slots__ = ()

    @property
    def cut_count(self) -> int:
        """How often the end of the log was cut off since it was opened."""
        return self._cuts

    @property
    def cleaner_offset(self) -> int:
        """Up to where it is compacted."""
        return self._env.checkpoints.cleaner_offsets.get(self.partition) or 0

    async def allow_gaps(self) -> None:
        """Remember, durably, that compaction may have been here, before it is."""
        if not self.may_have_gaps:
            await self._env.checkpoints.cleaner_offsets.put(self.partition, 0)

    def dirt(self, high_watermark: int, now_ms: int) -> Dirt:
        """What there is to compact. Ends the newest segment where it must be compacted soon."""
        if must_roll(self._segments.active, self._config, now_ms):
            self.roll(now_ms)
        return find_dirt(
            self._segments.as_list(),
            self._config,
            cleaner_offset=self.cleaner_offset,
            log_start_offset=self.log_start_offset,
            safe_offset=min(high_watermark, self.durable_end_offset),
            now_ms=now_ms,
        )

    def segments_below(self, offset: int) -> list[Segment]:
        """Those that begin below it."""
        return [one for one in self._segments if one.base_offset < offset]

    def groups_below(self, offset: int) -> list[list[Segment]]:
        """Segments that begin below `offset`, each group to become one segment."""
        return group_segments(
            self.segments_below(offset),
            max_bytes=self._config.segment_bytes,
            max_index_bytes=self._config.segment_index_bytes,
        )

    def remembered_batches(self) -> frozenset[int]:
        """The last offsets of the batches by which producers' retries are known."""
        return frozenset(
            batch.last_offset for _, entry in self._producers for batch in entry.batches
        )

    def begin_cleaned(self, base_offset: int) -> Segment:
        """An empty segment to be filled, outside the log."""
        segment = Segment(
            self._env.disk,
            self._directory,
            base_offset,
            index_settings(self._config),
            CLEANED_SUFFIX,
        )
        segment.create(self._env.clock.now_ms())
        return segment

    def check_untouched(self, segments: Sequence[Segment], cut_count: int) -> None:
        """Raise if a pass may not go on with these: they left, or the log was cut or closed."""
        self._health.check()
        if self._closed or self._busy or self._cuts != cut_count:
            raise CompactionAbortedError(f"{self.partition} was closed or truncated")
        if any(segment.retired for segment in segments):
            raise CompactionAbortedError(f"{self.partition}: a segment was deleted")

    @property
    def newest_segment(self) -> Segment:
        """The one that is written to."""
        return self._segments.active

    def found_damaged(self, segment: Segment, error: CorruptBatchError) -> DamagedLogError:
        """The error to raise; this log ends here, and everybody is told."""
        return self._damaged(segment, error)

    def disk_failed(self, error: OSError) -> NoReturn:
        """A pass could not read or write: want of space ends it, anything else the directory."""
        self._health.write_failed(error)

    async def replace_segments(
        self, old: Sequence[Segment], cleaned: Segment, cut_count: int
    ) -> None:
        """Put one segment, whole and durable, in the place of some; durably begun on return.

        The steps between the two syncs wait for nothing: others see the log before or after.
        """
        async with self._surgery:
            self.check_untouched(old, cut_count)
            remove_at_ms = self._env.clock.now_ms() + self._config.file_delete_delay_ms
            try:
                cleaned.rename(SWAP_SUFFIX)
                await self._env.disk.sync_directory(self._directory)
                self._segments.replace(old, cleaned, remove_at_ms)
                await self._env.disk.sync_directory(self._directory)
                cleaned.rename("")
            except OSError as error:
                self._health.take_offline(error)
            self._sync.names_changed()

    async def compacted_up_to(self, offset: int, cut_count: int) -> None:
        """Remember how far a pass came, durably."""
        async with self._surgery:
            self.check_untouched((), cut_count)
            await self._env.checkpoints.cleaner_offsets.put(self.partition, offset)
