"""A broker's data directory: all logs, their shared state, and how they are opened.

One broker holds the lock of the directory. A replica whose files are damaged is quarantined: it is
not served, its files are not touched, and it is reported; the other replicas are served. Damage is
recorded on disk (see `damage`) until the replica has been refetched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.checkpoints import DirectoryCheckpoints
from chiplog_broker.storage.clean_shutdown import encode_clean_shutdown
from chiplog_broker.storage.compaction_stats import CleanerStats
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.damage import Damage, DamageMarks, DamageState
from chiplog_broker.storage.damage_history import DamageHistory
from chiplog_broker.storage.directory_report import DirectoryReport, PartitionReport
from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.errors import (
    DamagedLogError,
    DiskFullError,
    InconsistentTopicIdError,
    StorageError,
)
from chiplog_broker.storage.free_space import FreeSpace
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.loaded_log import LoadedLog
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.log_events import DirectoryEvents
from chiplog_broker.storage.log_state import LogEnvironment, LogState, index_settings
from chiplog_broker.storage.meta_properties import Identity
from chiplog_broker.storage.names import (
    CLEAN_SHUTDOWN,
    DELETED_DIRECTORY_SUFFIX,
    LOCK,
    PARTITION_METADATA,
    ROOT,
    STRAY_DIRECTORY_SUFFIX,
    TopicPartition,
    is_marked_directory,
    marked_directory,
)
from chiplog_broker.storage.opening import Opening
from chiplog_broker.storage.ownership import identify, take_clean_mark
from chiplog_broker.storage.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
)
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.scrub import Scrubber
from chiplog_broker.storage.segment import Segment

_END_OF_TIME_MS = 2**63 - 1
"""A time after every other, so that all waiting files may be removed."""
_MAX_CONCURRENT = 16
"""How many logs are flushed or closed together."""


@dataclass(frozen=True, slots=True)
class StoragePorts:
    """The ports that storage uses."""

    disk: Disk
    clock: Clock
    rng: Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """The owner of the directory, and the settings of its logs."""

    node_id: int
    cluster_id: str
    config_of: Callable[[TopicPartition], LogConfig] = lambda _: LogConfig()


class LogDirectory:
    """All replicas of one broker. Created by `open`."""

    def __init__(
        self,
        ports: StoragePorts,
        identity: Identity,
        health: DirectoryHealth,
        events: DirectoryEvents,
    ) -> None:
        self._disk = ports.disk
        self._events = events
        self._clock = ports.clock
        self._rng = ports.rng
        self.identity = identity
        self.health = health
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.quarantined: dict[TopicPartition, str] = {}
        """Why each quarantined replica is not served."""
        self.report = DirectoryReport(clean=False, broker_epoch=None, partitions=())
        self.damage = DamageMarks(ports.disk, health)
        self.damage_history = DamageHistory(ports.clock)
        self._checkpoints = DirectoryCheckpoints(ports.disk, health)
        self.free_space = FreeSpace(ports.disk)
        self.cleaner_stats = CleanerStats()
        self._env = LogEnvironment(
            ports.disk,
            ports.clock,
            ports.rng,
            health,
            self._checkpoints,
            self.free_space,
            events=self,
        )
        self._retired: list[_RetiredLog] = []
        self._set_aside: dict[TopicPartition, str] = {}
        """The new name of the directory of each damaged replica that is being refetched; of several
        the last."""
        self.scrubber = Scrubber(self.logs, ports.clock)

    @classmethod
    async def open(
        cls, ports: StoragePorts, options: OpenOptions, events: DirectoryEvents
    ) -> "LogDirectory":
        """Lock the directory, check its owner, and open or recover each log.

        Raises `BlockingIOError` if another process has locked the directory, `WrongDirectoryError`
        if it belongs to another broker.
        """
        disk = ports.disk
        disk.lock(LOCK)
        health = DirectoryHealth(events.disk_failed)
        try:
            clean, broker_epoch = await take_clean_mark(disk)
            identity = await identify(disk, ports.rng, options.node_id, options.cluster_id)
            directory = cls(ports, identity, health, events)
            reports = await directory._open_all(options, clean=clean)
        except OSError as error:
            health.take_offline(error)
        directory.report = DirectoryReport(
            clean=clean, broker_epoch=broker_epoch, partitions=tuple(reports)
        )
        return directory

    # --- replicas ------------------------------------------------------------------

    async def create(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> PartitionLog:
        """Create an empty replica, durable on return, or return the one of this topic id.

        If damage of an earlier replica is recorded, the new one counts as damaged until it has been
        refetched.
        """
        self.health.check()
        existing = self.logs.get(partition)
        if existing is not None:
            if existing.topic_id != topic_id:
                raise InconsistentTopicIdError(f"{partition} holds topic {existing.topic_id}")
            return existing
        if self._disk.exists(partition.directory):
            raise StorageError(f"the directory {partition.directory} already exists")
        # Without this, entries of an earlier replica of this name would be used for the new one.
        await self._checkpoints.forget(partition)
        mark = self.damage.get(partition)
        if mark is not None and mark.topic_id not in {None, topic_id}:
            await self.damage.forget(partition)
            mark = None
        try:
            log = await self._create_files(partition, topic_id, config)
            if mark is not None:
                # Not before the replica is complete: after a crash before this point, the mark
                # still says that no usable copy exists, and the replica is created again.
                refetching = Damage(topic_id, DamageState.REFETCHING, mark.file, mark.offset)
                await self.damage.put(partition, refetching)
        except (OSError, StorageError) as error:
            self._remove_incomplete(partition)
            if isinstance(error, OSError):
                self.health.write_failed(error)
            raise
        self.logs[partition] = log
        return log

    async def delete(self, partition: TopicPartition) -> None:
        """Delete a replica; its files are removed after `file.delete.delay.ms`."""
        log = self.logs.pop(partition)
        await log.stop()
        name = await self._rename_with_suffix(partition, DELETED_DIRECTORY_SUFFIX)
        # Before the mark is removed, for which a full disk may have no room: this makes room.
        self._release_later(log, name)
        await self.damage.forget(partition)

    async def quarantine(self, partition: TopicPartition, reason: str) -> None:
        """Stop serving a replica that was found damaged; its files stay as they are."""
        log = self.logs.pop(partition)
        self.quarantined[partition] = reason
        await log.stop()
        self._release_later(log, None)

    async def quarantine_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        """Stop serving a damaged replica, and record the damage on disk: a new copy of the replica
        counts as damaged until it is complete. The damaged files stay as they are."""
        log = self.logs[partition]
        mark = Damage(log.topic_id, DamageState.FOUND, found.file, found.offset)
        await self.quarantine(partition, str(found))
        await self.damage.put(partition, mark)

    async def set_aside(self, partition: TopicPartition) -> str:
        """Rename the directory of a quarantined replica, so that a new copy can be created.

        Returns the new name. If the replica was damaged, the new copy counts as damaged until
        `mark_undamaged` is called.
        """
        mark = self.damage.get(partition)
        if mark is not None:
            # The mark must be durable before the directory disappears: otherwise the next start
            # would create an empty replica that looks complete.
            await self.damage.put(partition, mark)
        name = await self._rename_with_suffix(partition, STRAY_DIRECTORY_SUFFIX)
        del self.quarantined[partition]
        if mark is not None:
            self._set_aside[partition] = name
        return name

    async def mark_undamaged(self, partition: TopicPartition) -> None:
        """Record that a damaged replica has been completely refetched.

        The damaged files stay next to it for inspection. Of several such directories only the last
        one is kept.
        """
        await self.damage.forget(partition)
        self.damage_history.mark_repaired(partition)
        last = self._set_aside.pop(partition, None)
        found = self._damaged_directories(partition, self.logs[partition].topic_id)
        for name in found:
            # After a restart it is not known which one is the last: keep any one of them.
            if name != (last or found[-1]):
                try:
                    self._disk.remove(name)
                except OSError as error:
                    self.health.take_offline(error)

    async def forget_damage(self, topic: str, topic_id: UUID) -> None:
        """After a topic was deleted: rename the directories of its damaged replicas, so that they
        do not block the topic's name, and remove the records of their damage.

        Their files stay. A replica without a readable topic id is not changed.
        """
        for partition in self.damage:
            mark = self.damage.get(partition)
            if partition.topic == topic and mark is not None and mark.topic_id == topic_id:
                # In this order: if a crash left the mark without the directory, the mark would
                # apply to the next replica of this name.
                await self.damage.forget(partition)
                if partition in self.quarantined:
                    await self.set_aside(partition)

    def is_refetching(self, partition: TopicPartition) -> bool:
        """Whether the replica here is a new copy that may lack records of the damaged one."""
        mark = self.damage.get(partition)
        return mark is not None and partition in self.logs

    def high_watermark_before_truncation(self, partition: TopicPartition) -> int | None:
        """The last known high watermark of a log whose end was lost at a start of the broker.

        Recovery truncated it, or found it shorter than the high watermark. None if no end was lost,
        or if the replica has been in sync since.
        """
        return self._checkpoints.high_watermarks_before_truncation.get(partition)

    async def mark_in_sync_again(self, partition: TopicPartition) -> None:
        """Record that a log whose end was lost has all records again, as its leader confirms."""
        await self._checkpoints.high_watermarks_before_truncation.forget([partition])

    def high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark of the last checkpoint; 0 if there is none."""
        return self._checkpoints.high_watermarks.get(partition) or 0

    # --- maintenance----------------------------------------------------------------

    async def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Store recovery points and high watermarks: the next recovery starts there."""
        self.health.check()
        # `high_watermarks` was read in this iteration of the event loop. It is taken over before
        # the first await, because a truncation may lower both values in the meantime.
        await self._checkpoints.high_watermarks.update(high_watermarks)
        await self._checkpoints.recovery_points.update(
            {partition: log.recovery_point for partition, log in self.logs.items()}
        )

    async def flush_due(self) -> None:
        """Flush the logs for which `flush.ms` or `flush.messages` is reached. To be called
        often."""
        self.health.check()
        now_ms = self._clock.now_ms()
        due = [log for log in self.logs.values() if log.flush_is_due(now_ms)]
        await _in_groups(log.flush() for log in due)

    def remove_due_files(self) -> None:
        """Remove the files of replicas and segments that were deleted at least
        `file.delete.delay.ms` ago. To be called often: until then they take space.

        If the volume is short of space, files are removed without a delay: a reader that has a file
        open can still read it.
        """
        passed_ms = _END_OF_TIME_MS if self.free_space.is_short else self._clock.now_ms()
        for retired in [entry for entry in self._retired if entry.remove_at_ms <= passed_ms]:
            self._retired.remove(retired)
            retired.log.release()
            if retired.directory is not None:
                self._disk.remove(retired.directory)
        for log in self.logs.values():
            log.remove_expired_files(passed_ms)

    def forget_idle_producers(self, expiration_ms: int) -> None:
        """Remove producers from each log that have not written to it for this long."""
        for log in self.logs.values():
            log.forget_idle_producers(expiration_ms)

    async def maintain(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Flush, apply retention, and remove files after their delay.

        `high_watermarks` has the high watermark of each replica that is served: retention deletes
        only records below it.
        """
        with suppress(DiskFullError):  # the next steps may free space
            await self.flush_due()
        now_ms = self._clock.now_ms()
        self.remove_due_files()
        full: DiskFullError | None = None
        for partition, log in list(self.logs.items()):
            high_watermark = high_watermarks.get(partition)
            # During the awaits a log may have been deleted, or its truncation may have begun.
            if high_watermark is not None and log.is_writable:
                try:
                    await log.enforce_retention(high_watermark, now_ms)
                except DiskFullError as error:  # the next logs may free space
                    full = error
        self.remove_due_files()
        await self.damage.store()
        if full is not None:
            raise full

    async def close(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int) -> None:
        """Make everything durable and write the mark of a clean shutdown, so that the next start
        need not read the logs. `broker_epoch` is stored in the mark."""
        self.health.check()
        for partition, log in list(self.logs.items()):
            if log.damage is not None:
                # The mark of a clean shutdown applies only to logs that were closed undamaged.
                await self.quarantine_damaged(partition, log.damage)
        await _in_groups(log.close() for log in self.logs.values())
        ends = {partition: log.end_offset for partition, log in self.logs.items()}
        self.logs.clear()
        # The next start reads no log below its recovery point: it must know what is damaged there.
        await self.damage.store()
        await self._checkpoints.recovery_points.update(ends)
        await self._checkpoints.high_watermarks.update(high_watermarks)
        try:
            await self._disk.replace(CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))
        except OSError as error:
            self.health.take_offline(error)

    # --- notifications of logs -----------------------------------------------------

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        """Add the damage that a log has found to the history, and pass it on."""
        log = self.logs.get(partition)
        self.damage_history.found(partition, None if log is None else log.topic_id, found)
        self._events.log_damaged(partition, found)

    def log_compacts(self) -> None:
        self._events.log_compacts()

    # --- inner workings ------------------------------------------------------------

    async def _open_all(self, options: OpenOptions, *, clean: bool) -> list[PartitionReport]:
        """Open all logs; `clean`: the last shutdown was clean, so that none needs recovery."""
        opening = Opening(
            self._env,
            self.damage,
            self.damage_history,
            options.config_of,
            self._events.logs_opened,
        )
        reports = await opening.run(clean=clean)
        self.logs.update(opening.logs)
        self.quarantined.update(opening.quarantined)
        # Records that recovery has read may be in the page cache only: sync them.
        await _in_groups(_flushed(log) for log in self.logs.values())
        return reports

    def _damaged_directories(self, partition: TopicPartition, topic_id: UUID) -> list[str]:
        """The renamed directories with earlier, damaged copies of this replica, in listed order.

        A copy of another topic with the same name has another topic id. It may be the only one
        left, so it is not included.
        """
        # Their names differ only in the random part after the last dot.
        example = marked_directory(partition, UUID(int=0), STRAY_DIRECTORY_SUFFIX)
        prefix = example.rpartition(".")[0]
        found = []
        for name in self._disk.names(ROOT):
            is_marked = is_marked_directory(name) and name.endswith(STRAY_DIRECTORY_SUFFIX)
            if is_marked and name.rpartition(".")[0] == prefix:
                try:
                    data = read_file(self._disk, f"{name}/{PARTITION_METADATA}")
                    is_ours = decode_partition_metadata(data) == topic_id
                except (FileNotFoundError, ValueError):
                    is_ours = False
                if is_ours:
                    found.append(name)
        return found

    async def _create_files(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> PartitionLog:
        """Create the directory, the first segment and the metadata of an empty replica, durably."""
        directory = partition.directory
        self._disk.make_directory(directory)
        segment = Segment(self._disk, directory, 0, index_settings(config))
        segment.create(self._clock.now_ms())
        # The metadata comes last: with it, the replica is complete.
        await self._disk.replace(
            f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id)
        )
        await self._disk.sync_directory(directory)
        await self._disk.sync_directory(ROOT)
        loaded = LoadedLog(
            segments=[segment],
            epochs=EpochHistory(),
            producers=ProducerStates(),
            log_start_offset=0,
            durable_end_offset=0,
            unsynced=[],
        )
        return PartitionLog(LogState(self._env, partition, topic_id, config, loaded))

    def _remove_incomplete(self, partition: TopicPartition) -> None:
        """Remove an incompletely created replica, which would be in the way of the next attempt."""
        try:
            self._disk.remove(partition.directory)
        except OSError as error:
            self.health.take_offline(error)

    def _release_later(self, log: PartitionLog, directory: str | None) -> None:
        """Close the files of a log after `file.delete.delay.ms`, and remove `directory` then.

        With None the directory is kept.
        """
        remove_at_ms = self._clock.now_ms() + log.config.file_delete_delay_ms
        self._retired.append(_RetiredLog(remove_at_ms, log, directory))

    async def _rename_with_suffix(self, partition: TopicPartition, suffix: str) -> str:
        """Rename the directory of a partition, durably, and forget its checkpoints.

        Returns the new name: the partition's, a random part and `suffix`. If the disk is full, the
        checkpoints stay: the rename cannot be repeated, and `create` forgets them, too.
        """
        name = marked_directory(partition, UUID(bytes=self._rng.token(16)), suffix)
        try:
            self._disk.rename(partition.directory, name)
            await self._disk.sync_directory(ROOT)
        except OSError as error:
            self.health.take_offline(error)
        with suppress(DiskFullError):
            await self._checkpoints.forget(partition)
        return name


@dataclass(slots=True)
class _RetiredLog:
    """A deleted log, whose files a reader may still use."""

    remove_at_ms: int
    log: PartitionLog
    directory: str | None
    """The directory to remove; None for a damaged log, which stays."""


async def _flushed(log: PartitionLog) -> None:
    """Flush a log. If there is no space for its epoch history, the next flush tries again."""
    with suppress(DiskFullError):
        await log.flush()


async def _in_groups(work: Iterable[Awaitable[None]]) -> None:
    """Run all, at most `_MAX_CONCURRENT` at a time, and wait for them."""
    iterator = iter(work)
    while group := list(islice(iterator, _MAX_CONCURRENT)):
        await asyncio.gather(*group)
