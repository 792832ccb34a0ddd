"""The log of one partition on one broker.

Appends and reads are synchronous and only touch the page cache; `make_durable` waits for
the device. What takes something away from the log (truncation, deletion, retention) first
makes durable what recovery must know if the power fails on the way, and is therefore a
coroutine; while one of them runs, nothing else may write to the same log.

Invariants:

* offsets are contiguous from `log_start_offset` to `end_offset` and never used twice;
* `durable_end_offset` <= `end_offset`, and everything below it survives a power cut;
* every batch's epoch is what `epochs` says for its offset;
* the producer states are the fold of all batches below `end_offset`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk, File
from chiplog_broker.ports.rng import Rng
from chiplog_broker.records.batch import (
    BatchHeader,
    check_crc,
    iter_batches,
    read_header,
    set_place,
    stamp_append_time,
)
from chiplog_broker.records.errors import BatchTooLargeError, CorruptBatchError
from chiplog_broker.records.validate import TimestampType, validate_produced
from chiplog_broker.records.writer import recompress
from chiplog_broker.storage.checkpoints import DirectoryCheckpoints
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.durability import LogSync
from chiplog_broker.storage.epochs import EpochEnd
from chiplog_broker.storage.errors import (
    DamagedLogError,
    FencedLeaderEpochError,
    LogClosedError,
    OffsetOutOfRangeError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.loaded_log import LoadedLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.storage.producer_replay import load_snapshot, replay
from chiplog_broker.storage.producer_snapshot import encode_snapshot
from chiplog_broker.storage.producers import ProducerStates, SentBatch
from chiplog_broker.storage.retention import count_expired
from chiplog_broker.storage.segment import MAX_RELATIVE_OFFSET, IndexSettings, Segment
from chiplog_broker.storage.segments import LogSegments
from chiplog_broker.storage.timestamps import TimestampOffset, first_at_or_after, newest

NO_APPEND_TIME = -1


class AppendResult(NamedTuple):
    """Where an append went. A tuple: one is made per produce request."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 where the topic keeps the producers' own timestamps."""
    log_start_offset: int
    duplicate: bool
    """The batch was in the log already; the offsets are those it got then."""


class LogSlice(NamedTuple):
    """Whole batches that lie side by side in one file. Use it before the next await."""

    file: File
    position: int
    size_bytes: int
    """0: there is nothing at this offset yet."""
    next_offset: int
    """Where reading goes on."""

    def read(self) -> bytes:
        """The batches as bytes of their own."""
        return self.file.read(self.position, self.size_bytes)

    def read_into(self, buffer: memoryview) -> int:
        """The batches into the beginning of a buffer that is large enough."""
        return self.file.read_into(self.position, buffer[: self.size_bytes])


