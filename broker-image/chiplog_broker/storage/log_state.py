"""What one log consists of, and how it is kept: segments, epochs, producers, settings.

This is the part that appending, reading and taking away share: rolling to a new segment,
making durable, stopping.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.records.validate import TimestampType
from chiplog_broker.storage.checkpoints import DirectoryCheckpoints
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.durability import LogSync
from chiplog_broker.storage.errors import (
    DamagedLogError,
    FencedLeaderEpochError,
    LogClosedError,
)
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.loaded_log import LoadedLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.storage.producer_snapshot import encode_snapshot
from chiplog_broker.storage.producers import ProducerEntry
from chiplog_broker.storage.room import DiskRoom
from chiplog_broker.storage.segment import IndexSettings, Segment
from chiplog_broker.storage.segments import LogSegments


def nobody_told(_partition: TopicPartition, _found: DamagedLogError) -> None:
    """Nobody asked to know of damage."""


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """What all logs of a directory share."""

    disk: Disk
    clock: Clock
    rng: Rng
    health: DirectoryHealth
    checkpoints: DirectoryCheckpoints
    room: DiskRoom
    on_damage: Callable[[TopicPartition, DamagedLogError], None] = field(default=nobody_told)
    """Told once of each log that turns out to be damaged while it is open. Must not raise."""
    compacting: Callable[[], None] = lambda: None
    """Told when a log is to be compacted from now on."""


class LogState:
    """The state of one replica's log."""

    __slots__ = (
        "_busy",
        "_closed",
        "_config",
        "_counts_synced",
        "_cuts",
        "_damage",
        "_directory",
        "_env",
        "_epochs",
        "_health",
        "_limits",
        "_producers",
        "_rewrites",
        "_roll_bytes",
        "_roll_ms",
        "_room",
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
        self._room = env.room
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
        self._damage: DamagedLogError | None = None
        self._cuts = 0
        self._surgery = asyncio.Lock()
        for segment in loaded.unsynced:
            self._sync.wrote_to(segment, 0)
            self._sync.names_changed()
        for offset, snapshot in loaded.snapshots.items():
            self._sync.add_snapshot(offset, snapshot)
        self.configure(config)

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
        if self._counts_synced:
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
    def is_writable(self) -> bool:
        """Whether an append could be tried now: not closed, not being truncated, not damaged."""
        return not (self._busy or self._closed) and self._damage is None

    @property
    def damage(self) -> DamagedLogError | None:
        """What was found wrong with it since it was opened; nothing is read or added after that."""
        return self._damage

    @property
    def may_have_gaps(self) -> bool:
        """Whether compaction may have been here, or where this log is copied from."""
        return self._env.checkpoints.cleaner_offsets.get(self.partition) is not None

    @property
    def producer_count(self) -> int:
        return len(self._producers)

    def producers(self) -> Iterator[tuple[int, ProducerEntry]]:
        """The producers that are remembered here, by id."""
        return iter(self._producers)

    def forget_idle_producers(self, expiration_ms: int) -> None:
        """Forget the producers that have written nothing here for so long."""
        self._pass_time()
        self._producers.forget_idle(expiration_ms)

    def configure(self, config: LogConfig) -> None:
        """Obey these settings from now on."""
        self._config = config
        self._counts_synced = config.durability is Durability.FSYNC
        self._limits = config.produce_limits()
        self._rewrites = (
            config.compression_type is not None
            or config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
            or config.compacts
        )
        self._roll_bytes = config.segment_bytes
        self._roll_ms = config.roll_ms - self._jitter_ms()
        self._segments.active.index_settings = index_settings(config)
        if config.compacts:
            self._env.compacting()

    # --- writing ---------------------------------------------------------------

    def begin_epoch(self, leader_epoch: int) -> None:
        """What follows is written under this epoch, which starts at the log end."""
        self._check_writable()
        if leader_epoch < self._epochs.last_epoch:
            raise FencedLeaderEpochError(
                f"{self.partition} has records of epoch {self._epochs.last_epoch}, "
                f"{leader_epoch} is over"
            )
        self._epochs.assign(leader_epoch, self.end_offset)

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
        self._roll_ms = self._config.roll_ms - self._jitter_ms()

    # --- durability --------------------------------------------------------------

    async def make_durable(self, offset: int) -> None:
        """Return once everything below `offset` may count under the topic's durability.

        `Fsync`: once it was synced, in one round with whatever else came meanwhile.
        `PageCache`: at once, but for the epoch history and `flush.messages`.
        """
        self._check_open()
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

    def remove_expired_files(self, now_ms: int) -> int:
        """Remove files of segments that left `file.delete.delay.ms` ago."""
        return self._segments.remove_retired(now_ms)

    # --- the end -----------------------------------------------------------------

    async def close(self) -> None:
        """Make everything durable, so that the next open need not read it; then let go."""
        async with self._surgery:
            self._check_writable()
            self._closed = True
            active = self._segments.active
            try:
                active.seal()
            except OSError as error:
                self._health.write_failed(error)
            self._snapshot_producers()
            active.sealed = True
            self._sync.wrote_to(active, 0)
            self._sync.names_changed()
            await self._sync.flush()
            await self._sync.idle()
        self.release()

    async def stop(self) -> None:
        """Write nothing more; returns when no sync is under way. Files stay open."""
        async with self._surgery:
            self._closed = True
            await self._sync.idle()

    def release(self) -> None:
        """Close the files: nobody may be reading any more."""
        self._segments.close()

    # --- inner workings ----------------------------------------------------------

    def _check_open(self) -> None:
        if self._damage is not None:
            found = self._damage
            raise DamagedLogError(
                str(found), file=found.file, offset=found.offset, is_cut=found.is_cut
            )
        if self._closed:
            raise LogClosedError(f"{self.partition} is closed")

    def _check_writable(self) -> None:
        if self._health.failure is not None:
            self._health.check()
        if self._closed or self._damage is not None:
            self._check_open()
        if self._busy:
            raise RuntimeError(f"{self.partition} is being truncated")

    def _snapshot_producers(self) -> None:
        self._pass_time()
        snapshot = encode_snapshot(self._producers, self._env.clock.now_ms())
        self._sync.add_snapshot(self.end_offset, snapshot)

    def _pass_time(self) -> None:
        """Producers are idle by the monotonic clock, whatever records or the wall clock say."""
        self._producers.pass_time(int(self._env.clock.monotonic_s() * 1_000))

    def _jitter_ms(self) -> int:
        """A random part of `segment.jitter.ms`, so that not all logs roll at once."""
        widest_ms = min(self._config.segment_jitter_ms, self._config.roll_ms)
        if widest_ms <= 0:
            return 0
        return int.from_bytes(self._env.rng.token(8), "big") % widest_ms


def index_settings(config: LogConfig) -> IndexSettings:
    return IndexSettings.of(config.index_interval_bytes, config.segment_index_bytes)
