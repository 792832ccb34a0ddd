"""One replica on this broker: whether it accepts writes, its high watermark, and waiting requests.

A replica leads, follows or is idle. The high watermark is the offset below which readers see
records. With `Fsync` it waits for the sync of the disk, with `PageCache` for the append, and in
both cases for every follower in the ISR and in the proposed ISR. It never decreases within a leader
epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.view import NO_EPOCH, PartitionView
from chiplog_broker.partitions.counters import PartitionCounters
from chiplog_broker.partitions.errors import PartitionError, code_of
from chiplog_broker.partitions.events import ReplicaEvents
from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.following import FULL_DISK_RETRY_S, Following
from chiplog_broker.partitions.gaps import Gaps
from chiplog_broker.partitions.isolation import NEVER_S
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.proposals import Proposals
from chiplog_broker.partitions.refusals import Refusals
from chiplog_broker.partitions.verification import Verification, Verifications
from chiplog_broker.partitions.waiting import (
    FetchWaiter,
    FetchWaiters,
    OnSafe,
    ProduceWaiters,
    RoleWaiters,
    Watcher,
)
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import (
    DiskFullError,
    OutOfOrderSequenceError,
    RecordsTruncatedError,
    UnverifiedTransactionError,
)
from chiplog_broker.storage.log import AppendResult, LogSlice, PartitionLog
from chiplog_broker.storage.log_appender import UNVERIFIED, Origin
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import NEVER_ADMITTED, ReplicaRef
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.errors import BatchTooLargeError, CorruptBatchError
from chiplog_wire.records.scan import TakesLong
from chiplog_wire.records.writer import Producer

logger = logging.getLogger(__name__)

COMING_BACK_S: Final = 5.0
"""For this time after a leadership here clients still come that have not heard of its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """The services and values that all partitions of a broker share."""

    fetch_waiters: FetchWaiters
    clock: Clock
    sync_latency: Histogram
    proposals: Proposals
    lag_max_s: Callable[[], float]
    """How long a follower may lag before the leader proposes to remove it from the ISR."""
    events: ReplicaEvents
    consumers_read_followers: Callable[[], bool]
    """Whether consumers may read from followers. If so, leaders send followers a new high watermark
    at once, not only with the next records."""


