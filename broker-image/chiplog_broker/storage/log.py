"""The log of one partition on one broker. This module connects its parts.

`log_state` has the state of a log. Its collaborators, each in a file of its own, append
(`log_appender`), read (`log_reader`), begin segments (`log_rolling`), remove records
(`log_surgery`), compact (`log_compaction`) and check (`log_checks`). Appends and reads are
synchronous and only touch the page cache; `make_durable` waits for the device.

Invariants:

* offsets are contiguous from `log_start_offset` to `end_offset` and never used twice; compaction
  may leave gaps, but never at the end of a segment;
* `durable_end_offset` <= `end_offset`, and all records below it survive a power cut;
* every batch has the leader epoch that `epochs` has for its offset;
* the producer states result from all batches below `end_offset`, applied in order.
"""

from collections.abc import Iterator

from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.epochs import EpochEnd
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.log_appender import AppendResult, LogAppender
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_compaction import LogCompaction
from chiplog_broker.storage.log_reader import ListOffset, LogReader, LogSlice
from chiplog_broker.storage.log_rolling import SegmentRoller
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.log_surgery import LogSurgery
from chiplog_broker.storage.producers import ProducerEntry
from chiplog_broker.storage.timestamps import TimestampOffset
from chiplog_wire.steps import Steps

__all__ = [
    "AppendResult",
    "EpochEnd",
    "ListOffset",
    "LogSlice",
    "PartitionLog",
    "TimestampOffset",
]


