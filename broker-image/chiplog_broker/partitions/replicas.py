"""All replicas of this broker, kept equal to what the metadata says they should be.

Changes are applied one at a time and in order, even if a topic is created, changed and deleted
within a second. Data is deleted only if the metadata names the id of the deleted topic. A directory
that belongs to no known topic is left alone, or renamed if a new topic needs its name.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.port import Damaged, Halted, LogEnd
from chiplog_broker.metadata.view import NO_LEADER, PartitionView, TopicView
from chiplog_broker.partitions.counters import IsrChanges
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.events import ReplicaEvents
from chiplog_broker.partitions.following import Following
from chiplog_broker.partitions.partition import Partition, PartitionContext
from chiplog_broker.partitions.proposals import Proposals
from chiplog_broker.partitions.rebuilding import Debt, Debts
from chiplog_broker.partitions.settings import topic_log_config
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.compaction_stats import CleanerStats
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.damage_history import DamageHistory
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DamagedLogError, StorageError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.storage.room import DiskRoom
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Fetchers(Protocol):
    """Fetches records from leaders on other brokers. Neither method may raise."""

    def begin(self, following: Following) -> None:
        """Fetch this partition from `following.leader_id` from now on."""

    def end(self, following: Following) -> None:
        """Stop fetching it; the caller awaits `following.stop` afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """The services that the replicas of a broker use."""

    fetch_waiters: FetchWaiters
    clock: Clock
    events: ReplicaEvents
    fetchers: Fetchers | None
    """None for a standalone broker, which follows nobody."""
    lag_max_s: Callable[[], float]
    """How long a follower may lag before the leader proposes to remove it from the ISR."""
    readers_follow: Callable[[], bool]
    """Whether consumers may be reading from followers."""


