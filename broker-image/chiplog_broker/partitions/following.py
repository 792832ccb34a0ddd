"""One reign as its follower lives it: ask, append, make durable, ask again.

A position is given out only for what counts as kept here: under `Fsync` after the sync, so
that the leader may take the offset of a fetch for a promise. Histories that part are cut
back by epochs, never below the high watermark; where that would be needed nothing more is
taken until a new reign begins. The one exception is a loss that was accepted: below the high
watermark goes what this replica had before the map's last unclean election, if it has not
agreed with a leader since.

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
    """What became of an answer."""

    NOTHING_NEW = auto()
    PROGRESS = auto()
    FAILED = auto()
    """Ask again, but not at once."""
    OVER = auto()
    """Do not ask again in this reign."""
    IGNORED = auto()
    """It answers something that is not asked any more."""


class FollowedReplica(Protocol):
    """The replica that copies: it alone changes its log and its high watermark."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def log(self) -> PartitionLog:
        """To be read, appended to and made durable; what takes records away is below."""

    @property
    def high_watermark(self) -> int: ...
    @property
    def agreed_epoch(self) -> int:
        """The newest epoch whose leader is known to have had all of this high watermark."""

    def agree_with(self, leader_epoch: int) -> None:
        """The leader of this epoch has everything below the log end."""

    def follow_to(self, high_watermark: int) -> None:
        """Readers of the leader may see what is below this, so readers here may see it, too."""

    async def follow_log_start(self, log_start_offset: int) -> None:
        """The leader's log begins here: what is below goes, as far as that is safe."""

    async def truncate_to(self, offset: int) -> None:
        """Cut off what lies at or above `offset`."""

    async def start_over_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`."""

    def wake_readers(self) -> None:
        """Consumers that wait here look again."""

    def go_offline(self, why: str) -> None:
        """The disk failed."""


class Contact:
    """One leader as its followers hear it; shared by all that is followed there."""

    __slots__ = ("answered_s", "news")

    def __init__(self) -> None:
        self.answered_s = NEVER_S
        """When it answered last."""
        self.news = asyncio.Event()
        """Set when there may be more to ask for."""

    def answered(self, now_s: float) -> None:
        """It has answered."""
        self.answered_s = now_s


class Following:
    """A partition of this broker under a leader elsewhere, in one leader epoch."""

    __slots__ = (
        "_busy",
        "_clock",
        "_contact",
        "_halted",
        "_has_agreed",
        "_is_over",
        "_lag_max_s",
        "_log",
        "_partition",
        "_sync",
        "_warn_at_s",
        "_why",
        "is_halted",
        "leader_epoch",
        "leader_id",
        "leaders_end_offset",
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
        """`halted` is called where it halts; `lag_max_s` says how long silence may last."""
        self.leader_id = view.leader_id
        self.leader_epoch = view.leader_epoch
        self.unclean_epoch = view.unclean_epoch
        self.leaders_end_offset = partition.high_watermark
        """The leader's high watermark, as far as it told us."""
        self._partition = partition
        self._log = partition.log
        self._clock = clock
        self._halted = halted
        self._lag_max_s = lag_max_s
        self._contact: Contact | None = None
        self._has_agreed = False
        self._busy = asyncio.Lock()
        self._sync: asyncio.Task[None] | None = None
        self._is_over = False
        self._why = ""
        self._warn_at_s = math.inf
        self.is_halted = False
        """Whether going on would lose acknowledged records: somebody has to look."""

    def ask_by(self, contact: Contact) -> None:
        """The leader is asked, and heard, by this contact."""
        self._contact = contact

    @property
    def key(self) -> tuple[bytes, int]:
        """The partition, as requests name it."""
        return self._log.topic_id.bytes, self._partition.name.partition

    @property
    def is_over(self) -> bool:
        """Whether nothing more is taken in this reign."""
        return self._is_over

    @property
    def why_over(self) -> str:
        """The reason, where it is not simply that another reign began."""
        return self._why

    @property
    def is_current(self) -> bool:
        """Whether readers may rely on what is here: the leader of this reign has compared it with
        its own log, all that readers of the leader may see is here, and there is an answer that
        is not older than it takes to be called out of sync."""
        if self._is_over or self._why or not self._has_agreed or self.lag:
            return False
        answered_s = NEVER_S if self._contact is None else self._contact.answered_s
        return self._clock.monotonic_s() - answered_s <= self._lag_max_s()

    @property
    def has_agreed(self) -> bool:
        """Whether the leader of this reign has compared its log with what is here."""
        return self._has_agreed and not self._is_over

    @property
    def is_syncing(self) -> bool:
        return self._sync is not None

    @property
    def lag(self) -> int:
        """Records that readers of the leader may see and that are not here yet."""
        return max(self.leaders_end_offset - self._log.end_offset, 0)

    def position(self) -> FetchPosition | None:
        """Where to go on. None while the log's end does not count yet: its sync is begun."""
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
        """Do what the leader's answer asks for. Never raises for what may happen to a log."""
        async with self._busy:
            if self._is_over or fetched.asked != self.position():
                return Taken.IGNORED
            step = next_step(self._log, self._kept_offset, fetched.answer)
            try:
                return await self._do(step, fetched.answer)
            except DiskFullError as full:
                return self._failed(str(full))
            except LogClosedError as closed:
                return self._end(str(closed))
            except (RecordsError, StorageError) as refused:
                # What the leader sent does not fit; or the disk failed, of which everybody
                # has been told already.
                return self._failed(str(refused))

    async def stop(self) -> None:
        """Take nothing more; returns when nothing of this reign touches the log."""
        self._is_over = True
        self._contact = None
        async with self._busy:
            pass
        if self._sync is not None:
            await asyncio.wait([self._sync])

    # -- inner workings

    @property
    def _kept_offset(self) -> int:
        """Below it nothing may be cut off, whatever the leader says."""
        if self._partition.agreed_epoch < self.unclean_epoch:
            # What is here may be what was given up then; no leader since has vouched for it.
            return 0
        return self._partition.high_watermark

    async def _do(self, step: Step, answer: FetchPartitionResponse) -> Taken:
        match step:
            case Append():
                return await self._append(answer)
            case Truncate(offset):
                return await self._truncate(offset)
            case StartOver(offset):
                logger.warning("log_started_over", extra=self._facts(offset=offset))
                await self._partition.start_over_at(offset)
                return Taken.PROGRESS
            case Retry(reason):
                return self._failed(reason)
            case AwaitMetadata(reason):
                return self._end(reason)
            case Halt(reason):
                logger.error("follower_halted", extra=self._facts(reason=reason))
                self.is_halted = True
                taken = self._end(reason)
                self._halted()
                return taken

    async def _append(self, answer: FetchPartitionResponse) -> Taken:
        taken = Taken.NOTHING_NEW
        records = answer.records
        assert isinstance(records, _IN_MEMORY)  # as the codec gives them
        if answer.may_have_gaps:
            # Its own policy need not say so: the topic may have been compacted once.
            await self._log.allow_gaps()
        if len(records):
            await self._continue(memoryview(records))
            taken = Taken.PROGRESS
        # The leader has compared our end with its log, so it has everything below it.
        self._partition.agree_with(self.leader_epoch)
        self._has_agreed, self._why = True, ""
        self.leaders_end_offset = answer.high_watermark
        self._partition.follow_to(answer.high_watermark)
        await self._partition.follow_log_start(answer.log_start_offset)
        # Begins the sync, where one is due.
        self.position()
        return taken

    async def _continue(self, records: memoryview) -> None:
        log, now_ms = self._log, self._clock.now_ms()
        is_empty = log.end_offset == log.log_start_offset
        if is_empty and read_header(records).leader_epoch < log.last_epoch:
            # No record here is of that epoch: whoever began it was not followed by this leader,
            # or the history rotted. Nothing would ever continue it.
            logger.warning("epochs_dropped", extra=self._facts(epoch=log.last_epoch))
            await self._partition.start_over_at(log.log_start_offset)
        try:
            log.append_as_follower(records, self.leader_epoch, now_ms)
        except UnexpectedOffsetError as unexpected:
            found = unexpected.found_offset
            if not (is_empty and 0 <= found < log.log_start_offset):
                raise
            # The leader's log start lies within this batch, which comes whole.
            await self._partition.start_over_at(found)
            log.append_as_follower(records, self.leader_epoch, now_ms)

    async def _truncate(self, offset: int) -> Taken:
        if offset < self._partition.high_watermark:
            facts = self._facts(offset=offset, unclean_epoch=self.unclean_epoch)
            logger.warning("acknowledged_records_cut_off", extra=facts)
        else:
            logger.info("follower_truncated", extra=self._facts(offset=offset))
        await self._partition.truncate_to(offset)
        return Taken.PROGRESS

    def _failed(self, reason: str) -> Taken:
        now_s = self._clock.monotonic_s()
        if reason != self._why:
            # Elections and restarts are normal work; what lasts longer than they do is not.
            logger.info("follower_waits", extra=self._facts(reason=reason))
            self._why, self._warn_at_s = reason, now_s + self._lag_max_s()
        elif now_s >= self._warn_at_s:
            logger.warning("follower_waits", extra=self._facts(reason=reason))
            self._warn_at_s = math.inf
        return Taken.FAILED

    def _end(self, reason: str) -> Taken:
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
                    self._failed(str(full))
                    await self._clock.sleep(FULL_DISK_RETRY_S)
        except Exception as failed:
            # Whatever it was, what is here must not be vouched for.
            logger.exception("sync_failed", extra=self._facts())
            self._partition.go_offline(str(failed))
            self._end(str(failed))
        finally:
            self._sync = None
            if self._contact is not None:
                self._contact.news.set()

    def _facts(self, **more: object) -> dict[str, object]:
        return {
            "partition": str(self._partition.name),
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "log_end": self._log.end_offset,
            "high_watermark": self._partition.high_watermark,
            **more,
        }