class Partition:
    """One replica of a partition, as leader or follower. Runs on the event loop's thread only."""

    __slots__ = (
        "_awaits_proof",
        "_clock",
        "_context",
        "_epoch_start_offset",
        "_fetch_waiters",
        "_gaps",
        "_offline_reason",
        "_produce_waiters",
        "_refusals",
        "_reported_log_start",
        "_role_waiters",
        "_sync",
        "_was_settled",
        "confirmed_epoch",
        "counters",
        "fetchers",
        "followers",
        "following",
        "has_min_isr",
        "high_watermark",
        "in_sync",
        "is_isolated",
        "is_undamaged",
        "leader_epoch",
        "leader_session",
        "led_since_s",
        "log",
        "name",
        "replica_fetchers",
        "replica_watchers",
        "verifications",
        "watchers",
    )

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        high_watermark: int,
        context: PartitionContext,
    ) -> None:
        """`high_watermark` is that of the last checkpoint; it is limited to the log's offsets."""
        self.name = name
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.leader_session: int = NEVER_ADMITTED
        """The session of this broker in which it leads."""
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
        self.confirmed_epoch = log.last_epoch
        """The newest epoch whose leader is known to have all records below our high watermark."""
        self.has_min_isr = True
        """Whether enough in-sync replicas are alive for `min.insync.replicas`."""
        self.in_sync: tuple[int, ...] | None = None
        """Ids of the brokers in the ISR that are alive, by the last map; None before the first."""
        self.is_isolated = False
        """Whether this leader has had no contact with the API server or a follower for too long."""
        self.led_since_s = NEVER_S
        """When its leadership began, by the monotonic clock."""
        self.is_undamaged = True
        """False from the moment damage is found until the replica has been refetched."""
        self.followers: Followers | None = None
        """The progress of the followers while this replica leads; None if it does not lead, or is
        the only replica."""
        self.following: Following | None = None
        """The leadership of another broker that this replica follows; None if it follows none."""
        self.fetchers: dict[FetchWaiter, None] = {}
        """Fetches of consumers, which wait for the high watermark."""
        self.replica_fetchers: dict[FetchWaiter, None] = {}
        """Fetches of followers, which wait for the log end."""
        self.watchers: dict[Watcher, None] = {}
        """This partition in the fetch sessions of consumers."""
        self.replica_watchers: dict[Watcher, None] = {}
        """This partition in the fetch sessions of followers."""
        self._context = context
        self._fetch_waiters = context.fetch_waiters
        self._produce_waiters, self._role_waiters = ProduceWaiters(), RoleWaiters()
        self._refusals, self._gaps, self.verifications = Refusals(), Gaps(), Verifications()
        self._clock = context.clock
        self._sync: asyncio.Task[None] | None = None
        """The running sync of a leader's log, or None."""
        self._awaits_proof = False
        """Whether brokers that lost their replica wait for this leader's proof (`is_settled`)."""
        self._was_settled = False
        """Whether the proof was found in this leader epoch."""
        self._epoch_start_offset = 0
        """The log end offset when this replica began to lead."""
        self._offline_reason = ""
        """Why the disk failed; empty as long as it has not."""
        log.stabilize(self.high_watermark)
        self._reported_log_start = log.log_start_offset
        """The log start offset that fetch sessions were last notified of."""
        self.counters = PartitionCounters()

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads, so that clients may read and write here."""
        return self.leader_epoch != NO_EPOCH

    @property
    def is_halted(self) -> bool:
        """Whether this follower stopped because following would lose acknowledged records."""
        return self.following is not None and self.following.is_halted

    @property
    def high_watermark_is_current(self) -> bool:
        """Whether the high watermark covers all records acknowledged in earlier leader epochs.

        Until then it may be below what consumers have read from the previous leader.
        """
        followers = self.followers
        return followers is None or self.high_watermark >= followers.epoch_start_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers with `read_committed` get: the high watermark, or the first
        offset of the oldest open transaction if that is lower. A transaction counts as open until
        the high watermark has passed its end marker."""
        unstable = self.log.first_unstable_offset
        if unstable >= self.high_watermark:
            return self.high_watermark
        # The first records of the transaction may be deleted.
        return max(unstable, self.log.log_start_offset)

    # -- leading, following, idle

    def lead(self, view: PartitionView, min_isr: int) -> None:
        """Start a leadership, or update its followers if the leader epoch is the present one.

        The log's records become readable once all in-sync replicas have them. The caller must have
        stopped `following` before.
        """
        assert self.following is None, "a leader does not fetch"
        is_new = view.leader_epoch != self.leader_epoch
        if is_new:
            self.log.begin_epoch(view.leader_epoch)
            self.leader_epoch = self.confirmed_epoch = view.leader_epoch
            self.is_isolated, self.led_since_s = False, self._clock.monotonic_s()
            self._epoch_start_offset = self.log.end_offset
            # Until now produced batches were refused here, and by the last leader since it
            # resigned. Note that, so that the next batches of these producers are not answered as
            # sequence gaps (see `refusals`).
            self.note_refusal(ErrorCode.not_leader_or_follower)
            self.verifications.give_up()
            self.high_watermark = min(self.high_watermark, self.log.end_offset)
            self._role_waiters.end()
        # If a follower that the high watermark waits for does not count any more, the high
        # watermark can advance. Without followers, before and after, nothing changes.
        had_followers = self.followers is not None
        # With each map: another session of a follower has to fetch again.
        self._awaits_proof, self._was_settled = view.awaits_proof, False
        self.leader_session = view.leader_session
        self._update_followers(view, min_isr, is_new=is_new)
        if is_new or had_followers or self.followers is not None:
            self._appended()
        if is_new:
            self._fetch_waiters.wake(self.fetchers)
            self._notify_watchers(wakes=True)
        else:
            self._fetch_waiters.notify(self.replica_watchers, wakes=True)

    def follow(self, view: PartitionView) -> None:
        """Follow the leader of this epoch. The caller must have stopped the previous
        `following`."""
        assert self.following is None, "one leader at a time"
        self.resign()
        context = self._context
        self.following = Following(
            self, view, self._clock, context.events.problems_changed, context.lag_max_s
        )

    # -- what a follower takes over from its leader; called by `Following` only

    def confirm_by_leader(self, leader_epoch: int) -> None:
        """Record that the leader of this epoch has every record below our log end offset."""
        self.confirmed_epoch = leader_epoch

    def follow_to(self, high_watermark: int) -> None:
        """Raise our high watermark to the leader's, but at most to our log end offset."""
        reached = min(high_watermark, self.log.end_offset)
        if reached > self.high_watermark:
            self._set_high_watermark(reached)
            self.wake_readers()

    async def follow_log_start(self, log_start_offset: int) -> None:
        """Delete our records below the leader's log start offset, but none above our high
        watermark."""
        wanted = min(log_start_offset, self.high_watermark)
        if wanted > self.log.log_start_offset:
            await self.log.delete_records_before(wanted, self._clock.now_ms())
            self.report_log_start()

    async def truncate_to(self, offset: int) -> None:
        """Truncate the log to `offset`, and lower the high watermark to the new log end."""
        self._lower_high_watermark(offset)
        await self.log.truncate_to(offset, self._clock.now_ms())
        self._lower_high_watermark(self.log.end_offset)
        self.log.stabilize(self.high_watermark)

    async def start_over_at(self, offset: int) -> None:
        """Delete all records, and continue at `offset`."""
        self._lower_high_watermark(offset)
        await self.log.truncate_fully_and_start_at(offset, self._clock.now_ms())
        self.high_watermark = offset

    def _lower_high_watermark(self, offset: int) -> None:
        """Lower the high watermark to `offset` if it is higher.

        This is done before a truncation, too: a checkpoint written during it must not contain a
        high watermark above the log end.
        """
        self.high_watermark = min(self.high_watermark, offset)

    async def stop_following(self) -> None:
        """Stop following. After this returns nothing more is appended to the log."""
        following, self.following = self.following, None
        if following is not None:
            self.wake_readers()
            await following.stop()

    def resign(self) -> None:
        """Stop serving: waiting requests get an error that makes clients look for the new
        leader."""
        if self.is_leader:
            self._role_waiters.led_until_s = self._clock.monotonic_s()
        self._role_waiters.end()
        # Another leader may append markers that this one does not see.
        self.verifications.give_up()
        self.leader_epoch = NO_EPOCH
        self.followers = None
        self.is_isolated = False
        self._produce_waiters.fail(ErrorCode.not_leader_or_follower)
        self._wake_fetchers()

    @property
    def may_lead_soon(self) -> bool:
        """Whether a client that takes this follower for the leader may know a newer map than this
        broker. It does not if this replica led a moment ago: then it has not heard of that end."""
        if self.following is None:
            return False
        return self._clock.monotonic_s() - self._role_waiters.led_until_s >= COMING_BACK_S

    async def wait_for_role(self, limit_s: float) -> bool:
        """Wait until a newer map says whether this replica leads, at most this long. Returns
        whether it came."""
        return await self._role_waiters.wait(limit_s)

    def set_in_sync(self, in_sync: tuple[int, ...], min_isr: int) -> None:
        """Set the live brokers of the map's ISR, and how many of them acks=all needs."""
        self.in_sync = in_sync
        self.has_min_isr = len(in_sync) >= min_isr

    def set_undamaged(self, *, is_undamaged: bool) -> None:
        """Set whether the replica is undamaged: consumers may read only from undamaged followers.

        A replica that was found damaged counts as undamaged again after a complete refetch.
        """
        self.is_undamaged = is_undamaged

    def end_isolation(self) -> None:
        """The API server or a follower made contact: accept records again."""
        self.is_isolated = False

    def isolate(self) -> None:
        """Refuse records: producers get an error that makes them look for the leader elsewhere.

        Waiting produces get the same error as in `resign`, because it is unknown whether their
        records will be kept or lost. Consumers continue to read: every replica that may lead has
        the records below the high watermark.
        """
        assert self.followers is not None, "a leader without followers is never isolated"
        self.is_isolated = True
        self._produce_waiters.fail(ErrorCode.not_leader_or_follower)
        # End the idle state of followers, so that their next fetch reads this partition, and
        # `fetched_by` ends the isolation.
        self.followers.appended()
        self._fetch_waiters.notify(self.replica_watchers, wakes=False)

    def _update_followers(self, view: PartitionView, min_isr: int, *, is_new: bool) -> None:
        """Set the followers from the map. `is_new`: forget those of an earlier leadership."""
        if len(view.replicas) <= 1 and len(view.isr_refs) <= 1:
            self.followers = None
            return
        if self.followers is None:
            self.followers = Followers(self.log.topic_id, self._context.proposals)
            is_new = True
        if is_new:
            self.followers.begin(self.log.end_offset)
        self.followers.update(view, min_isr, self._clock.monotonic_s())

    def configure(self, config: LogConfig) -> None:
        """Apply the topic's settings. If the durability becomes `Fsync`, a sync starts."""
        self.log.configure(config)
        if self.is_leader and not self._offline_reason:
            self._appended()

    def go_offline(self, why: str) -> None:
        """Stop serving because the disk failed; `why` is the error.

        Nothing is acknowledged or read here until the broker restarts.
        """
        if not self._offline_reason:
            self._offline_reason = why
            self._produce_waiters.fail(ErrorCode.kafka_storage_error)
            self._wake_fetchers()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Check that this replica leads in the client's leader epoch (KIP-320).

        -1 is not compared. Raises `PartitionError`.
        """
        if not self.is_leader:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        self._compare_epoch(current_leader_epoch, self.leader_epoch)

    def check_epoch_of_follower(self, current_leader_epoch: int) -> None:
        """Check that consumers may read from this follower (KIP-392), in the client's leader epoch.

        An epoch of -1 is not compared. The follower must be undamaged and in contact with its
        leader: then it has every record below the high watermark that the leader reported last.
        Whether it is in the ISR is not checked here. The leader did that before it sent the reader
        here; with an older map this broker would refuse, and the leader would send the reader here
        again. Raises `PartitionError`.
        """
        following = self.following
        if following is None or not (self.is_undamaged and following.is_current):
            raise PartitionError(ErrorCode.not_leader_or_follower)
        self._compare_epoch(current_leader_epoch, following.leader_epoch)

    def check_epoch_of_any(self, current_leader_epoch: int) -> None:
        """Check the client's leader epoch for a read of exactly this replica, whatever its role is.

        Such reads inspect the replica, for example to compare it with others: it may lag, be halted
        or have no leader. They return records below its high watermark. An epoch of -1 is not
        compared. Raises `PartitionError`.
        """
        following = self.following
        known = self.leader_epoch if following is None else following.leader_epoch
        # Without a known leader epoch there is nothing to compare the client's with.
        self._compare_epoch(current_leader_epoch if known != NO_EPOCH else NO_EPOCH, known)

    def _compare_epoch(self, client_epoch: int, leader_epoch: int) -> None:
        """Raise `PartitionError` if the epochs differ, or if the disk has failed.

        A client epoch of -1 is not compared.
        """
        if self._offline_reason:
            raise PartitionError(ErrorCode.kafka_storage_error, self._offline_reason)
        if client_epoch in (NO_EPOCH, leader_epoch):
            return
        if client_epoch < leader_epoch:
            raise PartitionError(ErrorCode.fenced_leader_epoch)
        raise PartitionError(ErrorCode.unknown_leader_epoch)

    def append(
        self,
        records: memoryview,
        now_ms: int,
        *,
        acks_all: bool = False,
        keys_are_checked: bool = False,
        is_of_coordinator: bool = False,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Append a producer's batch.

        `acks_all` means acks=all. `keys_are_checked`: the caller has verified that each record has
        a key, as compacted topics require. `is_of_coordinator`: a group coordinator appends offsets
        of a producer's transaction; their sequence numbers are not checked. `verification` is that
        of the batch's producer and epoch, which the coordinator has answered with success; only
        with it a batch begins a transaction. Raises `PartitionError`, `RecordsError` and
        `StorageError`; `UnverifiedTransactionError` if only the verification is missing, or a
        marker came after it began; `TakesLong` if the caller must verify the keys first, in slices.
        """
        self.counters.produces += 1
        self.forget_old_refusals()
        try:
            self._check_accepts_records(acks_all=acks_all)
            appended = self.log.append_as_leader(
                records,
                self.leader_epoch,
                now_ms,
                keys_are_checked=keys_are_checked,
                first_sequences=self._refusals.first_sequences,
                origin=_origin(verification, is_of_coordinator=is_of_coordinator),
            )
        except (TakesLong, UnverifiedTransactionError):
            self.counters.produces -= 1  # the caller appends it again, after the check
            raise
        except (PartitionError, DiskFullError) as refused:
            # Noted, because the next batch of an idempotent producer must get the same error.
            self._refusals.note(code_of(refused), records, self._clock.monotonic_s())
            raise
        except (BatchTooLargeError, CorruptBatchError):
            self._refusals.note_invalid(records, self._clock.monotonic_s())
            raise
        except OutOfOrderSequenceError as gap:
            code = self._refusals.code_of_gap(records)
            if code is not ErrorCode.none:
                # The gap comes from our refusal of an earlier batch: answer with its error.
                raise PartitionError(code, f"a batch was refused a moment ago, and {gap}") from gap
            if self._may_be_replaced_at(gap, records):
                code = ErrorCode.not_leader_or_follower
                raise PartitionError(code, f"another broker may lead, and {gap}") from gap
            raise
        if not appended.duplicate:
            self.counters.bytes_in += len(records)
            self.counters.records_in += appended.last_offset - appended.base_offset + 1
            self._appended()
        return appended

    def append_marker(self, marker: Marker, now_ms: int) -> AppendResult:
        """Append the end marker of a producer's transaction, for a transaction coordinator.

        The caller waits for the high watermark with `call_when_safe`. Raises `PartitionError`, and
        `StorageError`, for example `InvalidProducerEpochError` or `CoordinatorFencedError`.
        """
        self._check_accepts_records(acks_all=True)
        appended = self.log.append_marker(
            EndMarker(marker.is_commit, marker.coordinator_epoch),
            Producer(producer_id=marker.producer_id, epoch=marker.producer_epoch),
            self.leader_epoch,
            now_ms,
            epoch_is_raised=marker.epoch_is_raised,
        )
        self.verifications.marker_appended(marker.producer_id)
        self._appended()
        return appended

    def _may_be_replaced_at(self, gap: OutOfOrderSequenceError, batch: memoryview) -> bool:
        """Whether what is missing before this batch may have been stored by another leader that
        this broker does not know of yet (see `gaps`). A leader by itself knows of every other."""
        if self.followers is None:
            return False
        now_s = self._clock.monotonic_s()
        return self._gaps.is_doubtful(read_header(batch), gap.expected, now_s)

    def note_refused(self, code: ErrorCode, records: memoryview) -> None:
        """Record that this batch was refused with this code before it reached `append`, for a
        reason that passes: the producer's next batches must not overtake it."""
        self._refusals.note(code, records, self._clock.monotonic_s())

    def note_refusal(self, code: ErrorCode) -> None:
        """Record that batches were refused with this code before this replica led the partition.

        The reason is temporary. If the producers' next batches arrive here, their sequence numbers
        have a gap: they get the same code, so that the producer sends all of them again. Not for
        what the leader itself refuses: that is no reason for others to wait.
        """
        self._refusals.note_unknown(code, self._clock.monotonic_s())

    def forget_old_refusals(self) -> None:
        """Forget what was refused too long ago to matter. To be called now and then.

        The clock is not read in the usual case that nothing was refused.
        """
        if self._refusals:
            self._refusals.pass_time(self._clock.monotonic_s())
        if self._gaps:
            self._gaps.forget(self._clock.monotonic_s())

    def _check_accepts_records(self, *, acks_all: bool) -> None:
        """Raise `PartitionError` if records are refused now; `acks_all` means acks=all."""
        self.check_epoch(NO_EPOCH)
        if self.is_isolated:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        if acks_all and not self.has_min_isr:
            raise PartitionError(ErrorCode.not_enough_replicas)

    @property
    def waiting_produces(self) -> int:
        """Batches whose producers wait for the high watermark."""
        return len(self._produce_waiters)

    def call_when_safe(self, offset: int, on_safe: OnSafe) -> bool:
        """Returns True if the high watermark is at least `offset`; `on_safe` is not called then.

        Otherwise returns False, and `on_safe` is called once the high watermark reaches `offset`,
        or with an error if this replica stops leading.
        """
        if self.high_watermark >= offset:
            return True
        self._produce_waiters.add(offset, on_safe)
        return False

    # -- followers

    def fetched_by(self, follower: ReplicaRef, offset: int, log_start_offset: int = 0) -> None:
        """Record that a follower fetches from `offset`, and has the records between
        `log_start_offset` and `offset`.

        The caller has checked with `followers.admits` that the follower may fetch.
        """
        followers = self.followers
        assert followers is not None, "the caller has found the follower in `followers`"
        followers.fetched(
            follower, offset, self.log.end_offset, self._clock.monotonic_s(), log_start_offset
        )
        if self.is_isolated and followers.counts(follower):
            self._context.events.follower_fetched(self.name)
        self._advance_high_watermark()
        if not followers.is_in_sync(follower):
            self.check_followers()  # it may have caught up, and can join the ISR

    @property
    def is_settled(self) -> bool:
        """Whether this replica leads, and the replicas that a reassignment has removed are not
        needed any more: all present ones have this map, and every committed record on disk."""
        if not self._awaits_proof or not self.is_leader or self._offline_reason:
            return False
        followers = self.followers
        is_on_disk_here = self.log.countable_end_offset >= self._epoch_start_offset
        return is_on_disk_here and (followers is None or followers.have_all_fetched())

    @property
    def reassignment_bytes_left(self) -> int:
        """The bytes that replicas which a reassignment is adding still have to fetch from this
        leader, each counted by itself; 0 for a follower."""
        if self.followers is None or not self.is_leader:
            return 0
        return sum(map(self.log.bytes_from, self.followers.added_ends()))

    def _check_settled(self) -> None:
        """Notify once when the partition has become settled."""
        self._was_settled = self.is_settled
        if self._was_settled:
            self._context.events.partition_settled()

    def check_followers(self) -> None:
        """Propose another ISR if the present one is not right any more."""
        followers = self.followers
        if followers is not None and not self._offline_reason:
            now_s, lag_max_s = self._clock.monotonic_s(), self._context.lag_max_s()
            if followers.propose(self.high_watermark, now_s, lag_max_s):
                logger.info("isr_proposed", extra={"partition": str(self.name)})

    def best_to_read(self, broker_ids: Collection[int], offset: int) -> int | None:
        """The broker id of the follower that a consumer at this offset should read from, or None.

        None as long as the high watermark does not cover all records that were acknowledged in
        earlier leader epochs, and while this leader is isolated.
        """
        followers = self.followers
        if followers is None or self.is_isolated or not self.high_watermark_is_current:
            return None
        if offset > self.high_watermark:
            return None
        return followers.best_to_read(broker_ids, offset)

    def read_as_follower(self, offset: int, max_bytes: int, *, min_one: bool) -> LogSlice:
        """Batches from `offset` up to the log end, for a follower.

        `min_one`: return at least one batch, even if it is larger than `max_bytes`. Raises
        `OffsetOutOfRangeError`.
        """
        return self.log.read(offset, max_bytes, self.log.end_offset, min_one=min_one)

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool
    ) -> LogSlice | None:
        """Batches from `offset` up to `up_to_offset`, which is the high watermark or the last
        stable offset; None if there are none yet.

        `min_one`: return at least one batch, even if it is larger than `max_bytes`. Raises
        `OffsetOutOfRangeError` below the log start offset and above the log end offset. A follower
        may have fewer records than its leader: above its log end it raises `PartitionError`, so
        that the reader retries instead of resetting its offset.
        """
        if up_to_offset <= offset <= self.log.end_offset:
            return None  # nothing to read yet
        if self.following is not None and offset > self.log.end_offset:
            raise PartitionError(ErrorCode.offset_not_available)
        return self.log.read(offset, max_bytes, up_to_offset, min_one=min_one)

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start offset, at most to the high watermark; returns the new one.

        Raises `PartitionError`.
        """
        if not 0 <= offset <= self.high_watermark:
            raise PartitionError(ErrorCode.offset_out_of_range)
        low_watermark = await self.log.delete_records_before(offset, now_ms)
        self.report_log_start()
        return low_watermark

    def report_log_start(self) -> None:
        """If the log start offset has changed, have fetch sessions report it with their next
        answers."""
        if self._reported_log_start != self.log.log_start_offset:
            self._reported_log_start = self.log.log_start_offset
            self._notify_watchers(wakes=False)

    async def quiesce(self) -> None:
        """Stop serving and wait for a running sync: nothing accesses the log after this."""
        self.resign()
        await self.stop_following()
        if self._sync is not None:
            await asyncio.wait([self._sync])

    def _appended(self) -> None:
        """After an append: advance the high watermark, wake followers and start a sync."""
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

    def _advance_high_watermark(self) -> None:
        """Advance the high watermark to the offset up to which the records are durable here and on
        all counted followers."""
        own_offset = self.log.countable_end_offset
        followers = self.followers
        self._advance(own_offset if followers is None else followers.safe_offset(own_offset))
        if self._awaits_proof and not self._was_settled:
            self._check_settled()

    async def _make_durable(self) -> None:
        """Sync until all is durable; records that arrive during a sync share the next one."""
        try:
            while self.log.countable_end_offset < self.log.end_offset:
                began_s = self._clock.monotonic_s()
                try:
                    await self.log.make_durable(self.log.end_offset)
                except DiskFullError as full:
                    # The records are synced; there was no space for a checkpoint.
                    extra = {"partition": str(self.name), "reason": str(full)}
                    logger.warning("sync_waits_for_room", extra=extra)
                    await self._clock.sleep(FULL_DISK_RETRY_S)
                    if not self.is_leader:
                        return
                    continue
                self._context.sync_latency.observe(self._clock.monotonic_s() - began_s)
                if self.is_leader:
                    self._advance_high_watermark()
        except RecordsTruncatedError:
            logger.info("sync_ended_by_truncation", extra={"partition": str(self.name)})
        except Exception as failed:
            # Whatever the reason, nothing may be acknowledged after it.
            logger.exception("sync_failed", extra={"partition": str(self.name)})
            self.go_offline(str(failed))
        finally:
            self._sync = None

    def _advance(self, high_watermark: int) -> None:
        """Raise the high watermark, and answer the requests that wait for it. Never lowers it."""
        if high_watermark > self.high_watermark:
            self._set_high_watermark(high_watermark)
            self._produce_waiters.advance(high_watermark)
            self._wake_fetchers()

    def _set_high_watermark(self, high_watermark: int) -> None:
        """Raise the high watermark. If it passes end markers, their transactions are decided."""
        self.high_watermark = high_watermark
        if high_watermark > self.log.first_unstable_offset:
            self.log.stabilize(high_watermark)

    def wake_readers(self) -> None:
        """Wake the consumers that wait here."""
        self._fetch_waiters.wake(self.fetchers)
        self._fetch_waiters.notify(self.watchers, wakes=True)

    def _wake_fetchers(self) -> None:
        """Wake consumers, and followers if they have to be answered now."""
        self.wake_readers()
        waiters = self._fetch_waiters
        is_over = not self.is_leader or bool(self._offline_reason)
        if is_over:
            waiters.wake(self.replica_fetchers)
        # Followers wait for the log end: a new high watermark alone can wait for the next records.
        # It is sent at once if consumers read from followers.
        waiters.notify(
            self.replica_watchers, wakes=is_over or self._context.consumers_read_followers()
        )

    def _notify_watchers(self, *, wakes: bool) -> None:
        """Have the fetch sessions of consumers and followers read this partition with their next
        fetch; with `wakes`, also answer the fetches that wait in these sessions."""
        self._fetch_waiters.notify(self.watchers, wakes=wakes)
        self._fetch_waiters.notify(self.replica_watchers, wakes=wakes)


def _origin(verification: Verification | None, *, is_of_coordinator: bool) -> Origin:
    """The origin of a batch, for the log."""
    if verification is None and not is_of_coordinator:
        return UNVERIFIED  # of nearly all batches
    is_verified = verification is not None and verification.is_valid
    return Origin(is_of_coordinator, is_verified)
