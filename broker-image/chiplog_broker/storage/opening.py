"""Opens the logs of a data directory, with recovery where it is necessary."""

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from chiplog_broker.ports.whole_files import file_size, read_file
from chiplog_broker.storage.compaction_swap import finish_swaps
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.damage import Damage, DamageMarks, DamageState
from chiplog_broker.storage.damage_history import DamageHistory
from chiplog_broker.storage.directory_report import (
    PartitionReport,
    Progress,
    ProgressMeter,
    Verdict,
)
from chiplog_broker.storage.errors import DamagedLogError, DiskFullError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.log_state import LogEnvironment, LogState
from chiplog_broker.storage.names import (
    DAMAGED_REPLICAS,
    DELETED_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    ROOT,
    TopicPartition,
    is_marked_directory,
    partition_in_name,
)
from chiplog_broker.storage.partition_metadata import decode_partition_metadata
from chiplog_broker.storage.recovery import LogRecovery, LogSource
from chiplog_wire.records.batch import MAX_OFFSET


class Opening:
    """Opens the replicas of one directory, one after the other. Call `run()` once."""

    def __init__(
        self,
        env: LogEnvironment,
        damage: DamageMarks,
        history: DamageHistory,
        config_of: Callable[[TopicPartition], LogConfig],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """`damage` has the marks of damaged replicas; `history` gets the damage that is found.
        `config_of` returns the settings of a partition's topic."""
        self._env = env
        self._damage = damage
        self._history = history
        self._config_of = config_of
        self._on_progress = on_progress
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._gap_ends: dict[TopicPartition, int] = {}
        """The gap ends to be stored, of logs for which none, or a lower one, is stored."""
        self.quarantined: dict[TopicPartition, str] = {}
        """Replicas that could not be opened, with the reason."""

    async def run(self, *, clean: bool) -> list[PartitionReport]:
        """Open every replica. After a clean shutdown, the records are not read."""
        names = self._env.disk.names(ROOT)
        if not clean:
            # The last process may have been killed after it created a replica, and before the new
            # directory was durable.
            await self._env.disk.sync_directory(ROOT)
            with suppress(DiskFullError):  # a full volume must not prevent the start
                await self._env.checkpoints.rewrite()
        for name in names:
            if is_marked_directory(name) and name.endswith(DELETED_DIRECTORY_SUFFIX):
                self._env.disk.remove(name)
        partitions = [found for name in names if (found := partition_in_name(name))]
        meter = ProgressMeter(len(partitions), self._on_progress)
        reports = []
        for partition in partitions:
            if self._is_incomplete(partition):
                self._env.disk.remove(partition.directory)
            else:
                config = self._config_of(partition)
                reports.append(await self._open_log(partition, config, meter, clean=clean))
            meter.done()
        await self._write_gap_ends()
        # If the file was damaged, `_open_log` has stored an entry for every log.
        self._env.checkpoints.high_watermarks_before_truncation.damaged = False
        return reports

    async def _open_log(
        self, partition: TopicPartition, config: LogConfig, meter: ProgressMeter, *, clean: bool
    ) -> PartitionReport:
        """Open or recover one replica; a damaged one is quarantined."""
        checkpoints = self._env.checkpoints
        recovery_point = checkpoints.recovery_points.get(partition) or 0
        log_start_offset = checkpoints.log_starts.get(partition)
        gap_end_offset = self._gap_end_offset(partition, config)
        recovery = LogRecovery(
            LogSource(
                disk=self._env.disk,
                directory=partition.directory,
                config=config,
                now_ms=self._env.clock.now_ms(),
                clean=clean,
                log_start_offset=log_start_offset,
                recovery_point=None if checkpoints.recovery_points.damaged else recovery_point,
                gap_end_offset=gap_end_offset,
                high_watermark=checkpoints.high_watermarks.get(partition) or 0,
            )
        )
        topic_id: UUID | None = None
        try:
            topic_id = self._topic_id(partition)
            self._check_not_marked(partition)
            await finish_swaps(self._env.disk, partition.directory, log_start_offset or 0)
            if not clean:
                # The last start may have moved the end of a segment to a new file, and been killed
                # before the file's name was durable. This start will truncate the old file: if the
                # name were lost then, so would be the records.
                await self._env.disk.sync_directory(partition.directory)
            is_recorded = False
            for scanned_bytes in recovery.run():
                meter.scanned(scanned_bytes)
                if recovery.cut is not None and not is_recorded:
                    # Stored before the truncation: otherwise, after a crash, the next start would
                    # find an intact log, and nothing would show that its end was lost.
                    await self._record_lost_end(partition)
                    is_recorded = True
                await self._env.clock.sleep(0)
            await recovery.rewrite_tail()
            if recovery.had_no_space:
                with suppress(DiskFullError):
                    await self._record_lost_end(partition)
        except DamagedLogError as error:
            recovery.close()
            return await self._quarantine(partition, topic_id, recovery_point, error)
        log = PartitionLog(LogState(self._env, partition, topic_id, config, recovery.loaded()))
        self.logs[partition] = log
        if checkpoints.high_watermarks_before_truncation.damaged:
            # It is unknown whether an earlier start has truncated this log: assume it.
            await self._record_lost_end(partition)
        if log.end_offset < (checkpoints.high_watermarks.get(partition) or 0):
            # The high watermark is stored now, because its checkpoint will be lowered to the end.
            await self._record_lost_end(partition)
        if gap_end_offset != log.gap_end_offset:
            self._gap_ends[partition] = min(gap_end_offset, log.end_offset)
        cut = recovery.cut
        return PartitionReport(
            partition=partition,
            verdict=Verdict.TAIL_CUT if cut else Verdict.INTACT,
            recovery_point=recovery_point,
            high_watermark=checkpoints.high_watermarks.get(partition) or 0,
            log_start_offset=log.log_start_offset,
            end_offset=log.end_offset,
            cut_bytes=cut.size_bytes if cut else 0,
            reason=cut.reason if cut else "",
        )

    def _gap_end_offset(self, partition: TopicPartition, config: LogConfig) -> int:
        """The offset below which the log may have gaps; the highest possible if it is not known.

        If no gap end is stored, but the log may have been compacted, it is not known: Apache Kafka
        and earlier versions store only how far they have compacted a log themselves.
        """
        gap_ends, cleaned = self._env.checkpoints.gap_ends, self._env.checkpoints.cleaner_offsets
        known, compacted_to = gap_ends.get(partition), cleaned.get(partition)
        if known is not None:
            return max(known, compacted_to or 0)
        may_have_gaps = (
            gap_ends.damaged
            or cleaned.damaged
            or compacted_to is not None
            or (gap_ends.is_missing and config.compacts)
        )
        return MAX_OFFSET if may_have_gaps else 0

    async def _write_gap_ends(self) -> None:
        """Store the gap ends that this start has determined, for all logs at once. Below its gap
        end a log may have gaps between batches, which compaction left.

        If only some were stored and the start was interrupted, the next start would take the file
        for complete, and logs without an entry for logs without gaps. Each of these logs also gets
        a cleaner offset, 0 if it was never compacted here: if the gap ends are lost, it shows that
        the log may have gaps. If the disk is full, the next start determines the gap ends again.
        """
        gap_ends, cleaned = self._env.checkpoints.gap_ends, self._env.checkpoints.cleaner_offsets
        with suppress(DiskFullError):
            await gap_ends.update(self._gap_ends)
            await gap_ends.create()
            await cleaned.update(
                {partition: cleaned.get(partition) or 0 for partition in self._gap_ends}
            )

    async def _record_lost_end(self, partition: TopicPartition) -> None:
        """Store durably that the end of a log may be lost, with its last known high watermark.

        If one is stored already, the higher one stays.
        """
        checkpoints = self._env.checkpoints
        committed = checkpoints.high_watermarks.get(partition) or 0
        await checkpoints.high_watermarks_before_truncation.put(
            partition,
            max(committed, checkpoints.high_watermarks_before_truncation.get(partition) or 0),
        )

    async def _quarantine(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        recovery_point: int,
        error: DamagedLogError,
    ) -> PartitionReport:
        """Quarantine a damaged replica, and store that durably.

        Details that this error does not have are taken from the stored mark, if there is one.
        """
        known = self._damage.get(partition)
        found = Damage(topic_id, DamageState.FOUND, error.file, error.offset)
        if known is not None:
            found = found._replace(
                topic_id=topic_id or known.topic_id,
                file=found.file or known.file,
                offset=known.offset if found.offset is None else found.offset,
            )
        await self._damage.put(partition, found)
        with_details = DamagedLogError(
            str(error), file=found.file, offset=found.offset, is_cut=error.is_cut
        )
        self._history.found(partition, found.topic_id, with_details)
        self.quarantined[partition] = str(error)
        return PartitionReport(
            partition=partition,
            verdict=Verdict.QUARANTINED,
            recovery_point=recovery_point,
            high_watermark=self._env.checkpoints.high_watermarks.get(partition) or 0,
            reason=str(error),
        )

    def _check_not_marked(self, partition: TopicPartition) -> None:
        """Raise `DamagedLogError` if the files here are marked as damaged since an earlier run."""
        mark = self._damage.get(partition)
        if mark is not None and mark.state is DamageState.FOUND:
            raise DamagedLogError(
                f"{partition} was found damaged before and has not been fetched again yet, "
                f"according to {DAMAGED_REPLICAS}"
            )

    def _is_incomplete(self, partition: TopicPartition) -> bool:
        """Whether a crash interrupted the creation of this replica: it has no metadata file, which
        is written last, and no records. Its directory can be removed."""
        names = self._env.disk.names(partition.directory)
        if PARTITION_METADATA in names:
            return False
        logs = (name for name in names if name.endswith(LOG_SUFFIX))
        return all(file_size(self._env.disk, f"{partition.directory}/{name}") == 0 for name in logs)

    def _topic_id(self, partition: TopicPartition) -> UUID:
        """The topic id in the replica's metadata. Raises `DamagedLogError` if it is unreadable."""
        path = f"{partition.directory}/{PARTITION_METADATA}"
        try:
            return decode_partition_metadata(read_file(self._env.disk, path))
        except (FileNotFoundError, ValueError) as error:
            raise DamagedLogError(
                f"{path} does not name the topic of these records: {error}"
            ) from error