class ListOffset(IntEnum):
    """The timestamps that mean a place, not a time, in ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """What all logs of a directory share."""

    disk: Disk
    clock: Clock
    rng: Rng
    health: DirectoryHealth
    checkpoints: DirectoryCheckpoints


class PartitionLog:
    """One replica. Made by `LogDirectory`."""

    __slots__ = (
        "_busy",
        "_closed",
        "_config",
        "_directory",
        "_env",
        "_epochs",
        "_health",
        "_limits",
        "_producers",
        "_rewrites",
        "_roll_bytes",
        "_roll_ms",
        "_segments",
        "_surgery",
        "_sync",
        "end_offset",
        "log_start_offset",
        "partition",
        "topic_id",
    )

    def __init__(
        self,
        env: LogEnvironment,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.end_offset = loaded.segments[-1].end_offset
        self._env = env
        self._health = env.health
        self._directory = partition.directory
        self._segments = LogSegments(env.disk, self._directory, loaded.segments)
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._sync = LogSync(
            env.disk,
            self._directory,
            env.health,
            loaded.epochs,
            durable_end_offset=loaded.durable_end_offset,
            end_offset=lambda: self.end_offset,
        )
        self._busy = False
        self._closed = False
        self._surgery = asyncio.Lock()
        for segment in loaded.unsynced:
            self._sync.wrote_to(segment, 0)
            self._sync.names_changed()
        self.configure(config)

    # --- what it is ------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self._config

    @property
    def durable_end_offset(self) -> int:
        """Everything below survives a power cut."""
        return self._sync.durable_end_offset

    @property
    def recovery_point(self) -> int:
        """What the checkpoint may say is durable, a truncation under way considered."""
        durable = self._sync.durable_end_offset
        limit = self._sync.truncating_to
        return durable if limit is None else min(durable, limit)

    @property
    def countable_end_offset(self) -> int:
        """What this replica may vouch for under the topic's durability."""
        if self._config.durability is Durability.FSYNC:
            return self._sync.durable_end_offset
        if self._sync.epochs_saved:
            return self.end_offset
        return self._epochs.entries[-1].start_offset if self._epochs.entries else 0

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch in the log; -1 if there is none."""
        return self._epochs.last_epoch

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def is_busy(self) -> bool:
        """Whether a truncation is under way."""
        return self._busy

    @property
    def producer_count(self) -> int:
        return len(self._producers)

    def configure(self, config: LogConfig) -> None:
        """Obey these settings from now on."""
        self._config = config
        self._limits = config.produce_limits()
        self._rewrites = (
            config.compression_type is not None
            or config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        )
        self._roll_bytes = config.segment_bytes
        self._roll_ms = config.segment_ms - self._jitter_ms()
        self._producers.expiration_ms = config.producer_id_expiration_ms
        self._segments.active.index_settings = index_settings(config)

    # --- writing ---------------------------------------------------------------

    def begin_epoch(self, leader_epoch: int) -> None:
        """What follows is written under this epoch, which starts at the log end."""
        if leader_epoch < self._epochs.last_epoch:
            raise FencedLeaderEpochError(
                f"{self.partition} has records of epoch {self._epochs.last_epoch}, "
                f"{leader_epoch} is over"
            )
        self._epochs.assign(leader_epoch, self.end_offset)

    def append_as_leader(self, batch: memoryview, leader_epoch: int, now_ms: int) -> AppendResult:
        """Check one produced batch, give it its place, write it.

        Offset and epoch are set in `batch` itself if it can be written to. Raises
        `RecordsError` or `StorageError`, and then the log is as it was.
        """
        self._check_writable()
        header = validate_produced(batch, self._limits, now_ms)
        if header.producer_id >= 0:
            earlier = self._producers.check(header)
            if earlier is not None:
                return self._duplicate(earlier)
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        if self._rewrites:
            batch, header = self._rewrite(batch, header, now_ms)
        if leader_epoch != self._epochs.last_epoch:
            self.begin_epoch(leader_epoch)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        size_bytes = len(batch)
        set_place(batch, base_offset, header.length_bytes, leader_epoch)
        if self._roll_is_due(last_offset, max_timestamp_ms, size_bytes, now_ms):
            self.roll(now_ms)
        self._write(batch, now_ms)
        self._segments.active.count(last_offset, max_timestamp_ms, size_bytes)
        self.end_offset = last_offset + 1
        self._producers.record(header, base_offset)
        append_time_ms = max_timestamp_ms if header.is_log_append_time else NO_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset, False)

    def append_as_follower(self, batches: memoryview, now_ms: int) -> AppendResult:
        """Write whole batches as the leader has them; they must continue this log.

        All are checked before the first is written. If the disk fills up on the way, those
        that fitted stay.
        """
        self._check_writable()
        base_offset = self.end_offset
        run: list[BatchHeader] = []
        run_start = position = 0
        for header in self._check_replicated(batches):
            added_bytes = position - run_start + header.size_bytes
            if self._roll_is_due(header.last_offset, header.max_timestamp_ms, added_bytes, now_ms):
                self._write_run(batches[run_start:position], run, now_ms)
                run, run_start = [], position
                self.roll(now_ms)
            run.append(header)
            position += header.size_bytes
        self._write_run(batches[run_start:position], run, now_ms)
        return AppendResult(
            base_offset, self.end_offset - 1, NO_APPEND_TIME, self.log_start_offset, False
        )

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, unless the newest is empty still."""
        active = self._segments.active
        if active.size_bytes == 0:
            return
        segment = Segment(
            self._env.disk, self._directory, self.end_offset, index_settings(self._config)
        )
        try:
            active.seal()
            segment.create(now_ms)
        except OSError as error:
            self._health.write_failed(error)
        self._sync.wrote_to(active, now_ms)
        self._sync.names_changed()
        self._snapshot_producers()
        self._segments.add(segment)
        self._roll_ms = self._config.segment_ms - self._jitter_ms()

    # --- durability --------------------------------------------------------------

    async def make_durable(self, offset: int) -> None:
        """Return once everything below `offset` may count under the topic's durability.

        `Fsync`: once it was synced, in one round with whatever else came meanwhile.
        `PageCache`: at once, but for the epoch history and `flush.messages`.
        """
        if self._closed:
            raise LogClosedError(f"{self.partition} is closed")
        unsynced_records = self.end_offset - self._sync.durable_end_offset
        if (
            self._config.durability is Durability.FSYNC
            or unsynced_records >= self._config.flush_messages
        ):
            await self._sync.reach(offset)
        elif not self._sync.epochs_saved:
            await self._sync.save_epochs()

    async def flush(self) -> None:
        """Make durable all there is now, whatever the topic's durability."""
        await self._sync.flush()

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms`, `flush.messages` or a finished segment ask for a flush."""
        sync = self._sync
        if sync.holds_more_than_tail:
            return True
        since_ms = sync.unsynced_since_ms
        if since_ms is not None and now_ms - since_ms >= self._config.flush_ms:
            return True
        return self.end_offset - sync.durable_end_offset >= self._config.flush_messages

    # --- reading -----------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, out of one segment.

        They end at or before `up_to_offset` and within `max_bytes`, except that with
        `min_one` the first batch is given whole.
        """
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.partition} is not within "
                f"{self.log_start_offset} to {self.end_offset}"
            )
        segment = self._segments.holding(offset)
        if offset >= up_to_offset or offset == self.end_offset:
            return LogSlice(segment.log, 0, 0, offset)
        try:
            found = segment.slice_from(offset, max_bytes, up_to_offset, min_one=min_one)
        except CorruptBatchError as error:
            raise self._damaged(error) from error
        except OSError as error:
            self._health.take_offline(error)
        return LogSlice(segment.log, *found)

    def offset_for_timestamp(self, timestamp_ms: int, up_to_offset: int) -> TimestampOffset | None:
        """What ListOffsets answers for a time or a `ListOffset`, seen up to an offset."""
        match timestamp_ms:
            case ListOffset.LATEST:
                offset = min(up_to_offset, self.end_offset)
                return TimestampOffset(-1, offset, self._epochs.epoch_at(offset))
            case ListOffset.EARLIEST:
                offset = self.log_start_offset
                return TimestampOffset(-1, offset, self._epochs.epoch_at(offset))
        segments = self._segments.as_list()
        try:
            if timestamp_ms == ListOffset.MAX_TIMESTAMP:
                found = newest(segments, self.log_start_offset)
            else:
                found = first_at_or_after(segments, timestamp_ms, self.log_start_offset)
        except CorruptBatchError as error:
            raise self._damaged(error) from error
        return found if found is not None and found.offset < up_to_offset else None

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which `offset` was written; -1 if not known."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """Where `leader_epoch` ends in this log; (-1, -1) where it cannot say."""
        return self._epochs.end_offset_for(leader_epoch, self.end_offset)

    # --- taking away -------------------------------------------------------------

    async def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off what lies at or above `offset`, and the rest of the batch that holds it."""
        if offset <= self.log_start_offset:
            await self.truncate_fully_and_start_at(offset, now_ms)
            return
        end_offset = self._batch_start(offset)
        async with self._no_writers(end_offset):
            if end_offset < self.end_offset:
                await self._lower_recovery_point(end_offset)
                await self._cut(end_offset, now_ms)
            self._epochs.truncate_end(offset)

    async def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the log is empty and begins at `offset`."""
        floor = min(offset, self.log_start_offset)
        async with self._no_writers(floor):
            # Nothing counts as durable any more, so recovery may drop what is left of the
            # old segments wherever the power fails; the new start is known before they go.
            await self._lower_recovery_point(floor)
            await self._env.checkpoints.log_starts.put(self.partition, offset)
            self._start_over(offset, now_ms)
        await self.flush()

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start, durably; returns it. Segments wholly below go with it."""
        self._check_writable()
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(f"{offset} is past the end of {self.partition}")
        async with self._surgery:
            if offset > self.log_start_offset:
                await self._raise_log_start(offset)
                passed = sum(1 for segment in self._segments if segment.end_offset <= offset)
                self._retire_oldest(min(passed, len(self._segments) - 1), now_ms)
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

    def remove_expired_files(self, now_ms: int) -> int:
        """Remove files of segments that left `file.delete.delay.ms` ago."""
        return self._segments.remove_retired(now_ms)

    # --- the end -----------------------------------------------------------------

    async def close(self) -> None:
        """Make everything durable, so that the next open need not read it; then let go."""
        self._check_writable()
        active = self._segments.active
        try:
            active.seal()
        except OSError as error:
            self._health.write_failed(error)
        self._snapshot_producers()
        active.sealed = True
        self._sync.wrote_to(active, 0)
        self._sync.names_changed()
        await self.flush()
        await self.stop()

    async def stop(self) -> None:
        """Write nothing more; returns when no sync is under way. Files stay as they are."""
        async with self._surgery:
            self._closed = True
            await self._sync.idle()
        self._segments.close()

    # --- inner workings ----------------------------------------------------------

    def _check_writable(self) -> None:
        if self._health.failure is not None:
            self._health.check()
        if self._closed:
            raise LogClosedError(f"{self.partition} is closed")
        if self._busy:
            raise RuntimeError(f"{self.partition} is being truncated")

    def _roll_is_due(
        self, last_offset: int, max_timestamp_ms: int, added_bytes: int, now_ms: int
    ) -> bool:
        """Kafka's conditions; time is record time, or ours where records carry none."""
        segment = self._segments.active
        first_ms = segment.first_timestamp_ms
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - segment.created_ms
        return (
            segment.size_bytes + added_bytes > self._roll_bytes
            or (waited_ms > self._roll_ms and segment.size_bytes > 0)
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.index_full
        )

    def _write(self, data: memoryview, now_ms: int) -> None:
        segment = self._segments.active
        try:
            segment.write(data)
        except OSError as error:
            self._health.write_failed(error)
        if not segment.unsynced:
            self._sync.wrote_to(segment, now_ms)

    def _write_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        """One write for many batches; nothing if there are none."""
        if not run:
            return
        self._write(data, now_ms)
        segment = self._segments.active
        for header in run:
            self._epochs.assign(header.leader_epoch, header.base_offset)
            segment.count(header.last_offset, header.max_timestamp_ms, header.size_bytes)
            self.end_offset = header.last_offset + 1
            self._producers.record(header, header.base_offset)

    def _check_replicated(self, batches: memoryview) -> list[BatchHeader]:
        headers = []
        expected, epoch = self.end_offset, self._epochs.last_epoch
        for position, header in iter_batches(batches):
            check_crc(batches[position:], header)
            if header.base_offset != expected or header.last_offset_delta < 0:
                raise UnexpectedOffsetError(
                    f"{self.partition} goes on at {expected}, not {header.base_offset}"
                )
            if header.leader_epoch < epoch:
                raise UnexpectedOffsetError(
                    f"epoch {header.leader_epoch} at {expected} after epoch {epoch}"
                )
            expected, epoch = header.last_offset + 1, header.leader_epoch
            headers.append(header)
        return headers

    def _duplicate(self, earlier: SentBatch) -> AppendResult:
        stamped = self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return AppendResult(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp_ms if stamped else NO_APPEND_TIME,
            self.log_start_offset,
            True,
        )

    def _rewrite(
        self, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> tuple[memoryview, BatchHeader]:
        """What the topic asks of a batch beyond storing it: another codec, our clock."""
        codec = self._config.compression_type
        if codec is not None and codec is not header.codec:
            batch = memoryview(recompress(batch, header, codec))
            if len(batch) > self._config.max_message_bytes:
                raise BatchTooLargeError(
                    f"as {codec.name} the batch has {len(batch)} bytes, "
                    f"max.message.bytes is {self._config.max_message_bytes}"
                )
        if self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            stamp_append_time(batch, now_ms)
        return batch, read_header(batch)

    def _snapshot_producers(self) -> None:
        self._producers.drop_expired()
        self._sync.add_snapshot(self.end_offset, encode_snapshot(self._producers))

    def _jitter_ms(self) -> int:
        """A random part of `segment.jitter.ms`, so that not all logs roll at once."""
        widest_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        if widest_ms <= 0:
            return 0
        return int.from_bytes(self._env.rng.token(8), "big") % widest_ms

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

    async def _lower_recovery_point(self, offset: int) -> None:
        """Recovery must not miss, as durable, what we are about to remove."""
        recovery_points = self._env.checkpoints.recovery_points
        if (recovery_points.get(self.partition) or 0) > offset:
            await recovery_points.put(self.partition, offset)

    def _batch_start(self, offset: int) -> int:
        """The first offset of the batch that holds `offset`; the log end if none does."""
        if offset >= self.end_offset:
            return self.end_offset
        segment = self._segments.holding(offset)
        return segment.header_at(segment.position_of(offset)).base_offset

    async def _cut(self, end_offset: int, now_ms: int) -> None:
        producers = load_snapshot(
            self._env.disk,
            self._directory,
            self._config.producer_id_expiration_ms,
            self.log_start_offset,
            end_offset,
        )
        for _ in replay(producers, self._segments.as_list(), end_offset):
            await self._env.clock.sleep(0)
        # From here to the end nothing waits: other tasks see the log before or after.
        position = self._segments.holding(end_offset).position_of(end_offset)
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

    def _start_over(self, offset: int, now_ms: int) -> None:
        segment = Segment(self._env.disk, self._directory, offset, index_settings(self._config))
        remove_at_ms = now_ms + self._config.file_delete_delay_ms
        try:
            self._segments.replace_all(segment, remove_at_ms)
            self._segments.remove_snapshots_above(-1)
            segment.create(now_ms)
        except OSError as error:
            self._health.take_offline(error)
        self._epochs.clear()
        self._producers = ProducerStates(self._config.producer_id_expiration_ms, offset)
        self.log_start_offset = self.end_offset = offset
        self._sync.wrote_to(segment, now_ms)
        self._sync.names_changed()
        self._sync.cut_at(min(offset, self._sync.durable_end_offset))

    async def _raise_log_start(self, offset: int) -> None:
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

    def _damaged(self, error: CorruptBatchError) -> DamagedLogError:
        return DamagedLogError(f"{self.partition} cannot be read: {error}")


def index_settings(config: LogConfig) -> IndexSettings:
    return IndexSettings(config.index_interval_bytes, config.segment_index_bytes)