class Replicas:
    """The replicas of one broker, by topic and partition."""

    def __init__(self, broker_id: int, directory: LogDirectory, parts: ReplicaParts) -> None:
        self._broker_id = broker_id
        self._directory = directory
        self._fetchers = parts.fetchers
        self._events = parts.events
        self._proposals = Proposals(parts.events.proposals_changed)
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._indexes: dict[str, set[int]] = {}
        self._changing = asyncio.Lock()
        self.sync_latency = Histogram()
        self.isr_changes = IsrChanges()
        """The ISR changes of partitions led here."""
        self._debts = Debts()
        self._was_short = False
        self._quarantining: set[asyncio.Task[None]] = set()
        self._context = PartitionContext(
            fetch_waiters=parts.fetch_waiters,
            clock=parts.clock,
            sync_latency=self.sync_latency,
            proposals=self._proposals,
            lag_max_s=parts.lag_max_s,
            events=parts.events,
            readers_follow=parts.readers_follow,
        )

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def proposals(self) -> Proposals:
        """The open proposals of the leaders here."""
        return self._proposals

    @property
    def is_offline(self) -> bool:
        """Whether the data directory has failed."""
        return self._directory.health.failure is not None

    @property
    def cleaner_stats(self) -> CleanerStats:
        """The statistics of compaction on this broker."""
        return self._directory.cleaner_stats

    @property
    def quarantined(self) -> int:
        """Replicas that were found damaged and that no other broker can replace."""
        return len(self._directory.quarantined)

    def damaged(self) -> list[Damaged]:
        """The replicas here that were found damaged and are not refetched yet, by name."""
        quarantined, marks = self._directory.quarantined, self._directory.damage
        found = []
        for name in sorted(marks):
            mark = marks.get(name)
            assert mark is not None, "it was just named"
            found.append(
                Damaged(
                    name.topic,
                    name.partition,
                    quarantined.get(name, "it was damaged and is being fetched again"),
                    is_refetching=name not in quarantined,
                    is_owing=self._debts.owes(name),
                    file=mark.file,
                    offset=mark.offset,
                )
            )
        return found

    @property
    def damage_history(self) -> DamageHistory:
        """All damage that was found here, also if it has been repaired."""
        return self._directory.damage_history

    @property
    def scrubbed_bytes(self) -> int:
        """Bytes that were read to verify checksums."""
        return self._directory.scrubber.scrubbed_bytes

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition, if this broker leads it in that epoch. Raises `PartitionError`.

        A partition without a replica here counts as led elsewhere. Whether it exists is for the
        caller to check.
        """
        partition = self._held(topic, index)
        partition.check_epoch(current_leader_epoch)
        return partition

    def any(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Like `leader`, whatever the role of the replica here is. Raises `PartitionError`."""
        partition = self._held(topic, index)
        partition.check_epoch_of_any(current_leader_epoch)
        return partition

    def _held(self, topic: str, index: int) -> Partition:
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        if why := self._directory.quarantined.get(TopicPartition(topic, index)):
            raise PartitionError(ErrorCode.kafka_storage_error, why)
        raise PartitionError(ErrorCode.not_leader_or_follower)

    def readable(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """Like `leader`, but also a follower that consumers may read (KIP-392).

        Raises `PartitionError`.
        """
        partition = self._partitions.get((topic, index))
        if partition is None or partition.is_leader:
            return self.leader(topic, index, current_leader_epoch)
        partition.check_epoch_of_follower(current_leader_epoch)
        return partition

    async def apply(self, topic: TopicView) -> None:
        """Create, configure, lead, follow or idle: make the topic's replicas here match its view.

        A failure of one does not stop the others. Afterwards the first error is raised:
        `StorageError` or `OSError`.
        """
        failures: list[OSError | StorageError] = []
        async with self._changing:
            self._proposals.applied(topic)
            config = topic_log_config(topic)
            await self._release_others(topic)
            for view in topic.partitions:
                if self._broker_id not in view.replicas:
                    continue
                try:
                    await self._apply(topic, view, config)
                except (OSError, StorageError) as failed:
                    name = TopicPartition(topic.name, view.index)
                    extra = {"partition": str(name), "reason": str(failed)}
                    logger.error("replica_not_applied", extra=extra)
                    failures.append(failed)
            self._events.topic_changed(topic.name)
        if failures:
            raise failures[0]

    async def _apply(self, topic: TopicView, view: PartitionView, config: LogConfig) -> None:
        name = TopicPartition(topic.name, view.index)
        if name in self._directory.quarantined and not await self._replace_damaged(name, view):
            return
        partition = self._partitions.get((topic.name, view.index))
        if partition is None:
            partition = await self._open(topic, view.index, config)
        partition.configure(config)
        if view.leader_id == self._broker_id:
            # Only leaders count changes, so that the counts of all brokers can be added.
            self.isr_changes.count_change(partition.in_sync, view.isr)
        partition.set_in_sync(view.isr, topic.min_isr)
        await self._check_refetched(name, view)
        partition.set_undamaged(is_whole=not self._directory.is_refetching(name))
        await self._check_cut(name, view)
        await self._set_role(partition, view, topic.min_isr)

    async def _replace_damaged(self, name: TopicPartition, view: PartitionView) -> bool:
        """Set a damaged replica aside, if another broker leads, so that it is fetched again.

        The damaged files are kept. Returns False, and does nothing, if no other broker leads: the
        damaged replica may be the only one.
        """
        if view.leader_id in {NO_LEADER, self._broker_id}:
            return False
        why = self._directory.quarantined[name]
        kept_as = await self._directory.set_aside(name)
        extra = {"partition": str(name), "reason": why, "kept_as": kept_as}
        logger.warning("damaged_replica_fetched_anew", extra=extra)
        self._events.problems_changed()
        return True

    async def _check_refetched(self, name: TopicPartition, view: PartitionView) -> None:
        """A refetched replica is complete once its leader has proposed it for the ISR."""
        if not self._directory.is_refetching(name):
            return
        self._debts.map_applied(name, view, self._broker_id)
        if self._debts.owes(name):
            return
        own = next(
            (replica for replica in view.live_refs if replica.broker_id == self._broker_id), None
        )
        if own is not None and own in view.isr_refs:
            await self._directory.is_whole(name)
            logger.info("damaged_replica_whole_again", extra={"partition": str(name)})
            self._events.problems_changed()

    async def _check_cut(self, name: TopicPartition, view: PartitionView) -> None:
        """A replica in the ISR of its present session has proved that it has everything."""
        if self._directory.committed_before_cut(name) is None:
            return
        own = next(
            (replica for replica in view.live_refs if replica.broker_id == self._broker_id), None
        )
        if own is not None and own in view.isr_refs:
            await self._directory.is_in_sync_again(name)

    async def _set_role(self, partition: Partition, view: PartitionView, min_isr: int) -> None:
        """Lead, follow or idle. A leader's log has no follower task (replication.md, 2)."""
        following = partition.following
        is_led_here = view.leader_id == self._broker_id
        if following is not None:
            leadership = following.leader_id, following.leader_epoch
            if not is_led_here and leadership == (view.leader_id, view.leader_epoch):
                return
            await self._stop_following(partition)
        if is_led_here and not self._directory.is_refetching(partition.name):
            partition.lead(view, min_isr)
        elif is_led_here or view.leader_id == NO_LEADER:
            # A replica that may lack records does not lead, even if the map says so.
            partition.resign()
        else:
            partition.follow(view)
            if self._fetchers is not None and partition.following is not None:
                self._fetchers.begin(partition.following)

    async def _stop_following(self, partition: Partition) -> None:
        if self._fetchers is not None and partition.following is not None:
            self._fetchers.end(partition.following)
        await partition.stop_following()

    def check_free_space(self) -> None:
        """Measure the free space of the volume; to be called often."""
        room = self._directory.room
        room.refresh()
        if room.is_short == self._was_short:
            return
        self._was_short = room.is_short
        extra = {"free_bytes": room.free_bytes, "reserve_bytes": room.reserve_bytes}
        if room.is_short:
            logger.error("disk_is_full", extra=extra)
        else:
            logger.info("disk_has_room_again", extra=extra)
        self._events.problems_changed()

    @property
    def room(self) -> DiskRoom:
        """The free space of the volume."""
        return self._directory.room

    @property
    def is_short_of_space(self) -> bool:
        return self._was_short

    def check_copies(self) -> None:
        """Check whether refetched replicas have all that the damaged ones were counted for; to be
        called often."""
        for name in list(self._debts):
            partition = self._partitions.get((name.topic, name.partition))
            following = None if partition is None else partition.following
            if partition is None or following is None or not following.is_confirmed:
                continue
            if self._debts.reached(name, partition.log.countable_end_offset):
                logger.info("damaged_replica_caught_up", extra={"partition": str(name)})
                self._events.problems_changed()
                self._events.topic_outdated(name.topic)

    def check_followers(self) -> None:
        """Propose to remove followers from the ISR that lag for too long; to be called
        regularly."""
        for partition in self:
            if partition.followers is not None:
                partition.check_followers()

    async def release(self, name: str) -> None:
        """Stop serving a topic. Its data stays, and is used again if the topic comes back."""
        async with self._changing:
            for partition in self.of_topic(name):
                await self._release(partition)
            self._events.topic_changed(name)

    async def delete(self, name: str, topic_id: UUID) -> None:
        """Delete the data of this topic id; a newer topic of the same name is not touched."""
        async with self._changing:
            self._proposals.forget(topic_id)
            for partition in self.of_topic(name):
                if partition.log.topic_id == topic_id:
                    await self._release(partition)
            for held in self._logs_of(topic_id):
                self._debts.forget(held.partition)
                await self._directory.delete(held.partition)
            await self._directory.forget_damage(name, topic_id)
            self._events.topic_changed(name)
            self._events.topic_deleted(topic_id)

    async def flush(self, topic_id: UUID) -> None:
        """Make all records of a topic durable."""
        async with self._changing:
            for log in self._logs_of(topic_id):
                await log.make_durable(log.end_offset)

    def log_end(self, topic_id: UUID, name: str, partition: int) -> LogEnd:
        """The log end offset of a replica; 0 if there is none."""
        log = self._directory.logs.get(TopicPartition(name, partition))
        if log is None or log.topic_id != topic_id:
            return LogEnd(0, None)
        is_empty = log.end_offset == log.log_start_offset
        epoch = log.last_epoch if is_empty else log.epoch_at(log.end_offset - 1)
        reached = self._directory.committed_before_cut(log.partition)
        committed = max(self._directory.high_watermark(log.partition), reached or 0)
        return LogEnd(log.end_offset, epoch if epoch >= 0 else None, committed, reached is not None)

    def halted(self) -> list[Halted]:
        """The replicas here that halted, ordered by name."""
        found = sorted(
            (partition for partition in self if partition.is_halted),
            key=lambda partition: partition.name,
        )
        return [
            Halted(
                partition.log.topic_id,
                partition.name.partition,
                partition.following.leader_epoch,
                partition.log.end_offset,
                partition.high_watermark,
                partition.following.why_over,
            )
            for partition in found
            if partition.following is not None
        ]

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """A context in which no replica is added or removed: for work on all of them."""
        async with self._changing:
            yield

    async def close(self) -> None:
        """Stop serving all partitions; the directory can be closed afterwards."""
        await asyncio.gather(*self._quarantining, return_exceptions=True)
        async with self._changing:
            for partition in self:
                await self._stop_following(partition)
                await partition.quiesce()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks for the checkpoint file."""
        return {partition.name: partition.high_watermark for partition in self}

    def of_topic(self, name: str) -> list[Partition]:
        """The replicas here of a topic's partitions."""
        return [self._partitions[name, index] for index in self._indexes.get(name, ())]

    def _logs_of(self, topic_id: UUID) -> list[PartitionLog]:
        return [log for log in self._directory.logs.values() if log.topic_id == topic_id]

    async def _release_others(self, topic: TopicView) -> None:
        """Release replicas that are not the topic's any more: of another topic id, or moved
        away."""
        held_here = {view.index for view in topic.partitions if self._broker_id in view.replicas}
        for partition in self.of_topic(topic.name):
            same = partition.log.topic_id == topic.topic_id
            if not same or partition.name.partition not in held_here:
                await self._release(partition)

    async def _release(self, partition: Partition) -> None:
        topic, index = partition.name.topic, partition.name.partition
        del self._partitions[topic, index]
        self._indexes[topic].discard(index)
        if not self._indexes[topic]:
            del self._indexes[topic]
        await self._stop_following(partition)
        await partition.quiesce()

    async def _open(self, topic: TopicView, index: int, config: LogConfig) -> Partition:
        name = TopicPartition(topic.name, index)
        log = await self._log(name, topic.topic_id, config)
        partition = Partition(name, log, self._directory.high_watermark(name), self._context)
        if self._directory.health.failure is not None:
            partition.go_offline(str(self._directory.health.failure))
        self._partitions[topic.name, index] = partition
        self._indexes.setdefault(topic.name, set()).add(index)
        return partition

    async def _log(self, name: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        log = self._directory.logs.get(name)
        if log is not None and log.topic_id != topic_id:
            # It belongs to another topic of this name that no metadata knows any more.
            await self._directory.quarantine(name, f"it holds topic {log.topic_id}")
            await self._directory.set_aside(name)
            log = None
        return log or await self._directory.create(name, topic_id, config)

    async def condemn(self, topic_id: UUID, name: TopicPartition, why: str) -> bool:
        """Mark a replica as damaged because another replica proved it; it is not served on return.

        Then it is treated like damage that is found here: it is fetched again if another broker
        leads. Returns False, and does nothing, if there is no undamaged replica here.
        """
        log = self._directory.logs.get(name)
        if log is None or log.topic_id != topic_id or self._directory.is_refetching(name):
            return False
        if log.damage is None:
            log.checks.condemn(why)
        await asyncio.gather(*self._quarantining, return_exceptions=True)
        return True

    def log_damaged(self, name: TopicPartition, found: DamagedLogError) -> None:
        """Stop serving it soon. This may be called within a read, which fails: the log returns
        nothing any more."""
        work = self._quarantine(name, found)
        task = asyncio.get_running_loop().create_task(work)
        self._quarantining.add(task)
        self._events.problems_changed()  # refused reads report this damage
        task.add_done_callback(self._quarantining.discard)

    async def _quarantine(self, name: TopicPartition, found: DamagedLogError) -> None:
        """Stop serving a damaged replica; the operator elects another leader."""
        logger.error(
            "replica_damaged",
            extra={
                "partition": str(name),
                "file": found.file,
                "offset": found.offset,
                "reason": str(found),
            },
        )
        async with self._changing:
            log = self._directory.logs.get(name)
            if log is None or log.damage is None:
                return  # its topic was deleted in the meantime
            partition = self._partitions.get((name.topic, name.partition))
            if partition is not None:
                self._debts.owe(name, debt_of(partition))
                await self._release(partition)
                self._events.topic_changed(name.topic)
            try:
                await self._directory.quarantine_damaged(name, found)
            except StorageError as failed:
                # It is not served; the next start has to find out whether it is damaged.
                extra = {"partition": str(name), "reason": str(failed)}
                logger.error("damage_not_remembered", extra=extra)
        self._events.problems_changed()
        self._events.topic_outdated(name.topic)

    def go_offline(self, failure: OSError) -> None:
        """The disk failed: nothing is acknowledged or read here until the broker restarts."""
        for partition in self:
            partition.go_offline(str(failure))


def debt_of(partition: Partition) -> Debt:
    """The debt of a replica that was found damaged."""
    following, followers, log = partition.following, partition.followers, partition.log
    if partition.is_leader:
        # Records beyond that may have existed on this replica only.
        start = followers.epoch_start_offset if followers is not None else 0
        return Debt(max(partition.high_watermark, start), partition.leader_epoch)
    epoch = partition.confirmed_epoch if following is None else following.leader_epoch
    return Debt(log.countable_end_offset, max(epoch, log.last_epoch))
