"""Taking something away from a log: truncation, deletion of records, retention.

Each first makes durable what recovery must know if the power fails on the way: a recovery
point below what is about to be cut, a log start above what is about to go. Then it changes
the log in one step that waits for nothing, so that other tasks see it before or after.
While a truncation waits, nobody may append; retention and deletion leave the end alone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from chiplog_broker.storage.errors import DiskFullError, OffsetOutOfRangeError
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_state import index_settings
from chiplog_broker.storage.producer_replay import load_snapshot, replay
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.retention import count_expired
from chiplog_broker.storage.segment import Segment


class LogSurgery(LogChecks):
    """What removes records."""

    __slots__ = ()

    async def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off what lies at or above `offset`, and the rest of the batch that holds it."""
        end_offset = self._batch_start(offset) if offset >= self.log_start_offset else offset
        if end_offset < self.log_start_offset:
            # The batch began before the log start: no part of it can stay. A log that only
            # ends at its start is another matter: it still knows who wrote what was deleted.
            start_offset = min(offset, self.log_start_offset)
            await self.truncate_fully_and_start_at(start_offset, now_ms)
            return
        async with self._no_writers(end_offset):
            if end_offset < self.end_offset:
                await self._lower_checkpoints(end_offset)
                await self._cut(end_offset, now_ms)
            self._epochs.truncate_end(end_offset)

    async def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the log is empty and begins at `offset`."""
        floor = min(offset, self.log_start_offset)
        async with self._no_writers(floor):
            # Nothing counts as durable any more, so recovery may drop what is left of the
            # old segments wherever the power fails; the new start is known before they go.
            await self._lower_checkpoints(floor)
            await self._env.checkpoints.log_starts.put(self.partition, offset)
            self._check_descriptors()
            self._start_over(offset, now_ms)
        await self.flush()

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start, durably; returns it. Segments wholly below go with it."""
        self._check_writable()
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(f"{offset} is past the end of {self.partition}")
        async with self._surgery:
            if offset > self.log_start_offset:
                # Counted before: one that ends meanwhile has no snapshot to follow it yet.
                passed = sum(1 for segment in self._segments if segment.end_offset <= offset)
                count = min(passed, len(self._segments) - 1)
                await self._raise_log_start(offset)
                self._retire_oldest(count, now_ms)
        return self.log_start_offset

    async def enforce_retention(self, high_watermark: int, now_ms: int) -> int:
        """Let expired segments go, none above the high watermark; returns how many."""
        self._check_writable()
        async with self._surgery:
            expired = count_expired(
                self._segments.as_list(),
                self._config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                log_start_offset=self.log_start_offset,
            )
            if expired == 0:
                return 0
            if expired == len(self._segments):
                # An empty segment at the log end keeps the next offset.
                self.roll(now_ms)
            new_start = self._segments.as_list()[expired].base_offset
            await self._raise_log_start(max(new_start, self.log_start_offset))
            self._retire_oldest(expired, now_ms)
        return expired

    # --- inner workings ----------------------------------------------------------

    @asynccontextmanager
    async def _no_writers(self, offset: int) -> AsyncIterator[None]:
        """The only one to change the log, and what lies above `offset` counts as gone."""
        async with self._surgery:
            self._check_writable()
            self._busy = True
            self._sync.truncating_to = offset
            try:
                yield
            finally:
                self._busy = False
                self._sync.truncating_to = None

    async def _lower_checkpoints(self, offset: int) -> None:
        """The next start must not miss what we are about to remove: neither as durable, nor as
        compacted, nor, where the loss of acknowledged records was accepted, as acknowledged."""
        checkpoints = self._env.checkpoints
        for one in (
            checkpoints.recovery_points,
            checkpoints.high_watermarks,
            checkpoints.cleaner_offsets,
            checkpoints.cut_tails,
        ):
            if (one.get(self.partition) or 0) > offset:
                await one.put(self.partition, offset)

    def _batch_start(self, offset: int) -> int:
        """The first offset of the batch that holds `offset`; itself if none does.

        In a gap, which compaction leaves, it is where the last batch before it ends.
        """
        if offset >= self.end_offset:
            return offset
        segment = self._segments.holding(offset)
        with self._looking_into(segment):
            base_offset = segment.header_at(segment.position_of(offset)).base_offset
            return base_offset if base_offset <= offset else segment.end_at_or_below(offset)

    async def _cut(self, end_offset: int, now_ms: int) -> None:
        self._cuts += 1
        with self._looking_into(self._segments.holding(end_offset)):
            await self._cut_readable(end_offset, now_ms)

    async def _cut_readable(self, end_offset: int, now_ms: int) -> None:
        producers = load_snapshot(
            self._env.disk,
            self._directory,
            self._segments.first.base_offset,
            end_offset,
        )
        for _ in replay(producers, self._segments.as_list(), end_offset):
            await self._env.clock.sleep(0)
        # From here to the end nothing waits: other tasks see the log before or after.
        holding = self._segments.holding(end_offset)
        position = holding.position_of(end_offset)
        holding.open_files()
        remove_at_ms = now_ms + self._config.file_delete_delay_ms
        try:
            self._segments.retire_above(end_offset, remove_at_ms)
            self._segments.remove_snapshots_above(end_offset)
            self._segments.active.truncate(position, end_offset)
        except OSError as error:
            self._health.take_offline(error)
        self.end_offset = end_offset
        self._producers = producers
        self._sync.wrote_to(self._segments.active, now_ms)
        self._sync.names_changed()
        self._sync.cut_at(end_offset)

    def _check_descriptors(self) -> None:
        """Raises `NoDescriptorError` where no file can be opened, while nothing is changed yet."""
        try:
            self._env.disk.open(self._segments.active.log_path).close()
        except OSError as error:
            self._health.read_failed(error)

    def _start_over(self, offset: int, now_ms: int) -> None:
        self._cuts += 1
        segment = Segment(self._env.disk, self._directory, offset, index_settings(self._config))
        remove_at_ms = now_ms + self._config.file_delete_delay_ms
        try:
            self._segments.replace_all(segment, remove_at_ms)
            self._segments.remove_snapshots_above(-1)
            segment.create(now_ms)
        except OSError as error:
            self._health.take_offline(error)
        self._epochs.clear()
        self._producers = ProducerStates(offset)
        self.log_start_offset = self.end_offset = offset
        self._sync.wrote_to(segment, now_ms)
        self._sync.names_changed()
        self._sync.cut_at(min(offset, self._sync.durable_end_offset))

    async def _raise_log_start(self, offset: int) -> None:
        if self._sync.holds_more_than_tail:
            # Once the records are gone only snapshots know who wrote them.
            with suppress(DiskFullError):
                await self._sync.flush()
        await self._env.checkpoints.log_starts.put(self.partition, offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_start(offset)

    def _retire_oldest(self, count: int, now_ms: int) -> None:
        if count > 0:
            try:
                self._segments.retire_oldest(count, now_ms + self._config.file_delete_delay_ms)
            except OSError as error:
                self._health.take_offline(error)
            self._sync.names_changed()
