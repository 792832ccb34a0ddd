"""The state of one log, as plain data that its collaborators share.

Nothing here waits or accesses files. Each field says which collaborator changes it; all others only
read it. Properties are derived from the fields alone.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.storage.checkpoints import DirectoryCheckpoints
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.durability import LogSync
from chiplog_broker.storage.errors import DamagedLogError, LogClosedError
from chiplog_broker.storage.free_space import FreeSpace
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.loaded_log import LoadedLog
from chiplog_broker.storage.log_events import LogEvents
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.segment import IndexSettings, Segment
from chiplog_broker.storage.segments import LogSegments


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """The services that all logs of a directory share."""

    disk: Disk
    clock: Clock
    rng: Rng
    health: DirectoryHealth
    checkpoints: DirectoryCheckpoints
    free_space: FreeSpace
    events: LogEvents


class LogState:
    """The state of one replica's log."""

    __slots__ = (
        "config",
        "cut_count",
        "damage",
        "directory",
        "end_offset",
        "env",
        "epochs",
        "health",
        "is_closed",
        "is_synced_before_ack",
        "log_start_offset",
        "partition",
        "producers",
        "segments",
        "surgery",
        "sync",
        "topic_id",
        "truncating_to",
    )

    def __init__(
        self,
        env: LogEnvironment,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.env = env
        self.health = env.health
        self.partition = partition
        self.topic_id = topic_id
        self.directory = partition.directory
        self.config: LogConfig
        """Changed by `configure`."""
        self.segments = LogSegments(env.disk, self.directory, loaded.segments)
        self.epochs = loaded.epochs
        self.producers: ProducerStates = loaded.producers
        """The producers of all batches. The appender adds to it, surgery replaces it."""
        self.log_start_offset = loaded.log_start_offset
        """The first offset that may be read. Changed by surgery."""
        self.end_offset = loaded.segments[-1].end_offset
        """The next offset to be written. The appender raises it, surgery lowers it."""
        self.sync = LogSync(
            env.disk,
            self.directory,
            env.health,
            loaded.epochs,
            durable_end_offset=loaded.durable_end_offset,
            end_offset=lambda: self.end_offset,
        )
        self.surgery = asyncio.Lock()
        """Held while segments are removed or replaced, and while the log is being closed."""
        self.truncating_to: int | None = None
        """The new log end while a truncation is in progress, else None. While it is set nothing may
        be appended, and records above it count as removed. Changed by surgery."""
        self.cut_count = 0
        """How often the log was truncated since it was opened. Changed by surgery."""
        self.is_closed = False
        self.damage: DamagedLogError | None = None
        """The damage found since the log was opened. Set by its checks, once."""
        for segment in loaded.unsynced:
            self.sync.wrote_to(segment, 0)  # time 0, so that `flush.ms` is reached at once
            self.sync.names_changed()
        for offset, snapshot in loaded.snapshots.items():
            self.sync.add_snapshot(offset, snapshot)
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Apply these settings."""
        self.config = config
        self.is_synced_before_ack = config.durability is Durability.FSYNC

    @property
    def durable_end_offset(self) -> int:
        """All records below this offset survive a power cut."""
        return self.sync.durable_end_offset

    @property
    def countable_end_offset(self) -> int:
        """The end offset up to which this replica may acknowledge records.

        With `Fsync` that is the synced end, with `PageCache` the log end. Records of an epoch that
        is not in the saved epoch history are not acknowledged: after a crash they could not be
        assigned to their epoch.
        """
        if self.is_synced_before_ack:
            return self.sync.durable_end_offset
        if self.sync.epochs_saved:
            return self.end_offset
        return self.epochs.entries[-1].start_offset if self.epochs.entries else 0

    @property
    def gap_end_offset(self) -> int:
        """The offset below which the log may have gaps; 0 if it has none.

        Compaction has removed records here, or in the log that this one was fetched from.
        """
        return self.env.checkpoints.gap_ends.get(self.partition) or 0

    @property
    def recovery_point(self) -> int:
        """The offset for the recovery point checkpoint: all records below it are durable.

        During a truncation it is at most the new log end.
        """
        durable = self.sync.durable_end_offset
        limit = self.truncating_to
        return durable if limit is None else min(durable, limit)

    @property
    def is_truncating(self) -> bool:
        """Whether a truncation is in progress."""
        return self.truncating_to is not None

    @property
    def is_writable(self) -> bool:
        """Whether an append could be tried now: not closed, not being truncated, not damaged."""
        return not (self.is_truncating or self.is_closed) and self.damage is None

    def new_segment(self, base_offset: int, mark: str = "") -> Segment:
        """A segment without files yet, with the present settings; `mark` is a suffix of its file
        names, for example `.cleaned`."""
        settings = index_settings(self.config)
        return Segment(self.env.disk, self.directory, base_offset, settings, mark)

    def check_open(self) -> None:
        """Raise `DamagedLogError` or `LogClosedError` if nothing may be read any more."""
        if self.damage is not None:
            found = self.damage
            raise DamagedLogError(
                str(found), file=found.file, offset=found.offset, is_cut=found.is_cut
            )
        if self.is_closed:
            raise LogClosedError(f"{self.partition} is closed")

    def check_writable(self) -> None:
        """Raise a `StorageError` if the disk has failed, or if the log is damaged or closed.

        During a truncation it raises a `RuntimeError`: an append then is a mistake of the caller.
        """
        if self.health.failure is not None:
            self.health.check()
        if self.is_closed or self.damage is not None:
            self.check_open()
        if self.truncating_to is not None:
            raise RuntimeError(f"{self.partition} is being truncated")

    def pass_time(self) -> None:
        """Advance the clock that measures how long producers are idle to the present time."""
        self.producers.pass_time(int(self.env.clock.monotonic_s() * 1_000))


def index_settings(config: LogConfig) -> IndexSettings:
    """The settings for the index of a new segment."""
    return IndexSettings.of(config.index_interval_bytes, config.segment_index_bytes)
