"""One replica on this broker: may it be written, how far is it safe, who waits for it.

It leads, follows or is idle; it is never two of these. The high watermark is the end of what
every acknowledged reader may see. With `Fsync` it follows the sync of the disk, with
`PageCache` the append, and both wait for every follower that counts. It never goes back
within a leader epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.view import NO_EPOCH, PartitionView
from chiplog_broker.partitions.counters import PartitionCounters
from chiplog_broker.partitions.errors import PartitionError, code_of
from chiplog_broker.partitions.events import ReplicaEvents
from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.following import FULL_DISK_RETRY_S, Following
from chiplog_broker.partitions.isolation import NEVER_S
from chiplog_broker.partitions.proposals import Proposals
from chiplog_broker.partitions.refusals import Refusals
from chiplog_broker.partitions.waiting import (
    FetchWaiter,
    FetchWaiters,
    ProduceWaiters,
    Settled,
    Watcher,
)
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import (
    DiskFullError,
    OutOfOrderSequenceError,
    RecordsTruncatedError,
)
from chiplog_broker.storage.log import AppendResult, LogSlice, PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import ReplicaRef
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.scan import TakesLong

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all partitions of a broker share."""

    fetch_waiters: FetchWaiters
    clock: Clock
    sync_latency: Histogram
    proposals: Proposals
    lag_max_s: Callable[[], float]
    """How long a follower may be behind before it is proposed out."""
    events: ReplicaEvents
    readers_follow: Callable[[], bool]
    """Whether consumers may be reading from followers, which then hear at once what is safe."""


