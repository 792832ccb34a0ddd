"""The cleaner of a data directory: compacts the dirtiest log, then the next one.

Records are dirty that were appended since the last compaction. There is one pass at a time, so only
one key map takes memory. An error of one log does not stop the others: a damaged log is not
compacted until it has been refetched. After a full disk, or a change of the log during a pass, the
log is tried again later.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.compaction.cleaning import CleaningPass, PassResult
from chiplog_broker.storage.compaction.pace import Pace
from chiplog_broker.storage.compaction_plan import Dirt, is_due
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import (
    CompactionAbortedError,
    DamagedLogError,
    DirectoryOfflineError,
    DiskFullError,
    StorageError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Kafka's `log.cleaner.` settings."""

    enabled: bool = True
    dedupe_buffer_bytes: int
    io_max_bytes_per_second: float


class DirtyLog(NamedTuple):
    """A log that could be compacted."""

    log: PartitionLog
    dirt: Dirt
    high_watermark: int


class LogCleaner:
    """Compacts the logs of one directory. One task at a time may use it."""

    def __init__(self, directory: LogDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self.stats = directory.cleaner_stats
        self._disk_full_logs: set[TopicPartition] = set()
        """Logs whose last pass ended because the disk was full."""
        self._is_over = False

    @property
    def has_work(self) -> bool:
        """Whether compaction is enabled for any log."""
        return any(log.config.compacts for log in self._directory.logs.values())

    def stop(self) -> None:
        """Stop the pass in progress soon, and start no other."""
        self._is_over = True

    async def clean_dirtiest(
        self, high_watermarks: Mapping[TopicPartition, int], settings: CleanerSettings
    ) -> bool:
        """Compact, among the logs that are due, the one with the largest dirty share.

        Returns True if the caller may go on to the next log at once; False if no log is due, or the
        pass was aborted or found no free space. Raises `DirectoryOfflineError`.
        """
        compacted = [log for log in self._directory.logs.values() if log.config.compacts]
        if self._is_over or not settings.enabled:
            return False
        dirtiest = self._dirtiest(compacted, high_watermarks)
        if dirtiest is None:
            return False
        self._disk_full_logs.discard(dirtiest.log.partition)
        try:
            await self._clean(dirtiest, settings)
        except DirectoryOfflineError:
            raise
        except DamagedLogError as damage:
            logger.error("log_not_compacted", extra=_log_fields(dirtiest, reason=str(damage)))
        except DiskFullError as full:
            logger.warning("log_not_compacted", extra=_log_fields(dirtiest, reason=str(full)))
            self._disk_full_logs.add(dirtiest.log.partition)
            return False
        except CompactionAbortedError as aborted:
            self.stats.aborted += 1
            logger.info("compaction_aborted", extra=_log_fields(dirtiest, reason=str(aborted)))
            return False
        finally:
            self._count_uncleanable(compacted)
        return True

    def _dirtiest(
        self, logs: list[PartitionLog], high_watermarks: Mapping[TopicPartition, int]
    ) -> DirtyLog | None:
        """The due log with the largest dirty share, or None; also updates the statistics."""
        now_ms = self._clock.now_ms()
        found: list[DirtyLog] = []
        for log in logs:
            high_watermark = high_watermarks.get(log.partition)
            if high_watermark is None or not log.is_writable:
                continue
            try:
                dirt = log.compaction.dirt(high_watermark, now_ms)
            except DirectoryOfflineError:
                raise
            except StorageError as refused:
                logger.warning(
                    "dirt_not_known",
                    extra={"partition": str(log.partition), "reason": str(refused)},
                )
            else:
                found.append(DirtyLog(log, dirt, high_watermark))
        self._count_uncleanable(logs)
        self.stats.max_dirty_ratio = max((candidate.dirt.ratio for candidate in found), default=0.0)
        self.stats.max_delay_ms = max((candidate.dirt.overdue_ms for candidate in found), default=0)
        due = [candidate for candidate in found if is_due(candidate.dirt, candidate.log.config)]
        return max(due, key=lambda candidate: candidate.dirt.ratio, default=None)

    def _count_uncleanable(self, logs: list[PartitionLog]) -> None:
        """Count the logs that are damaged, or whose last pass ended because the disk was full."""
        self._disk_full_logs &= {log.partition for log in logs}
        self.stats.uncleanable = sum(
            log.damage is not None or log.partition in self._disk_full_logs for log in logs
        )

    async def _clean(self, dirty: DirtyLog, settings: CleanerSettings) -> None:
        """Run one pass over this log, and record its result."""
        begin_s = self._clock.monotonic_s()
        pace = Pace(self._clock, settings.io_max_bytes_per_second, lambda: self._is_over)
        one_pass = CleaningPass(
            dirty.log.compaction, dirty.dirt, settings.dedupe_buffer_bytes, pace
        )
        result = await one_pass.run(self._clock.now_ms())
        self._record_result(result, self._clock.monotonic_s() - begin_s)
        logger.info(
            "log_compacted",
            extra=_log_fields(
                dirty,
                up_to=result.end_offset,
                read_bytes=result.read_bytes,
                written_bytes=result.written_bytes,
                removed_records=result.read_records - result.kept_records,
                map_filled=round(result.map_filled, 3),
                seconds=round(self.stats.last_pass_s, 3),
            ),
        )

    def _record_result(self, result: PassResult, took_s: float) -> None:
        """Add the result of a pass to the statistics."""
        stats = self.stats
        stats.passes += 1
        stats.read_bytes += result.indexed_bytes + result.read_bytes
        stats.written_bytes += result.written_bytes
        stats.removed_records += result.read_records - result.kept_records
        stats.busy_s += took_s
        stats.last_pass_s = took_s
        stats.last_map_filled = result.map_filled
        stats.last_recopied = result.written_bytes / result.read_bytes if result.read_bytes else 0.0


def _log_fields(dirty: DirtyLog, **more: object) -> dict[str, object]:
    """The fields of a log entry about the compaction of this log."""
    return {
        "partition": str(dirty.log.partition),
        "from": dirty.dirt.first_dirty_offset,
        **more,
    }
