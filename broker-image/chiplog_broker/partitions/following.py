"""Following a leader for one leader epoch: fetch, append, make durable, repeat.

The leader takes the offset of a fetch as an acknowledgement: all records below it are stored as the
topic's durability asks, with `Fsync` synced. So a replica that may be counted fetches only from
such an offset. A replica that lacks records below the leader's high watermark is not counted for
anything, so it fetches on while it syncs.

If the log diverges from the leader's, its end is truncated, but never below the high watermark.
Where that would be necessary, the replica halts until the next leader epoch. The exception is a
loss that an unclean election accepted: records from before it may be truncated below the high
watermark if no leader since has confirmed them.

Everything runs on the event loop's thread, and one fetcher at a time calls `take`.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.partitions.follow_steps import (
    Append,
    AwaitMetadata,
    FetchedPartition,
    FetchPosition,
    Halt,
    Retry,
    StartOver,
    Step,
    Truncate,
    end_of_last_gap,
    next_step,
)
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.errors import (
    DiskFullError,
    LogClosedError,
    RecordsTruncatedError,
    StorageError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.throttle.copying import NO_COPYING, Copying
from chiplog_wire.protocol.messages import FetchPartitionResponse
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.errors import RecordsError

logger = logging.getLogger(__name__)

FULL_DISK_RETRY_S: Final = 1.0
MOST_UNSYNCED_BYTES: Final = 64 * 2**20
"""A replica that fetches on while it syncs waits for the sync at this many bytes."""
NEVER_S: Final = float("-inf")
ISR_LANE: Final = 0
COPY_LANES: Final = 2
"""Connections to one leader for copies: with two, the leader reads and sends for one while the
follower checks and writes what came over the other."""
LANES: Final = range(1 + COPY_LANES)
IN_MEMORY: Final = (bytes, bytearray, memoryview)


def lane_of(partition: int, copying: Copying) -> int:
    """The lane of a partition by its index, and by how the throttle applies to the replica."""
    return 1 + partition % COPY_LANES if copying else ISR_LANE


class Taken(Enum):
    """The result of `Following.take`: what the fetcher does with this partition next."""

    NOTHING_NEW = auto()
    PROGRESS = auto()
    FAILED = auto()
    """Fetch again after a pause."""
    OVER = auto()
    """Do not fetch again in this leader epoch."""
    IGNORED = auto()
    """The answer belongs to an earlier fetch."""


class FollowedReplica(Protocol):
    """The following replica: only `Following` changes its log and its high watermark."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def log(self) -> PartitionLog:
        """For reading, appending and syncing; the methods below remove records."""

    @property
    def high_watermark(self) -> int: ...
    @property
    def confirmed_epoch(self) -> int:
        """The newest epoch whose leader is known to have every record below our high watermark."""

    def confirm_by_leader(self, leader_epoch: int) -> None:
        """Record that the leader of this epoch has every record below our log end offset."""

    def follow_to(self, high_watermark: int) -> None:
        """Raise our high watermark to the leader's, but at most to our log end offset."""

    async def follow_log_start(self, log_start_offset: int) -> None:
        """Delete our records below the leader's log start offset, but none above our high
        watermark."""

    async def truncate_to(self, offset: int) -> None:
        """Truncate the log to `offset`."""

    async def start_over_at(self, offset: int) -> None:
        """Delete all records, and continue at `offset`."""

    def wake_readers(self) -> None:
        """Wake the consumers that wait here."""

    def go_offline(self, why: str) -> None:
        """Stop serving this replica, because the disk failed."""


class Contact:
    """The contact with one leader over one connection; shared by all partitions that are fetched
    over it."""

    __slots__ = ("answered_s", "has_movers", "news")

    def __init__(self) -> None:
        self.answered_s = NEVER_S
        """When the leader answered last, in monotonic seconds."""
        self.news = asyncio.Event()
        """Set when a partition that this leader serves can be fetched again."""
        self.has_movers = False
        """Whether a partition must be fetched over another connection to this leader from now
        on."""

    def answered(self, now_s: float) -> None:
        """Record that the leader has answered."""
        self.answered_s = now_s


