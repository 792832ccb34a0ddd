"""Periodic tasks of the replicas: flushes, retention, compaction, checkpoints."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.silence import CHECK_INTERVAL_S, SilenceWatch
from chiplog_broker.ports.clock import Clock
from chiplog_broker.settings import setting
from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.scrub import Pace
from chiplog_core.config import broker_keys as keys

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

# A flush that `flush.ms` asks for is late by at most this time.
FLUSH_INTERVAL_S = 0.2
# Retention runs at most this often to free space on a nearly full volume.
MAKE_ROOM_INTERVAL_S = 2.0


class Housekeeping:
    """Runs each task in a loop with its own interval; an error in one run does not end its loop."""

    def __init__(
        self,
        directory: LogDirectory,
        replicas: Replicas,
        clock: Clock,
        config: Mapping[str, str],
        silence: SilenceWatch | None = None,
        most_dedupe_bytes: int = 2**62,
    ) -> None:
        """`silence` is None for a standalone broker, whose leaders cannot be isolated.

        `most_dedupe_bytes` limits the memory of compaction, even if a larger
        `log.cleaner.dedupe.buffer.size` is configured.
        """
        self._directory = directory
        self._replicas = replicas
        self._clock = clock
        self._config = config
        self._most_dedupe_bytes = most_dedupe_bytes
        self._next_early_retention_s = float("-inf")
        """Monotonic time before which retention does not run early again."""
        check_ms = setting(config, keys.LOG_RETENTION_CHECK_INTERVAL_MS)
        checkpoint_ms = setting(config, keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS)
        lag_max_ms = setting(config, keys.REPLICA_LAG_TIME_MAX_MS)
        # (log event if it fails, interval in seconds, task)
        self._tasks: list[tuple[str, float, Work]] = [
            ("flush_failed", FLUSH_INTERVAL_S, self.run_frequent_tasks),
            ("retention_failed", check_ms / 1000, self.maintain),
            ("checkpoint_failed", max(checkpoint_ms, 1) / 1000, self.checkpoint),
            # Twice per replica.lag.time.max.ms, as in Apache Kafka.
            ("followers_not_checked", lag_max_ms / 2000, self.check_followers),
        ]
        self._cleaner = LogCleaner(directory, clock)
        self._cleaning: asyncio.Task[None] | None = None
        """The loop that compacts logs; None before any log has had compaction enabled."""
        if silence is not None:
            self._tasks.append(("silence_not_checked", CHECK_INTERVAL_S, silence.check))
        self._is_running = False
        self._loops: list[asyncio.Task[None]] = []
        """The loop of each of `_tasks`."""
        self._running: set[asyncio.Task[Any]] = set()
        """The runs in progress, which `stop` waits for."""

    def start(self) -> None:
        """Start the loops; each waits one interval before its first run."""
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self._repeat(*loop_arguments)) for loop_arguments in self._tasks
        ]
        # Compaction runs only while there are compacted logs; `log_compacts` starts it later.
        self._is_running = True
        if self._cleaner.has_work:
            self._begin_cleaning()

    async def stop(self) -> None:
        """Stop the loops, each after its present run is complete.

        A compaction may take minutes, so it is cancelled. Nothing is lost: its source segments
        still exist.
        """
        self._is_running = False
        self._cleaner.stop()
        if self._cleaning is not None:
            self._loops.append(self._cleaning)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, *self._running, return_exceptions=True)

    async def run_frequent_tasks(self) -> None:
        """Run the tasks that must not be late: measure the disk, flush, remove deleted files,
        check replicas, scrub."""
        self._directory.free_space.configure(setting(self._config, keys.DISK_RESERVE_BYTES))
        self._replicas.check_free_space()
        await self._apply_retention_early()
        await self.flush()
        self._directory.remove_due_files()
        self._replicas.check_catch_up_goals()
        await self.scrub()

    async def _apply_retention_early(self) -> None:
        """Apply retention early if the volume is short of space."""
        now_s = self._clock.monotonic_s()
        if self._directory.free_space.is_short and now_s >= self._next_early_retention_s:
            self._next_early_retention_s = now_s + MAKE_ROOM_INTERVAL_S
            await self.maintain()

    async def scrub(self) -> None:
        """Continue to verify the checksums of stored records."""
        pace = self._scrub_pace()
        if pace is not None:
            async with self._replicas.unchanged():
                await self._directory.scrubber.advance(pace)

    def _scrub_pace(self) -> Pace | None:
        """The configured pace of scrubbing; None if scrubbing is disabled."""
        interval_ms = setting(self._config, keys.SCRUB_INTERVAL_MS)
        if interval_ms <= 0:
            return None
        limit = setting(self._config, keys.SCRUB_MAX_BYTES_PER_SECOND)
        return Pace(interval_ms / 1000, limit)

    async def flush(self) -> None:
        """Sync the logs for which `flush.ms`, `flush.messages` or a finished segment requires
        it."""
        async with self._replicas.unchanged():
            await self._directory.flush_due()

    async def maintain(self) -> None:
        """Apply retention, and remove the files of segments that were deleted some time ago.

        Idle producers are forgotten first, as `producer.id.expiration.ms` asks.
        """
        async with self._replicas.unchanged():
            self._directory.forget_idle_producers(
                setting(self._config, keys.PRODUCER_ID_EXPIRATION_MS)
            )
            await self._directory.maintain(self._replicas.high_watermarks())
            for partition in self._replicas:
                partition.report_log_start()
                partition.forget_old_refusals()

    async def checkpoint(self) -> None:
        """Store up to which offset each log is durable: recovery need not read older records."""
        async with self._replicas.unchanged():
            await self._directory.checkpoint(self._replicas.high_watermarks())

    async def check_followers(self) -> None:
        """Propose to remove replicas from the ISR that have lagged for too long."""
        self._replicas.check_followers()

    async def clean(self) -> bool:
        """Compact the log with the largest share of records that are not compacted yet.

        Returns False if no log needs it, or if compaction failed.
        """
        dedupe_bytes = setting(self._config, keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE)
        return await self._cleaner.clean_dirtiest(
            self._replicas.high_watermarks(),
            CleanerSettings(
                enabled=setting(self._config, keys.LOG_CLEANER_ENABLE),
                dedupe_buffer_bytes=min(dedupe_bytes, self._most_dedupe_bytes),
                io_max_bytes_per_second=setting(
                    self._config, keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND
                ),
            ),
        )

    def log_compacts(self) -> None:
        """Start to compact: compaction was enabled for a log."""
        if self._is_running:
            self._begin_cleaning()

    def _begin_cleaning(self) -> None:
        """Start the loop that compacts logs, unless it is running."""
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = asyncio.get_running_loop().create_task(self._keep_clean())

    async def _keep_clean(self) -> None:
        """Compact one log after another as long as logs with compaction exist."""
        backoff_s = setting(self._config, keys.LOG_CLEANER_BACKOFF_MS) / 1000
        while self._cleaner.has_work and not self._replicas.is_offline:
            if not await self._run_once("compaction_failed", self.clean):
                await self._clock.sleep(backoff_s)

    async def _repeat(self, failed: str, interval_s: float, work: Work) -> None:
        """Run a task at intervals; `failed` is the log event if it raises."""
        while True:
            await self._clock.sleep(interval_s)
            if self._replicas.is_offline:
                return  # logged where it happened; nothing is retried on a failed disk
            await self._run_once(failed, work)

    async def _run_once(self, failed: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Run the task once; returns None if it raises, which is logged as the event `failed`.

        The task runs to its end even if the loop that awaits it is cancelled.
        """
        run = asyncio.get_running_loop().create_task(work())
        self._running.add(run)
        run.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(run)
        except Exception:
            logger.exception(failed)
            return None