class Partition:
    """A replica as its clients see it. Everything runs on the event loop's thread."""

    __slots__ = (
        "_around",
        "_clock",
        "_fetch_waiters",
        "_offline",
        "_produce_waiters",
        "_refusals",
        "_sync",
        "_told_log_start",
        "agreed_epoch",
        "counters",
        "fetchers",
        "followers",
        "following",
        "has_min_isr",
        "high_watermark",
        "in_sync",
        "is_isolated",
        "is_whole",
        "leader_epoch",
        "log",
        "name",
        "reign_s",
        "replica_fetchers",
        "replica_watchers",
        "watchers",
    )

    def __init__(
        self, name: TopicPartition, log: PartitionLog, high_watermark: int, around: Surroundings
    ) -> None:
        """`high_watermark` as it was known the last time; the log decides how far it goes."""
        self.name = name
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
        self.agreed_epoch = log.last_epoch
        """The newest reign of which it is known that its leader had all of this high watermark."""
        self.has_min_isr = True
        """Whether enough in-sync replicas live for acks=all to mean what it says."""
        self.in_sync: tuple[int, ...] | None = None
        """Who was in sync and alive by the last map; None before the first one."""
        self.is_isolated = False
        """Whether it leads, and for too long nobody was heard that could know better."""
        self.reign_s = NEVER_S
        """When its reign began, by the monotonic clock."""
        self.is_whole = True
        """Whether nothing was found damaged here of which there is no new copy yet."""
        self.followers: Followers | None = None
        """What is known of them while this replica leads; None where it is the only one."""
        self.following: Following | None = None
        """The reign of another, while this replica copies it."""
        self.fetchers: dict[FetchWaiter, None] = {}
        """Fetches that wait for the high watermark."""
        self.replica_fetchers: dict[FetchWaiter, None] = {}
        """Those of followers, which wait for the log end."""
        self.watchers: dict[Watcher, None] = {}
        """This partition in the fetch sessions of consumers."""
        self.replica_watchers: dict[Watcher, None] = {}
        """This partition in those of followers."""
        self._around = around
        self._fetch_waiters = around.fetch_waiters
        self._produce_waiters = ProduceWaiters()
        self._refusals = Refusals()
        self._clock = around.clock
        self._sync: asyncio.Task[None] | None = None
        self._offline = ""
        self._told_log_start = log.log_start_offset
        self.counters = PartitionCounters()

    @property
    def is_leader(self) -> bool:
        """Whether clients may read and write here."""
        return self.leader_epoch != NO_EPOCH

    @property
    def is_halted(self) -> bool:
        """Whether it does not follow its leader, because acknowledged records would be lost."""
        return self.following is not None and self.following.is_halted

    @property
    def is_settled(self) -> bool:
        """Whether the high watermark covers all that was acknowledged in earlier reigns.

        Before, what it says is behind what readers may have seen of the leader before.
        """
        followers = self.followers
        return followers is None or self.high_watermark >= followers.epoch_start_offset

    # -- leading, following, idle

    def lead(self, view: PartitionView, min_isr: int) -> None:
        """Begin or continue a reign; what the log holds is made safe before it is shown.

        Whoever copied to this log must have been stopped before.
        """
        assert self.following is None, "a leader copies from nobody"
        is_new = view.leader_epoch != self.leader_epoch
        if is_new:
            self.log.begin_epoch(view.leader_epoch)
            self.leader_epoch = self.agreed_epoch = view.leader_epoch
            self.is_isolated, self.reign_s = False, self._clock.monotonic_s()
            self.high_watermark = min(self.high_watermark, self.log.end_offset)
        # Whoever is not waited for any more may have been the last.
        alone = self.followers is None
        self._know_followers(view, min_isr, is_new=is_new)
        if is_new or not alone or self.followers is not None:
            self._appended()
        if is_new:
            self._fetch_waiters.wake(self.fetchers)
            self._tell(wakes=True)
        else:
            self._fetch_waiters.notify(self.replica_watchers, wakes=True)

    def follow(self, view: PartitionView) -> None:
        """Copy what the leader of this epoch has; an earlier copying must have been stopped."""
        assert self.following is None, "one leader at a time"
        self.resign()
        around = self._around
        self.following = Following(
            self, view, self._clock, around.events.trouble_changed, around.lag_max_s
        )

    # -- as its leader says; called by `Following` alone

    def agree_with(self, leader_epoch: int) -> None:
        """The leader of this epoch has everything below the log end."""
        self.agreed_epoch = leader_epoch

    def follow_to(self, high_watermark: int) -> None:
        """Readers of the leader may see what is below this, so readers here may see it, too."""
        reached = min(high_watermark, self.log.end_offset)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.wake_readers()

    async def follow_log_start(self, log_start_offset: int) -> None:
        """The leader's log begins here: what is below goes, as far as that is safe."""
        wanted = min(log_start_offset, self.high_watermark)
        if wanted > self.log.log_start_offset:
            await self.log.delete_records_before(wanted, self._clock.now_ms())
            self.tell_log_start()

    async def truncate_to(self, offset: int) -> None:
        """Cut off what lies at or above `offset`."""
        self._lower_high_watermark(offset)
        await self.log.truncate_to(offset, self._clock.now_ms())
        self._lower_high_watermark(self.log.end_offset)

    async def start_over_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`."""
        self._lower_high_watermark(offset)
        await self.log.truncate_fully_and_start_at(offset, self._clock.now_ms())
        self.high_watermark = offset

    def _lower_high_watermark(self, offset: int) -> None:
        """Before the records go: a checkpoint of the old one would outlive them."""
        self.high_watermark = min(self.high_watermark, offset)

    async def stop_following(self) -> None:
        """Returns when nothing of the leader reaches the log any more."""
        following, self.following = self.following, None
        if following is not None:
            self.wake_readers()
            await following.stop()

    def resign(self) -> None:
        """Stop serving: whoever waits is told to look for the leader elsewhere."""
        self.leader_epoch = NO_EPOCH
        self.followers = None
        self.is_isolated = False
        self._produce_waiters.fail(ErrorCode.not_leader_or_follower)
        self._wake_fetchers()

    def learn_in_sync(self, in_sync: tuple[int, ...], min_isr: int) -> None:
        """Who is in sync and alive by the map, and how many of them acks=all needs."""
        self.in_sync = in_sync
        self.has_min_isr = len(in_sync) >= min_isr

    def learn_whole(self, *, is_whole: bool) -> None:
        """Whether there is a whole copy again of what was found damaged here."""
        self.is_whole = is_whole

    def end_isolation(self) -> None:
        """Somebody was heard that could know better: take records again."""
        self.is_isolated = False

    def isolate(self) -> None:
        """Take no records: producers are told to look for the leader elsewhere.

        Who waits is told the same, as by `resign`: its records may be safe, or may be gone.
        Readers read on. What is below the high watermark every leader has.
        """
        assert self.followers is not None, "who waits for nobody is not isolated"
        self.is_isolated = True
        self._produce_waiters.fail(ErrorCode.not_leader_or_follower)
        # A follower that rests in its fetch session is looked at when it fetches again.
        self.followers.appended()
        self._fetch_waiters.notify(self.replica_watchers, wakes=False)

    def _know_followers(self, view: PartitionView, min_isr: int, *, is_new: bool) -> None:
        if len(view.replicas) <= 1 and len(view.isr_refs) <= 1:
            self.followers = None
            return
        if self.followers is None:
            self.followers = Followers(self.log.topic_id, self._around.proposals)
            is_new = True
        if is_new:
            self.followers.begin(self.log.end_offset)
        self.followers.know(view, min_isr, self._clock.monotonic_s())

    def configure(self, config: LogConfig) -> None:
        """Obey these settings from now on; a stricter durability makes a sync due."""
        self.log.configure(config)
        if self.is_leader and not self._offline:
            self._appended()

    def go_offline(self, why: str) -> None:
        """The disk failed: nothing is acknowledged or read here until the broker restarts."""
        if not self._offline:
            self._offline = why
            self._produce_waiters.fail(ErrorCode.kafka_storage_error)
            self._wake_fetchers()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare what the client believes with what is (KIP-320); -1 believes nothing.

        Raises `PartitionError`.
        """
        if not self.is_leader:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        self._compare_epoch(current_leader_epoch, self.leader_epoch)

    def check_epoch_of_follower(self, current_leader_epoch: int) -> None:
        """As `check_epoch`, for those who may read a replica that does not lead (KIP-392).

        Only a whole one serves them, which has everything that is acknowledged as far as it knows
        from a leader that it still hears. It does not ask the map whether it is in sync: its leader
        does, may know a newer one, and would send the reader here again. Raises `PartitionError`.
        """
        following = self.following
        if following is None or not (self.is_whole and following.is_current):
            raise PartitionError(ErrorCode.not_leader_or_follower)
        self._compare_epoch(current_leader_epoch, following.leader_epoch)

    def check_epoch_of_any(self, current_leader_epoch: int) -> None:
        """As `check_epoch`, for those who look at this very replica, whatever its part is.

        Also one that is behind, halted or without a leader, which is what they look for: its high
        watermark bounds what they see. Raises `PartitionError`.
        """
        following = self.following
        known = self.leader_epoch if following is None else following.leader_epoch
        self._compare_epoch(current_leader_epoch if known != NO_EPOCH else NO_EPOCH, known)

    def _compare_epoch(self, believed: int, leader_epoch: int) -> None:
        if self._offline:
            raise PartitionError(ErrorCode.kafka_storage_error, self._offline)
        if believed in (NO_EPOCH, leader_epoch):
            return
        if believed < leader_epoch:
            raise PartitionError(ErrorCode.fenced_leader_epoch)
        raise PartitionError(ErrorCode.unknown_leader_epoch)

    def append(
        self,
        records: memoryview,
        now_ms: int,
        *,
        for_all: bool = False,
        keys_are_checked: bool = False,
    ) -> AppendResult:
        """Append a producer's batch; `for_all` says that it asks for acks=all.

        Raises `PartitionError`, `RecordsError`, `StorageError`, and `TakesLong` as the log does.
        """
        self.counters.produces += 1
        try:
            self._check_takes(for_all=for_all)
            appended = self.log.append_as_leader(
                records, self.leader_epoch, now_ms, keys_are_checked=keys_are_checked
            )
        except TakesLong:
            self.counters.produces -= 1  # it comes again
            raise
        except (PartitionError, DiskFullError) as refused:
            self._refusals.note(code_of(refused), self._clock.monotonic_s())
            raise
        except OutOfOrderSequenceError as gap:
            code = self._refusals.lately(self._clock.monotonic_s())
            if code is ErrorCode.none:
                raise
            raise PartitionError(code, f"a batch was refused a moment ago, and {gap}") from gap
        if not appended.duplicate:
            self.counters.bytes_in += len(records)
            self.counters.records_in += appended.last_offset - appended.base_offset + 1
            self._appended()
        return appended

    def _check_takes(self, *, for_all: bool) -> None:
        """Raises `PartitionError` where no records are taken now."""
        self.check_epoch(NO_EPOCH)
        if self.is_isolated:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        if for_all and not self.has_min_isr:
            raise PartitionError(ErrorCode.not_enough_replicas)

    @property
    def waiting_produces(self) -> int:
        """Batches whose producers wait for their safety."""
        return len(self._produce_waiters)

    def when_safe(self, offset: int, settled: Settled) -> bool:
        """Whether the high watermark is at `offset`; if not, `settled` is called when it is."""
        if self.high_watermark >= offset:
            return True
        self._produce_waiters.add(offset, settled)
        return False

    # -- followers

    def fetched_by(self, follower: ReplicaRef, offset: int, log_start_offset: int = 0) -> None:
        """A follower, admitted by `followers`, has what is between these: end and start."""
        followers = self.followers
        assert followers is not None, "who fetches was looked up there"
        followers.fetched(
            follower, offset, self.log.end_offset, self._clock.monotonic_s(), log_start_offset
        )
        if self.is_isolated and followers.counts(follower):
            self._around.events.follower_heard(self)
        self._settle()
        if not followers.is_in_sync(follower):
            self.check_followers()

    def check_followers(self) -> None:
        """Propose other in-sync replicas where those listed are not right any more."""
        followers = self.followers
        if followers is not None and not self._offline:
            now_s, lag_max_s = self._clock.monotonic_s(), self._around.lag_max_s()
            if followers.propose(self.high_watermark, now_s, lag_max_s):
                logger.info("isr_proposed", extra={"partition": str(self.name)})

    def best_to_read(self, broker_ids: Collection[int], offset: int) -> int | None:
        """The follower among these brokers that a consumer should read from; None for no one.

        Before the high watermark covers what earlier reigns acknowledged nobody is named: nobody
        can say yet what a follower may show. Nor does a leader that hears no follower name one.
        """
        followers = self.followers
        if followers is None or self.is_isolated or not self.is_settled:
            return None
        if offset > self.high_watermark:
            return None
        return followers.best_to_read(broker_ids, offset)

    def read_as_follower(self, offset: int, max_bytes: int, *, min_one: bool) -> LogSlice:
        """Batches from `offset` up to the log end. Raises `OffsetOutOfRangeError`."""
        return self.log.read(offset, max_bytes, self.log.end_offset, min_one=min_one)

    def read(self, offset: int, max_bytes: int, *, min_one: bool) -> LogSlice | None:
        """Batches from `offset` up to the high watermark; None where there are none yet.

        Raises `OffsetOutOfRangeError` before the log start and after the log end, except that a
        follower may lack what its leader has: `PartitionError`, and the reader need not start anew.
        """
        if self.high_watermark <= offset <= self.log.end_offset:
            return None
        if self.following is not None and offset > self.log.end_offset:
            raise PartitionError(ErrorCode.offset_not_available)
        return self.log.read(offset, max_bytes, self.high_watermark, min_one=min_one)

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start offset, at most to the high watermark; returns where it is then.

        Raises `PartitionError`.
        """
        if not 0 <= offset <= self.high_watermark:
            raise PartitionError(ErrorCode.offset_out_of_range)
        low_watermark = await self.log.delete_records_before(offset, now_ms)
        self.tell_log_start()
        return low_watermark

    def tell_log_start(self) -> None:
        """Fetch sessions tell their readers, with their next answer, where the log begins now."""
        if self._told_log_start != self.log.log_start_offset:
            self._told_log_start = self.log.log_start_offset
            self._tell(wakes=False)

    async def quiesce(self) -> None:
        """Stop serving and let a running sync end: nothing touches the log after it."""
        self.resign()
        await self.stop_following()
        if self._sync is not None:
            await asyncio.wait([self._sync])

    def _appended(self) -> None:
        own_offset = self.log.countable_end_offset
        if self.followers is None:
            self._advance(own_offset)
        else:
            self.followers.appended()
            self._advance(self.followers.safe_offset(own_offset))
            self._fetch_waiters.wake(self.replica_fetchers)
            self._fetch_waiters.notify(self.replica_watchers, wakes=True)
        if self._sync is None and own_offset < self.log.end_offset:
            self._sync = asyncio.get_running_loop().create_task(self._make_durable())

    def _settle(self) -> None:
        """Take note of what has become safe, here or at a follower."""
        own_offset = self.log.countable_end_offset
        followers = self.followers
        self._advance(own_offset if followers is None else followers.safe_offset(own_offset))

    async def _make_durable(self) -> None:
        """Sync until nothing new has come; what arrives during one sync shares the next."""
        try:
            while self.log.countable_end_offset < self.log.end_offset:
                began_s = self._clock.monotonic_s()
                try:
                    await self.log.make_durable(self.log.end_offset)
                except DiskFullError as full:
                    # What was to be synced is; it is a checkpoint that found no room.
                    extra = {"partition": str(self.name), "reason": str(full)}
                    logger.warning("sync_waits_for_room", extra=extra)
                    await self._clock.sleep(FULL_DISK_RETRY_S)
                    if not self.is_leader:
                        return
                    continue
                self._around.sync_latency.observe(self._clock.monotonic_s() - began_s)
                if self.is_leader:
                    self._settle()
        except RecordsTruncatedError:
            logger.info("sync_ended_by_truncation", extra={"partition": str(self.name)})
        except Exception as failed:
            # Whatever it was, nothing after it may be acknowledged.
            logger.exception("sync_failed", extra={"partition": str(self.name)})
            self.go_offline(str(failed))
        finally:
            self._sync = None

    def _advance(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self._produce_waiters.advance(high_watermark)
            self._wake_fetchers()

    def wake_readers(self) -> None:
        """Consumers that wait here look again."""
        self._fetch_waiters.wake(self.fetchers)
        self._fetch_waiters.notify(self.watchers, wakes=True)

    def _wake_fetchers(self) -> None:
        self.wake_readers()
        waiters = self._fetch_waiters
        is_over = not self.is_leader or bool(self._offline)
        if is_over:
            waiters.wake(self.replica_fetchers)
        # Those wait for the log end. Where it is safe up to they are told with the next answer,
        # which is an early one where they have readers of their own.
        waiters.notify(self.replica_watchers, wakes=is_over or self._around.readers_follow())

    def _tell(self, *, wakes: bool) -> None:
        self._fetch_waiters.notify(self.watchers, wakes=wakes)
        self._fetch_waiters.notify(self.replica_watchers, wakes=wakes)