class Following:
    """A replica here that follows a leader on another broker, for one leader epoch."""

    __slots__ = (
        "_clock",
        "_contact",
        "_halted",
        "_is_confirmed",
        "_is_over",
        "_lag_max_s",
        "_log",
        "_partition",
        "_problem",
        "_sync",
        "_taking",
        "_warn_at_s",
        "copying",
        "is_halted",
        "leader_epoch",
        "leader_high_watermark",
        "leader_id",
        "unclean_epoch",
    )

    def __init__(
        self,
        partition: FollowedReplica,
        view: PartitionView,
        clock: Clock,
        halted: Callable[[], None],
        lag_max_s: Callable[[], float],
    ) -> None:
        """`halted` is called if this replica halts. `lag_max_s` returns the age at which the
        leader's last answer is too old for consumers to read here."""
        self.leader_id = view.leader_id
        self.leader_epoch = view.leader_epoch
        self.unclean_epoch = view.unclean_epoch
        self.leader_high_watermark = partition.high_watermark
        """The leader's high watermark, as last reported."""
        self._partition = partition
        self._log = partition.log
        self._clock = clock
        self._halted = halted
        self._lag_max_s = lag_max_s
        self.copying = NO_COPYING
        """How the throttle applies to this replica; not at all while it is in the ISR."""
        self._contact: Contact | None = None
        """When the leader answered last; None before the first fetch and after `stop`."""
        self._is_confirmed = False
        """Whether the leader of this epoch has compared our log with its own."""
        self._taking = asyncio.Lock()
        """Held while an answer of the leader is processed."""
        self._sync: asyncio.Task[None] | None = None
        """The running sync of our log, or None."""
        self._is_over = False
        self._problem = ""
        """Why the last answer could not be used, or why following ended; empty after success."""
        self._warn_at_s = math.inf
        """When `_problem` is logged as a warning if it lasts; infinite if it was logged."""
        self.is_halted = False
        """Whether it stopped because following would lose acknowledged records: an operator must
        act."""

    def use_contact(self, contact: Contact) -> None:
        """Use this contact to fetch, and to know when the leader answered last."""
        self._contact = contact

    @property
    def lane(self) -> int:
        """Which of the connections to the leader fetches it: copies have their own, so that a
        throttle of copies holds nothing else back."""
        return lane_of(self._partition.name.partition, self.copying)

    def set_copying(self, copying: Copying) -> None:
        """Set how the throttle applies to this replica from now on."""
        if copying == self.copying:
            return
        self.copying = copying
        if self._contact is not None:
            self._contact.has_movers = True
            self._contact.news.set()

    @property
    def key(self) -> tuple[bytes, int]:
        """The partition as fetch requests name it: topic id and partition index."""
        return self._log.topic_id.bytes, self._partition.name.partition

    @property
    def is_over(self) -> bool:
        """Whether following has ended for this leader epoch."""
        return self._is_over

    @property
    def why_over(self) -> str:
        """Why following ended; empty if it ended because another leader epoch began.

        Meaningless while `is_over` is false.
        """
        return self._problem

    @property
    def is_current(self) -> bool:
        """Whether consumers may read here.

        They may if the leader of this epoch has compared our log with its own, we have every record
        below its high watermark, and its last answer is not older than the time after which a
        lagging follower leaves the ISR.
        """
        if self._is_over or self._problem or not self._is_confirmed or self.lag:
            return False
        answered_s = NEVER_S if self._contact is None else self._contact.answered_s
        return self._clock.monotonic_s() - answered_s <= self._lag_max_s()

    @property
    def is_confirmed(self) -> bool:
        """Whether the leader of this epoch has compared our log with its own."""
        return self._is_confirmed and not self._is_over

    @property
    def is_syncing(self) -> bool:
        return self._sync is not None

    @property
    def lag(self) -> int:
        """Records below the leader's high watermark that are missing here."""
        return max(self.leader_high_watermark - self._log.end_offset, 0)

    def position(self) -> FetchPosition | None:
        """The position of the next fetch; None if this partition cannot be fetched now.

        That is so after following has ended, while the log is not writable, and until its end is
        synced, because a fetch acknowledges all records below its offset. The sync starts here.

        An offset below the leader's high watermark acknowledges nothing, so it need not be synced.
        The leader counts only replicas whose acknowledged offsets reach the high watermark, and
        within a leader epoch that is never lowered. But what is fetched faster than the disk can
        sync would grow with each sync, until the kernel made every write of this broker wait.
        """
        log = self._log
        if self._is_over or not log.is_writable:
            return None
        if log.countable_end_offset < log.end_offset:
            self._begin_sync()
            if not (self._is_confirmed and self.lag):
                return None
            if log.bytes_from(log.durable_end_offset) >= MOST_UNSYNCED_BYTES:
                return None
        return FetchPosition(
            log.end_offset, log.last_epoch, self.leader_epoch, log.log_start_offset
        )

    async def take(self, fetched: FetchedPartition) -> Taken:
        """Act on the leader's answer: append its records, truncate our log, or stop following.

        Returns what the fetcher does next. Errors of the log or the disk are not raised: the fetch
        is repeated later.
        """
        async with self._taking:
            if self._is_over or fetched.requested != self.position():
                # Our log has changed since this fetch was sent.
                return Taken.IGNORED
            step = next_step(self._log, self._kept_offset, fetched.answer)
            try:
                return await self._carry_out(step, fetched.answer)
            except DiskFullError as full:
                return self._retry_later(str(full))
            except LogClosedError as closed:
                return self._end_following(str(closed))
            except (RecordsError, StorageError) as refused:
                # The leader's records do not fit, or the disk failed, which has been reported
                # already.
                return self._retry_later(str(refused))

    async def stop(self) -> None:
        """Stop following; after this returns nothing of this leader epoch is appended to the
        log."""
        self._is_over = True
        self._contact = None
        # Wait until a `take` in progress is complete. A later one does nothing.
        async with self._taking:
            pass
        if self._sync is not None:
            await asyncio.wait([self._sync])

    # -- inner workings

    @property
    def _kept_offset(self) -> int:
        """The offset below which nothing may be truncated, whatever the leader answers."""
        if self._partition.confirmed_epoch < self.unclean_epoch:
            # Our records may be those that the unclean election gave up; no leader since has
            # confirmed them.
            return 0
        return self._partition.high_watermark

    async def _carry_out(self, step: Step, answer: FetchPartitionResponse) -> Taken:
        """Carry out the step that `next_step` chose for this answer; returns what the fetcher does
        next."""
        match step:
            case Append():
                return await self._append(answer)
            case Truncate(offset):
                return await self._truncate(offset)
            case StartOver(offset):
                logger.warning("log_started_over", extra=self._log_fields(offset=offset))
                await self._partition.start_over_at(offset)
                return Taken.PROGRESS
            case Retry(reason):
                return self._retry_later(reason)
            case AwaitMetadata(reason):
                return self._end_following(reason)
            case Halt(reason):
                logger.error("follower_halted", extra=self._log_fields(reason=reason))
                self.is_halted = True
                taken = self._end_following(reason)
                self._halted()
                return taken

    async def _append(self, answer: FetchPartitionResponse) -> Taken:
        """Append the records of the answer, and adopt the leader's high watermark and log start
        offset. Returns `PROGRESS` if there were records, else `NOTHING_NEW`."""
        taken = Taken.NOTHING_NEW
        records = answer.records
        assert isinstance(records, IN_MEMORY)  # the codec returns them as a view
        if len(records):
            if answer.may_have_gaps:
                await self._allow_gaps(memoryview(records))
            await self._append_records(memoryview(records))
            taken = Taken.PROGRESS
        # The leader compares our log end with its log before it sends records or an empty answer,
        # so it has every record below our log end.
        self._partition.confirm_by_leader(self.leader_epoch)
        self._is_confirmed, self._problem = True, ""
        self.leader_high_watermark = answer.high_watermark
        self._partition.follow_to(answer.high_watermark)
        await self._partition.follow_log_start(answer.log_start_offset)
        self.position()  # called only because it starts a sync if one is necessary
        return taken

    async def _allow_gaps(self, records: memoryview) -> None:
        """Record up to which offset our log may have gaps, if offsets are missing in the records.

        The topic's present cleanup policy is not asked: the gaps may come from a compaction that
        took place before the policy changed.
        """
        gap_end_offset = end_of_last_gap(records, self._log.end_offset)
        if gap_end_offset:
            await self._log.compaction.allow_gaps(gap_end_offset)

    async def _append_records(self, records: memoryview) -> None:
        """Append records; an empty log that they do not fit starts over where they fit."""
        log, now_ms = self._log, self._clock.now_ms()
        is_empty = log.end_offset == log.log_start_offset
        if is_empty and read_header(records).leader_epoch < log.last_epoch:
            # The log has no records, but its epoch history names a later epoch than the leader's
            # records: the history is outdated or damaged. The append would always be refused, so
            # remove the history.
            logger.warning("epochs_dropped", extra=self._log_fields(epoch=log.last_epoch))
            await self._partition.start_over_at(log.log_start_offset)
        try:
            log.append_as_follower(records, self.leader_epoch, now_ms)
        except UnexpectedOffsetError as unexpected:
            found = unexpected.found_offset
            if not (is_empty and 0 <= found < log.log_start_offset):
                raise
            # The leader's log start offset, where our empty log begins, is within this batch. The
            # leader sends complete batches, so our log has to begin at the batch's first offset.
            await self._partition.start_over_at(found)
            log.append_as_follower(records, self.leader_epoch, now_ms)

    async def _truncate(self, offset: int) -> Taken:
        """Truncate to `offset`, and sync. The next fetch compares epochs again."""
        if offset < self._partition.high_watermark:
            facts = self._log_fields(offset=offset, unclean_epoch=self.unclean_epoch)
            logger.warning("acknowledged_records_cut_off", extra=facts)
        else:
            logger.info("follower_truncated", extra=self._log_fields(offset=offset))
        await self._partition.truncate_to(offset)
        # Sync before anything is appended: otherwise, after a power cut, removed batches could
        # stand behind new ones, which would look like damage.
        await self._log.flush()
        return Taken.PROGRESS

    def _retry_later(self, reason: str) -> Taken:
        """Have the fetch repeated after a pause, and log the reason.

        Short interruptions are normal during elections and restarts: they are logged as info. If
        the reason stays the same for longer than a follower may lag (`lag_max_s`), it is logged as
        a warning, once.
        """
        now_s = self._clock.monotonic_s()
        if reason != self._problem:
            logger.info("follower_waits", extra=self._log_fields(reason=reason))
            self._problem, self._warn_at_s = reason, now_s + self._lag_max_s()
        elif now_s >= self._warn_at_s:
            logger.warning("follower_waits", extra=self._log_fields(reason=reason))
            self._warn_at_s = math.inf
        return Taken.FAILED

    def _end_following(self, reason: str) -> Taken:
        """Stop fetching in this leader epoch. Waiting consumers get an error and read elsewhere."""
        self._is_over = True
        self._problem = reason
        self._partition.wake_readers()
        return Taken.OVER

    def _begin_sync(self) -> None:
        """Start a task that syncs our log, unless one is running."""
        if self._sync is None:
            self._sync = asyncio.get_running_loop().create_task(self._make_durable())

    async def _make_durable(self) -> None:
        """Sync the log up to its end, also records that are appended during a sync."""
        log = self._log
        try:
            while log.countable_end_offset < log.end_offset and not self._is_over:
                try:
                    await log.make_durable(log.end_offset)
                except RecordsTruncatedError:
                    # The leader's answer removed records during their sync; the rest is synced.
                    continue
                except DiskFullError as full:
                    self._retry_later(str(full))
                    await self._clock.sleep(FULL_DISK_RETRY_S)
        except Exception as failed:
            # Whatever the error was, the leader must not count this replica any more: it cannot
            # tell which of its records are durable.
            logger.exception("sync_failed", extra=self._log_fields())
            self._partition.go_offline(str(failed))
            self._end_following(str(failed))
        finally:
            self._sync = None
            if self._contact is not None:
                self._contact.news.set()

    def _log_fields(self, **more: object) -> dict[str, object]:
        """The fields of this replica's log entries."""
        return {
            "partition": str(self._partition.name),
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "log_end": self._log.end_offset,
            "high_watermark": self._partition.high_watermark,
            **more,
        }


def has_caught_up(following: Following) -> bool:
    """Whether the replica has all records below the leader's high watermark. Then the leader may
    have proposed it for the ISR, and producers wait for it."""
    return following.is_confirmed and not following.lag
