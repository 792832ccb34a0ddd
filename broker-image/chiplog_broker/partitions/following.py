"""Following a leader for one leader epoch: fetch, append, make durable, repeat.

A fetch position covers only records that count as stored here: with `Fsync` those that are synced,
so that the leader may take a fetch offset as an acknowledgement. Diverging histories are truncated
by leader epochs, never below the high watermark. Where that would be necessary, the replica halts
until the next leader epoch. The exception is a loss that was accepted: records from before the
map's last unclean election may be truncated below the high watermark if no leader since has
confirmed them.

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
    StorageError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.protocol.messages import FetchPartitionResponse
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.errors import RecordsError

logger = logging.getLogger(__name__)

FULL_DISK_RETRY_S: Final = 1.0
NEVER_S: Final = float("-inf")
_IN_MEMORY: Final = (bytes, bytearray, memoryview)


class Taken(Enum):
    """The result of `Following.take`."""

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
        """The leader of this epoch has every record below our log end offset."""

    def follow_to(self, high_watermark: int) -> None:
        """Raise the high watermark to that of the leader."""

    async def follow_log_start(self, log_start_offset: int) -> None:
        """The leader's log start offset is this: delete older records as far as they are safe."""

    async def truncate_to(self, offset: int) -> None:
        """Truncate the log to `offset`."""

    async def start_over_at(self, offset: int) -> None:
        """Delete all records, and continue at `offset`."""

    def wake_readers(self) -> None:
        """Wake the consumers that wait here."""

    def go_offline(self, why: str) -> None:
        """Stop serving this replica, because the disk failed."""


class Contact:
    """The contact with one leader; shared by all partitions that follow it."""

    __slots__ = ("answered_s", "news")

    def __init__(self) -> None:
        self.answered_s = NEVER_S
        """When it answered last."""
        self.news = asyncio.Event()
        """Set when a fetch may return more."""

    def answered(self, now_s: float) -> None:
        """Record that the leader has answered."""
        self.answered_s = now_s


