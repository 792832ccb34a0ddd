"""All replicas of this broker. Changes of the metadata are applied to them here.

Changes are applied one at a time and in order, even if a topic is created, changed and deleted
within a second. Data is deleted only if the metadata names the id of the deleted topic. A directory
that belongs to no known topic is kept, and renamed if a new topic needs its name.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.port import Damaged, Halted, LogEnd, Settled
from chiplog_broker.metadata.view import NO_LEADER, PartitionView, TopicView
from chiplog_broker.partitions.counters import IsrChanges
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.events import ReplicaEvents
from chiplog_broker.partitions.following import Following
from chiplog_broker.partitions.partition import Partition, PartitionContext
from chiplog_broker.partitions.proposals import Proposals
from chiplog_broker.partitions.rebuilding import CatchUpGoal, CatchUpGoals
from chiplog_broker.partitions.settings import topic_log_config
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.compaction_stats import CleanerStats
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.damage_history import DamageHistory
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DamagedLogError, DiskFullError, StorageError
from chiplog_broker.storage.free_space import FreeSpace
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.throttle.copying import NO_COPYING, Copying, copying_of
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
    """None for a standalone broker, which follows no leader."""
    lag_max_s: Callable[[], float]
    """How long a follower may lag before the leader proposes to remove it from the ISR."""
    consumers_read_followers: Callable[[], bool]
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
        """By topic: the indexes of its partitions that have a replica here."""
        self._changing = asyncio.Lock()
        """Held while replicas are added, removed or change their role."""
        self.sync_latency = Histogram()
        self.isr_changes = IsrChanges()
        """The ISR changes of partitions led here."""
        self._goals = CatchUpGoals()
        self._was_short = False
        """Whether the volume was short of space when it was last measured."""
        self._quarantining: set[asyncio.Task[None]] = set()
        """Tasks that stop serving replicas which were just found damaged."""
        self._leaving: dict[TopicPartition, asyncio.Task[None]] = {}
        """Released replicas whose last work on their logs is still under way."""
        self._context = PartitionContext(
            fetch_waiters=parts.fetch_waiters,
            clock=parts.clock,
            sync_latency=self.sync_latency,
            proposals=self._proposals,
            lag_max_s=parts.lag_max_s,
            events=parts.events,
            consumers_read_followers=parts.consumers_read_followers,
        )

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def proposals(self) -> Proposals:
        """The ISR changes that leaders here have proposed, and that are not decided yet."""
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
            assert mark is not None, "no await since the marks were listed"
            found.append(
                Damaged(
                    name.topic,
                    name.partition,
                    quarantined.get(name, "it was damaged and is being fetched again"),
                    is_refetching=name not in quarantined,
                    must_catch_up=self._goals.is_open(name),
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
        """The partition, if this broker leads it in that epoch; -1 is not compared.

        Raises `PartitionError`. A partition without a replica here counts as led elsewhere, even if
        it does not exist: the caller checks that.
        """
        partition = self._replica_here(topic, index)
        partition.check_epoch(current_leader_epoch)
        return partition

    def replica_of_any_role(
        self, topic: str, index: int, current_leader_epoch: int = -1
    ) -> Partition:
        """The replica of the partition on this broker, whatever its role is: for inspection.

        `current_leader_epoch` is compared if it is not -1. Raises `PartitionError`.
        """
        partition = self._replica_here(topic, index)
        partition.check_epoch_of_any(current_leader_epoch)
        return partition

    def _replica_here(self, topic: str, index: int) -> Partition:
        """The replica on this broker. Raises `PartitionError` if it is missing or damaged."""
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        if why := self._directory.quarantined.get(TopicPartition(topic, index)):
            raise PartitionError(ErrorCode.kafka_storage_error, why)
        raise PartitionError(ErrorCode.not_leader_or_follower)

    def readable(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The replica here if consumers may read from it: the leader, or a follower that is in
        contact with the leader (KIP-392).

        `current_leader_epoch` is compared if it is not -1. Raises `PartitionError`.
        """
        partition = self._partitions.get((topic, index))
        if partition is None or partition.is_leader:
            return self.leader(topic, index, current_leader_epoch)
        partition.check_epoch_of_follower(current_leader_epoch)
        return partition

    async def apply(self, topic: TopicView) -> None:
        """Make the topic's replicas here match the metadata: create, remove and configure them, and
        let each lead, follow or idle.

        A failure of one replica does not stop the others. Afterwards the first error is raised:
        `StorageError` or `OSError`.
        """
        failures: list[OSError | StorageError] = []
        async with self._changing:
            self._proposals.applied(topic)
            config = topic_log_config(topic)
            self._release_others(topic)
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
        """Make one replica match the metadata of its partition."""
        name = TopicPartition(topic.name, view.index)
        if name in self._directory.quarantined and not await self._replace_damaged(name, view):
            return
        partition = self._partitions.get((topic.name, view.index))
        if partition is None:
            partition = await self._open(topic, view.index, config)
        partition.configure(
            replace(config, durability=Durability.FSYNC) if view.awaits_proof else config
        )
        if view.leader_id == self._broker_id:
            # Only the leader counts changes of the ISR: added up over all brokers, each change is
            # counted once.
            self.isr_changes.count_change(partition.in_sync, view.isr)
        partition.set_in_sync(view.isr, topic.min_isr)
        full: DiskFullError | None = None
        try:
            await self._check_refetched(name, view)
            await self._check_truncated(name, view)
        except DiskFullError as error:
            # The marks stay in force until the next attempt, and the replica follows meanwhile.
            full = error
        partition.set_undamaged(is_undamaged=not self._directory.is_refetching(name))
        await self._set_role(partition, view, topic)
        if full is not None:
            raise full

    async def _replace_damaged(self, name: TopicPartition, view: PartitionView) -> bool:
        """Rename the directory of a damaged replica, so that a new copy is fetched from the leader.

        The damaged files are kept under the new name. Returns False, and does nothing, if no other
        broker leads: the damaged replica may be the only one.
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
        """Mark a refetched replica as undamaged once it is complete.

        It is complete when the ISR contains it in its present session and its catch-up goal is
        reached: an ISR from before the damage was found may still list it.
        """
        if not self._directory.is_refetching(name):
            return
        self._goals.map_applied(name, view, self._broker_id)
        if self._goals.is_open(name):
            return
        own = next(
            (replica for replica in view.live_refs if replica.broker_id == self._broker_id), None
        )
        if own is not None and own in view.isr_refs:
            await self._directory.mark_undamaged(name)
            logger.info("damaged_replica_whole_again", extra={"partition": str(name)})
            self._events.problems_changed()

    async def _check_truncated(self, name: TopicPartition, view: PartitionView) -> None:
        """Note that a log which recovery truncated has all records again, once it is in sync.

        A leader adds a replica to the ISR in its present session only if it has all records.
        """
        if self._directory.high_watermark_before_truncation(name) is None:
            return
        own = next(
            (replica for replica in view.live_refs if replica.broker_id == self._broker_id), None
        )
        if own is not None and own in view.isr_refs:
            await self._directory.mark_in_sync_again(name)

    async def _set_role(self, partition: Partition, view: PartitionView, topic: TopicView) -> None:
        """Let the replica lead, follow or idle, as the map says.

        Following is stopped first, so that nothing else appends to the log of a leader (see
        replication.md, 2). A replica that follows the right leader already is not changed.
        """
        following = partition.following
        is_led_here = view.leader_id == self._broker_id
        if following is not None:
            leadership = following.leader_id, following.leader_epoch
            if not is_led_here and leadership == (view.leader_id, view.leader_epoch):
                following.set_copying(self._copying(topic, view))
                return
            await self._stop_following(partition)
        if is_led_here and not self._directory.is_refetching(partition.name):
            partition.lead(view, topic.min_isr)
        elif is_led_here or view.leader_id == NO_LEADER:
            # Without a leader, the replica idles. So does a copy that is being refetched: it may
            # lack records, so it does not lead, even if the map says so.
            partition.resign()
        else:
            partition.follow(view)
            if self._fetchers is not None and partition.following is not None:
                partition.following.set_copying(self._copying(topic, view))
                self._fetchers.begin(partition.following)

    def _copying(self, topic: TopicView, view: PartitionView) -> Copying:
        """How the throttle applies to this broker's replica of a partition led elsewhere."""
        # Also in an earlier session: the high watermark waits for a member that has restarted.
        if any(member.broker_id == self._broker_id for member in view.isr_refs):
            return NO_COPYING
        return copying_of(
            topic.config.own,
            view.index,
            leader=view.leader_id,
            follower=self._broker_id,
            adding=view.adding,
        )

    async def _stop_following(self, partition: Partition) -> None:
        """Stop the fetches of a partition, and wait until nothing more is appended to its log."""
        if self._fetchers is not None and partition.following is not None:
            self._fetchers.end(partition.following)
        await partition.stop_following()

    def check_free_space(self) -> None:
        """Measure the free space of the volume; log and report when it becomes short, or enough
        again. To be called often."""
        space = self._directory.free_space
        space.refresh()
        if space.is_short == self._was_short:
            return
        self._was_short = space.is_short
        extra = {"free_bytes": space.free_bytes, "reserve_bytes": space.reserve_bytes}
        if space.is_short:
            logger.error("disk_is_full", extra=extra)
        else:
            logger.info("disk_has_room_again", extra=extra)
        self._events.problems_changed()

    @property
    def free_space(self) -> FreeSpace:
        """The free space of the volume."""
        return self._directory.free_space

    @property
    def is_short_of_space(self) -> bool:
        return self._was_short

    @property
    def log_bytes(self) -> int:
        return sum(partition.log.size_bytes for partition in self)

    def check_catch_up_goals(self) -> None:
        """Remove the catch-up goals that refetched replicas have reached; to be called often.

        A goal is what `catch_up_goal_of` returned when the replica was found damaged.
        """
        for name in list(self._goals):
            partition = self._partitions.get((name.topic, name.partition))
            following = None if partition is None else partition.following
            if partition is None or following is None or not following.is_confirmed:
                continue
            if self._goals.reached(name, partition.log.countable_end_offset):
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
        """Stop serving a topic. Its data stays, and is used again if the metadata lists the topic
        again."""
        async with self._changing:
            for partition in self.of_topic(name):
                self._release(partition)
            self._events.topic_changed(name)

    async def delete(self, name: str, topic_id: UUID) -> None:
        """Delete the data of this topic id; a newer topic of the same name is not touched."""
        async with self._changing:
            self._proposals.forget(topic_id)
            for partition in self.of_topic(name):
                if partition.log.topic_id == topic_id:
                    self._release(partition)
            for log in self._logs_of(topic_id):
                await self._left(log.partition)
                self._goals.forget(log.partition)
                await self._directory.delete(log.partition)
            await self._directory.forget_damage(name, topic_id)
            self._events.topic_changed(name)
            self._events.topic_deleted(topic_id)

    async def remove(self, topic_id: UUID, name: TopicPartition) -> None:
        """Delete the data of a replica that was moved to another broker, as its map orders.

        Nothing happens if there is none. Damaged files stay, under another name.
        """
        async with self._changing:
            await self._left(name)
            # After a failed deletion the files may still be there: the next start finds them.
            self._directory.health.check()
            log = self._directory.logs.get(name)
            if log is not None and log.topic_id != topic_id:
                return
            self._goals.forget(name)
            if log is not None:
                assert (name.topic, name.partition) not in self._partitions, "it is still served"
                await self._directory.delete(name)
            # Also without files: the mark of a copy that could not be created would stay for ever.
            await self._directory.damage.forget(name)
            if name in self._directory.quarantined:
                await self._directory.set_aside(name)

    async def flush(self, topic_id: UUID) -> None:
        """Make all records of a topic durable."""
        async with self._changing:
            for log in self._logs_of(topic_id):
                await log.make_durable(log.end_offset)

    def log_end(self, topic_id: UUID, name: str, partition: int) -> LogEnd:
        """Where the log of a replica ends, for an election; offset 0 if there is no replica.

        `LogEnd` has the log end offset, the epoch of the last record, the highest high watermark
        that is known, and whether recovery truncated the log and it was not in sync since.
        """
        log = self._directory.logs.get(TopicPartition(name, partition))
        if log is None or log.topic_id != topic_id:
            return LogEnd(0, None)
        is_empty = log.end_offset == log.log_start_offset
        epoch = log.last_epoch if is_empty else log.epoch_at(log.end_offset - 1)
        before = self._directory.high_watermark_before_truncation(log.partition)
        committed = max(self._directory.high_watermark(log.partition), before or 0)
        return LogEnd(log.end_offset, epoch if epoch >= 0 else None, committed, before is not None)

    def halted(self) -> list[Halted]:
        """The replicas here that halted, ordered by name: following their leader would lose
        acknowledged records."""
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

    def settled(self) -> list[Settled]:
        """The partitions led here whose removed replicas are not needed any more, by name."""
        found = sorted(
            (partition for partition in self if partition.is_settled),
            key=lambda partition: partition.name,
        )
        return [
            Settled(
                partition.log.topic_id,
                partition.name.partition,
                partition.leader_session,
                partition.leader_epoch,
            )
            for partition in found
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
            for name in list(self._leaving):
                await self._left(name)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks for the checkpoint file."""
        return {partition.name: partition.high_watermark for partition in self}

    def of_topic(self, name: str) -> list[Partition]:
        """The replicas here of a topic's partitions."""
        return [self._partitions[name, index] for index in self._indexes.get(name, ())]

    def _logs_of(self, topic_id: UUID) -> list[PartitionLog]:
        return [log for log in self._directory.logs.values() if log.topic_id == topic_id]

    def _release_others(self, topic: TopicView) -> None:
        """Stop serving replicas that this topic does not have here any more.

        They belong to an earlier topic of the same name, or the partition was moved to other
        brokers.
        """
        held_here = {view.index for view in topic.partitions if self._broker_id in view.replicas}
        for partition in self.of_topic(topic.name):
            same = partition.log.topic_id == topic.topic_id
            if not same or partition.name.partition not in held_here:
                self._release(partition)

    def _release(self, partition: Partition) -> None:
        """Stop serving a replica; its log stays open in the directory.

        It may still append what its leader has just sent, and sync: nobody waits for that here, as
        other replicas of the topic are to lead. Who needs the log awaits `_left` first.
        """
        topic, index = partition.name.topic, partition.name.partition
        del self._partitions[topic, index]
        self._indexes[topic].discard(index)
        if not self._indexes[topic]:
            del self._indexes[topic]
        partition.resign()
        if self._fetchers is not None and partition.following is not None:
            self._fetchers.end(partition.following)
        leaving = asyncio.get_running_loop().create_task(partition.quiesce())
        self._leaving[partition.name] = leaving
        leaving.add_done_callback(lambda _: self._leaving.pop(partition.name))

    async def _left(self, name: TopicPartition) -> None:
        """Wait until no released replica of this partition works on its log any more."""
        leaving = self._leaving.get(name)
        if leaving is not None:
            await asyncio.wait([leaving])

    async def _open(self, topic: TopicView, index: int, config: LogConfig) -> Partition:
        """Start serving a replica; its log is created if there is none."""
        name = TopicPartition(topic.name, index)
        await self._left(name)
        log = await self._log(name, topic.topic_id, config)
        partition = Partition(name, log, self._directory.high_watermark(name), self._context)
        if self._directory.health.failure is not None:
            partition.go_offline(str(self._directory.health.failure))
        self._partitions[topic.name, index] = partition
        self._indexes.setdefault(topic.name, set()).add(index)
        return partition

    async def _log(self, name: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a replica; created if there is none of this topic id."""
        log = self._directory.logs.get(name)
        if log is not None and log.topic_id != topic_id:
            # It belongs to an earlier topic of this name. Its deletion was not reported by id, so
            # its data is kept.
            await self._directory.quarantine(name, f"it holds topic {log.topic_id}")
            await self._directory.set_aside(name)
            log = None
        return log or await self._directory.create(name, topic_id, config)

    async def mark_damaged(self, topic_id: UUID, name: TopicPartition, why: str) -> bool:
        """Mark a replica as damaged because of a comparison with other replicas (`why`).

        On return it is not served any more. As after damage that is found here, it is fetched again
        if another broker leads. Returns False, and does nothing, if there is no undamaged replica
        here.
        """
        log = self._directory.logs.get(name)
        if log is None or log.topic_id != topic_id or self._directory.is_refetching(name):
            return False
        if log.damage is None:
            log.checks.mark_damaged(why)
        await asyncio.gather(*self._quarantining, return_exceptions=True)
        return True

    def log_damaged(self, name: TopicPartition, found: DamagedLogError) -> None:
        """Stop serving a replica that was just found damaged, in a task of its own.

        It may be called in the middle of a read of this log. That read fails, and later ones, too.
        """
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
                self._goals.add(name, catch_up_goal_of(partition))
                self._release(partition)
                await self._left(name)
                self._events.topic_changed(name.topic)
            try:
                await self._directory.quarantine_damaged(name, found)
            except StorageError as failed:
                # The replica is not served, but its damage could not be recorded on disk: the next
                # start has to detect it again.
                extra = {"partition": str(name), "reason": str(failed)}
                logger.error("damage_not_remembered", extra=extra)
        self._events.problems_changed()
        self._events.topic_outdated(name.topic)

    def go_offline(self, failure: OSError) -> None:
        """Stop serving all partitions because the disk failed.

        Nothing is acknowledged or read here until the broker restarts.
        """
        for partition in self:
            partition.go_offline(str(failure))


def catch_up_goal_of(partition: Partition) -> CatchUpGoal:
    """The goal of the new copy of this replica, which was found damaged: the offset that the copy
    has to reach, and the newest leader epoch whose leader may have counted the damaged replica as
    in sync.

    Below the offset are all records that may have been acknowledged because this replica had them.
    """
    following, followers, log = partition.following, partition.followers, partition.log
    if partition.is_leader:
        # Records above this offset are not acknowledged, and may exist on this replica only: a new
        # copy cannot be expected to have them.
        start = followers.epoch_start_offset if followers is not None else 0
        return CatchUpGoal(max(partition.high_watermark, start), partition.leader_epoch)
    epoch = partition.confirmed_epoch if following is None else following.leader_epoch
    return CatchUpGoal(log.countable_end_offset, max(epoch, log.last_epoch))