class PartitionLog:
    """The log of one replica. Created by `LogDirectory`."""

    __slots__ = (
        "_appender",
        "_reader",
        "_roller",
        "_state",
        "_surgery",
        "aborted_transactions",
        "append_as_follower",
        "append_as_leader",
        "append_marker",
        "checks",
        "compaction",
        "partition",
        "read",
        "topic_id",
    )

    def __init__(self, state: LogState) -> None:
        self.partition = state.partition
        self.topic_id = state.topic_id
        self._state = state
        self.checks = checks = LogChecks(state)
        """For code that searches for damage, or is notified of it."""
        self._roller = roller = SegmentRoller(state)
        self._appender = appender = LogAppender(state, roller, checks)
        self._reader = reader = LogReader(state, checks)
        # Assigned, not wrapped: every produce and fetch calls them, and a wrapper would cost time.
        self.append_as_leader = appender.append_as_leader
        self.append_as_follower = appender.append_as_follower
        self.append_marker = appender.append_marker
        self.read = reader.read
        self.aborted_transactions = reader.aborted_transactions
        self._surgery = LogSurgery(state, roller, checks)
        self.compaction = LogCompaction(state, roller, checks)
        """For the cleaner."""
        self._notify_if_compacted(state.config)

    # --- state -------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self._state.config

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._state.log_start_offset

    @property
    def end_offset(self) -> int:
        """The next offset to be written."""
        return self._state.end_offset

    @property
    def durable_end_offset(self) -> int:
        """All records below this offset survive a power cut."""
        return self._state.durable_end_offset

    @property
    def recovery_point(self) -> int:
        """The offset for the recovery point checkpoint: all records below it are durable.

        During a truncation it is at most the new log end.
        """
        return self._state.recovery_point

    @property
    def countable_end_offset(self) -> int:
        """The end offset up to which this replica may acknowledge records: with `Fsync` the synced
        end, with `PageCache` the log end."""
        return self._state.countable_end_offset

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch in the log; -1 if there is none."""
        return self._state.epochs.last_epoch

    @property
    def size_bytes(self) -> int:
        return self._state.segments.size_bytes

    def bytes_from(self, offset: int) -> int:
        """The size of the records at and above `offset`, estimated within a segment."""
        return self._state.segments.bytes_from(offset)

    @property
    def segment_count(self) -> int:
        return len(self._state.segments)

    @property
    def is_writable(self) -> bool:
        """Whether an append could be tried now: not closed, not being truncated, not damaged."""
        return self._state.is_writable

    @property
    def damage(self) -> DamagedLogError | None:
        """The damage found since the log was opened, or None. After damage was found, nothing is
        read or appended."""
        return self._state.damage

    @property
    def gap_end_offset(self) -> int:
        """The offset below which the log may have gaps; 0 if it has none.

        Compaction has removed records here, or in the log that this one was fetched from.
        """
        return self._state.gap_end_offset

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which `offset` was written; -1 if not known."""
        return self._state.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch of this log that is not above `leader_epoch`, and its end offset;
        (-1, -1) if `leader_epoch` is newer than this log."""
        return self._state.epochs.end_offset_for(leader_epoch, self._state.end_offset)

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of the oldest transaction that is open, or whose end marker
        `stabilize` was not called for; `NO_UNSTABLE_OFFSET` if there is none."""
        return self._state.producers.transactions.first_unstable_offset

    def stabilize(self, high_watermark: int) -> None:
        """The high watermark has passed `first_unstable_offset`: the transactions with markers
        below it are decided."""
        self._state.producers.transactions.stabilize(high_watermark)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction in this log, in this epoch."""
        return self._state.producers.has_open(producer_id, producer_epoch)

    def longest_idle_transaction_ms(self) -> int:
        """For how long the producer of an open transaction has not written to this log: the longest
        such time, as far as it has passed in this process. 0 without open transactions."""
        self._state.pass_time()
        return self._state.producers.longest_idle_transaction_ms

    @property
    def producer_count(self) -> int:
        return len(self._state.producers)

    def producers(self) -> Iterator[tuple[int, ProducerEntry]]:
        """The known producers, by id."""
        return iter(self._state.producers)

    def forget_idle_producers(self, expiration_ms: int) -> None:
        """Remove producers that have not written to this log for `expiration_ms`."""
        self._state.pass_time()
        self._state.producers.forget_idle(expiration_ms)

    # --- settings ----------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """Apply these settings."""
        self._state.configure(config)
        self._appender.configure(config)
        self._roller.configure(config)
        self._notify_if_compacted(config)

    def _notify_if_compacted(self, config: LogConfig) -> None:
        """If compaction is enabled, notify the cleaner, which does not run without such logs."""
        if config.compacts:
            self._state.env.events.log_compacts()

    # --- appending ---------------------------------------------------------------

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch at the log end offset: later appends have this epoch."""
        self._appender.begin_epoch(leader_epoch)

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the log end offset, unless the newest one is empty."""
        self._roller.roll(now_ms)

    # --- reading -----------------------------------------------------------------

    def offset_for_timestamp(self, timestamp_ms: int, up_to_offset: int) -> TimestampOffset | None:
        """The answer to ListOffsets: the first record with at least this timestamp, below
        `up_to_offset`; None if there is none.

        `timestamp_ms` may also be a `ListOffset`, for example -1 for the latest offset.
        """
        return self._reader.offset_for_timestamp(timestamp_ms, up_to_offset)

    def find_timestamp(self, timestamp_ms: int, up_to_offset: int) -> Steps[TimestampOffset | None]:
        """Search like `offset_for_timestamp`, in steps between which other tasks can run.

        Raises `RecordsTruncatedError` if the log changes again and again.
        """
        return self._reader.find_timestamp(timestamp_ms, up_to_offset)

    # --- durability --------------------------------------------------------------

    async def make_durable(self, offset: int) -> None:
        """Return once all records below `offset` may be acknowledged under the topic's durability.

        With `Fsync` they are synced, together with records that arrive in the meantime. With
        `PageCache` it returns at once, unless the epoch history must be saved first, or
        `flush.messages` requires a sync.
        """
        state = self._state
        state.check_open()
        sync, config = state.sync, state.config
        unsynced_records = state.end_offset - sync.durable_end_offset
        if config.durability is Durability.FSYNC or unsynced_records >= config.flush_messages:
            await sync.reach(offset)
        elif not sync.epochs_saved:
            await sync.save_epochs()

    async def flush(self) -> None:
        """Make all records durable now, whatever the topic's durability."""
        await self._state.sync.flush()

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms`, `flush.messages` or a finished segment require a flush."""
        sync, config = self._state.sync, self._state.config
        if sync.has_finished_segment:
            return True
        since_ms = sync.unsynced_since_ms
        if since_ms is not None and now_ms - since_ms >= config.flush_ms:
            return True
        return self._state.end_offset - sync.durable_end_offset >= config.flush_messages

    # --- removing ----------------------------------------------------------------

    async def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove records at or above `offset`, and the rest of the batch that contains it."""
        await self._surgery.truncate_to(offset, now_ms)

    async def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all records; the log is empty and starts at `offset`."""
        await self._surgery.truncate_fully_and_start_at(offset, now_ms)

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start offset to `offset`, durably, and return the present one.

        Segments that are completely below it are deleted.
        """
        return await self._surgery.delete_records_before(offset, now_ms)

    async def enforce_retention(self, high_watermark: int, now_ms: int) -> int:
        """Delete the segments that retention has expired, but no records above the high watermark.

        Returns the number of deleted segments.
        """
        return await self._surgery.enforce_retention(high_watermark, now_ms)

    def remove_expired_files(self, now_ms: int) -> int:
        """Remove the files of segments that were deleted at least `file.delete.delay.ms` ago;
        returns how many segments."""
        return self._state.segments.remove_retired(now_ms)

    # --- the end -----------------------------------------------------------------

    async def close(self) -> None:
        """Make everything durable, so that the next start need not read the log, and close the
        files."""
        state = self._state
        async with state.surgery:
            state.check_writable()
            state.is_closed = True
            active = state.segments.active
            try:
                active.seal()
            except OSError as error:
                state.health.write_failed(error)
            self._roller.snapshot_producers()
            # The flush syncs the indexes of a sealed segment, too, and then the file names.
            active.sealed = True
            state.sync.wrote_to(active, 0)  # the time does not matter: it is synced at once
            state.sync.names_changed()
            await state.sync.flush()
            await state.sync.idle()
        self.release()

    async def stop(self) -> None:
        """Stop writing; returns when no sync is running. Files stay open."""
        async with self._state.surgery:
            self._state.is_closed = True
            await self._state.sync.idle()

    def release(self) -> None:
        """Close the files: nothing may read any more."""
        self._state.segments.close()