class Following:
    """A partition of this broker under a leader elsewhere, in one leader epoch."""

    __slots__ = (
        "_clock",
        "_contact",
        "_halted",
        "_is_confirmed",
        "_is_over",
        "_lag_max_s",
        "_log",
        "_partition",
        "_sync",
        "_taking",
        "_warn_at_s",
        "_why",
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
        """`halted` is called when it halts; `lag_max_s`: how long the leader may be silent."""
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
        self._contact: Contact | None = None
        self._is_confirmed = False
        self._taking = asyncio.Lock()
        self._sync: asyncio.Task[None] | None = None
        self._is_over = False
        self._why = ""
        self._warn_at_s = math.inf
        self.is_halted = False
        """Whether it stopped because following would lose acknowledged records: an operator must
        act."""

    def use_contact(self, contact: Contact) -> None:
        """Use this contact to fetch, and to know when the leader answered last."""
        self._contact = contact

    @property
    def key(self) -> tuple[bytes, int]:
        """The partition as fetch requests name it."""
        return self._log.topic_id.bytes, self._partition.name.partition

    @property
    def is_over(self) -> bool:
        """Whether following has ended for this leader epoch."""
        return self._is_over

    @property
    def why_over(self) -> str:
        """Why it ended; empty if simply another leader epoch began."""
        return self._why

    @property
    def is_current(self) -> bool:
        """Whether consumers may read here: the leader of this epoch has compared our log with its
        own, we have everything below its high watermark, and its last answer is not older than the
        time after which a follower leaves the ISR."""
        if self._is_over or self._why or not self._is_confirmed or self.lag:
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
        """The next fetch position. None until the log end is synced; the sync is started here."""
        if self._is_over or not self._log.is_writable:
            return None
        if self._log.countable_end_offset < self._log.end_offset:
            self._begin_sync()
            return None
        log = self._log
        return FetchPosition(
            log.end_offset, log.last_epoch, self.leader_epoch, log.log_start_offset
        )

    async def take(self, fetched: FetchedPartition) -> Taken:
        """Act on the leader's answer. Does not raise for errors of the log or the disk."""
        async with self._taking:
            if self._is_over or fetched.requested != self.position():
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
        taken = Taken.NOTHING_NEW
        records = answer.records
        assert isinstance(records, _IN_MEMORY)  # the codec returns them as a view
        if len(records):
            if answer.may_have_gaps:
                await self._allow_gaps(memoryview(records))
            await self._continue(memoryview(records))
            taken = Taken.PROGRESS
        # The leader has compared our log end with its log, so it has everything below it.
        self._partition.confirm_by_leader(self.leader_epoch)
        self._is_confirmed, self._why = True, ""
        self.leader_high_watermark = answer.high_watermark
        self._partition.follow_to(answer.high_watermark)
        await self._partition.follow_log_start(answer.log_start_offset)
        # This starts a sync if one is necessary.
        self.position()
        return taken

    async def _allow_gaps(self, records: memoryview) -> None:
        """Record that offsets are missing below these records, if they are.

        The topic's present policy may not be compact: the topic may have been compacted before.
        """
        gap_end_offset = end_of_last_gap(records, self._log.end_offset)
        if gap_end_offset:
            await self._log.compaction.allow_gaps(gap_end_offset)

    async def _continue(self, records: memoryview) -> None:
        log, now_ms = self._log, self._clock.now_ms()
        is_empty = log.end_offset == log.log_start_offset
        if is_empty and read_header(records).leader_epoch < log.last_epoch:
            # No record here is of that epoch: we did not follow its leader, or the epoch history is
            # damaged. No later fetch would change that.
            logger.warning("epochs_dropped", extra=self._log_fields(epoch=log.last_epoch))
            await self._partition.start_over_at(log.log_start_offset)
        try:
            log.append_as_follower(records, self.leader_epoch, now_ms)
        except UnexpectedOffsetError as unexpected:
            found = unexpected.found_offset
            if not (is_empty and 0 <= found < log.log_start_offset):
                raise
            # The leader's log start offset is within this batch, and batches are sent whole.
            await self._partition.start_over_at(found)
            log.append_as_follower(records, self.leader_epoch, now_ms)

    async def _truncate(self, offset: int) -> Taken:
        if offset < self._partition.high_watermark:
            facts = self._log_fields(offset=offset, unclean_epoch=self.unclean_epoch)
            logger.warning("acknowledged_records_cut_off", extra=facts)
        else:
            logger.info("follower_truncated", extra=self._log_fields(offset=offset))
        await self._partition.truncate_to(offset)
        # Before anything is appended: after a power cut, an old batch behind a new one would look
        # like damage.
        await self._log.flush()
        return Taken.PROGRESS

    def _retry_later(self, reason: str) -> Taken:
        now_s = self._clock.monotonic_s()
        if reason != self._why:
            # Short silences are normal during elections and restarts; longer ones are reported.
            logger.info("follower_waits", extra=self._log_fields(reason=reason))
            self._why, self._warn_at_s = reason, now_s + self._lag_max_s()
        elif now_s >= self._warn_at_s:
            logger.warning("follower_waits", extra=self._log_fields(reason=reason))
            self._warn_at_s = math.inf
        return Taken.FAILED

    def _end_following(self, reason: str) -> Taken:
        self._is_over = True
        self._why = reason
        self._partition.wake_readers()
        return Taken.OVER

    def _begin_sync(self) -> None:
        if self._sync is None:
            self._sync = asyncio.get_running_loop().create_task(self._make_durable())

    async def _make_durable(self) -> None:
        log = self._log
        try:
            while log.countable_end_offset < log.end_offset and not self._is_over:
                try:
                    await log.make_durable(log.end_offset)
                except DiskFullError as full:
                    self._retry_later(str(full))
                    await self._clock.sleep(FULL_DISK_RETRY_S)
        except Exception as failed:
            # Whatever the reason, this replica must not be counted any more.
            logger.exception("sync_failed", extra=self._log_fields())
            self._partition.go_offline(str(failed))
            self._end_following(str(failed))
        finally:
            self._sync = None
            if self._contact is not None:
                self._contact.news.set()

    def _log_fields(self, **more: object) -> dict[str, object]:
        return {
            "partition": str(self._partition.name),
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "log_end": self._log.end_offset,
            "high_watermark": self._partition.high_watermark,
            **more,
        }
