"""The leader's knowledge of the followers of a partition: their offsets, times and sessions.

A leadership starts without this knowledge: an offset that a follower reported to the previous
leader says nothing of its log under this one. A follower is a broker in one session (R1); offsets
of an earlier session do not count for a later one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.partitions.isolation import NEVER_S
from chiplog_broker.partitions.isr import (
    NOTHING,
    BindingProposal,
    InSync,
    Progress,
    counted_followers,
    wanted_isr,
)
from chiplog_broker.partitions.proposals import Proposals
from chiplog_core.ids import BrokerId, ReplicaRef, Session

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 30.0
"""First and longest pause after ISR proposals that the operator refused: operator and leader must
not propose and refuse in a tight loop."""


class IdleEntry(Protocol):
    """A partition in a follower's fetch session that has nothing new for it (KIP-227)."""

    @property
    def polled_s(self) -> float:
        """When the fetch session was last used, which counts as a fetch of this partition."""


@dataclass(slots=True)
class Follower:
    """The progress of one follower, in one session and leader epoch."""

    caught_up_s: float
    end_offset: int = NOTHING
    fetched_s: float = NEVER_S
    leader_end_offset: int = NOTHING
    """The leader's log end offset at the follower's last fetch."""
    log_start_offset: int = 0
    """The follower's log start offset, as sent with its last fetch."""
    has_valid_high_watermark: bool = False
    """Whether it has received an answer in this leader epoch, and with it a valid high
    watermark."""
    idle_entry: IdleEntry | None = None
    """Set while the follower has every record of the leader: each use of its fetch session then
    counts as a fetch of this partition."""

    def end_idle(self) -> None:
        """End the idle state. The last use of the fetch session, which counted as a fetch of all
        records, is stored as the time of the last fetch."""
        if self.idle_entry is not None:
            self.fetched_s = max(self.fetched_s, self.idle_entry.polled_s)
            self.caught_up_s = max(self.caught_up_s, self.fetched_s)
            self.idle_entry = None

    def holds(self, offset: int) -> bool:
        """Whether a consumer at this offset can read from this follower."""
        return self.has_valid_high_watermark and self.log_start_offset <= offset <= self.end_offset

    @property
    def last_fetch_s(self) -> float:
        """When it fetched last, in monotonic seconds. While it is idle, each use of its fetch
        session counts as a fetch."""
        return (
            self.fetched_s
            if self.idle_entry is None
            else max(self.fetched_s, self.idle_entry.polled_s)
        )

    @property
    def progress(self) -> Progress:
        """Its log end offset, and when it last had all records of the leader."""
        if self.idle_entry is None:
            return Progress(self.end_offset, self.caught_up_s)
        return Progress(self.end_offset, max(self.caught_up_s, self.idle_entry.polled_s))


class Followers:
    """The followers of one partition that this broker leads."""

    __slots__ = (
        "_counted_followers",
        "_followers",
        "_isr",
        "_min_isr",
        "_newest_sessions",
        "_not_before_s",
        "_own",
        "_pause_s",
        "_proposal",
        "_proposals",
        "_topic_id",
        "_view",
        "epoch_start_offset",
    )

    def __init__(self, topic_id: UUID, proposals: Proposals) -> None:
        self._topic_id = topic_id
        self._proposals = proposals
        self._followers: dict[ReplicaRef, Follower] = {}
        self._not_before_s = NEVER_S
        """Monotonic time before which no ISR is proposed; `NEVER_S`, a time in the past, if there
        is no pause."""
        self._pause_s = FIRST_PAUSE_S
        """The length of the next pause after a refused proposal."""
        self._proposal: BindingProposal | None = None
        """The ISR that was proposed to the operator, until the PartitionMap answers it."""
        self._min_isr = 1
        self.epoch_start_offset = 0
        """Our log end offset when this leadership began."""
        self._view: PartitionView
        """The partition in the last PartitionMap, which `update` sets, with this leader's own
        session and the ISR."""
        self._own: ReplicaRef
        self._isr: tuple[ReplicaRef, ...] = ()
        self._counted_followers: tuple[Follower, ...] = ()
        """The followers that the high watermark waits for."""
        self._newest_sessions: dict[int, ReplicaRef] = {}
        """By broker id: the only session of each follower that may fetch."""

    def begin(self, end_offset: int) -> None:
        """Start a leadership at this log end offset, without any follower; call `update` next."""
        self.epoch_start_offset = end_offset
        self._followers = {}
        self._not_before_s = NEVER_S
        self._pause_s = FIRST_PAUSE_S

    def update(self, view: PartitionView, min_isr: int, now_s: float) -> None:
        """Set the replicas and sessions of the PartitionMap.

        A refused proposal delays the next one. It was refused if the map answers it and lists
        another ISR.
        """
        self._view, self._min_isr, self._isr = view, min_isr, view.isr_refs
        self._own = ReplicaRef(BrokerId(view.leader_id), Session(view.leader_session))
        before = self._proposal
        self._proposal = self._proposals.open_proposal(self._topic_id, view.index)
        if before and self._proposal is None and set(before.isr) != set(view.isr_refs):
            self._not_before_s = now_s + self._pause_s
            self._pause_s = min(self._pause_s * 2, LAST_PAUSE_S)
        elif before and self._proposal is None:
            self._pause_s = FIRST_PAUSE_S
        self._newest_sessions = newest_sessions(view)
        self._count(now_s)

    def admits(self, follower: ReplicaRef) -> bool:
        """Whether this broker session may fetch: it is the newest one known of a replica (R1)."""
        return self._newest_sessions.get(follower.broker_id) == follower

    def fetched(
        self,
        follower: ReplicaRef,
        offset: int,
        leader_end_offset: int,
        now_s: float,
        log_start_offset: int = 0,
    ) -> None:
        """Record that a follower fetches from `offset`: it has all records between its
        `log_start_offset` and `offset`. `leader_end_offset` is our log end offset.

        A follower sends one fetch at a time, so its second fetch proves that it got the answer to
        the first one, and with it a valid high watermark.

        An offset above our log end is ignored: the follower cannot have records that its leader
        lacks, and must truncate its log or start it again.
        """
        if offset > leader_end_offset:
            return
        known = self._followers.get(follower)
        if known is None:
            known = self._followers[follower] = Follower(NEVER_S)
        known.end_idle()
        # `leader_end_offset` is `NOTHING` (-1) before the first fetch.
        known.has_valid_high_watermark = known.leader_end_offset > NOTHING
        known.log_start_offset = log_start_offset
        if offset >= leader_end_offset:
            known.caught_up_s = now_s
        elif offset >= known.leader_end_offset > NOTHING:
            # The follower has everything that existed at its previous fetch, so it had caught up
            # at that time (Kafka's rule).
            known.caught_up_s = max(known.caught_up_s, known.fetched_s)
        known.end_offset = max(known.end_offset, offset)
        known.fetched_s, known.leader_end_offset = now_s, leader_end_offset

    def mark_idle(self, follower: ReplicaRef, idle_entry: IdleEntry) -> None:
        """Record that the follower has every record, so that its fetch session has nothing new.

        While `idle_entry` is set, each use of the fetch session counts as a fetch of this partition
        at the same offset, as in Kafka, without work for it. Call this after `fetched`.
        """
        known = self._followers.get(follower)
        if known is not None:
            known.idle_entry = idle_entry

    def appended(self) -> None:
        """Records were appended: idle followers do not have everything any more."""
        for follower in self._followers.values():
            follower.end_idle()

    def have_all_fetched(self) -> bool:
        """Whether every replica is in sync, and each follower has fetched in this leader epoch from
        the offset at which it began, or above."""
        in_sync = {replica.broker_id for replica in self._isr}
        return in_sync == set(self._view.replicas) and all(
            known is not None and known.end_offset >= self.epoch_start_offset
            for known in map(self._followers.get, self._isr_without_own())
        )

    def added_ends(self) -> list[int]:
        """The log end offset of each replica that a reassignment is adding and that is not in the
        ISR; 0 if it has not fetched in this leader epoch."""
        in_sync = {replica.broker_id for replica in self._isr}
        ends = []
        for broker_id in self._view.adding:
            if broker_id not in in_sync:
                replica = self._newest_sessions.get(broker_id)
                known = None if replica is None else self._followers.get(replica)
                ends.append(0 if known is None else max(known.end_offset, 0))
        return ends

    def _isr_without_own(self) -> list[ReplicaRef]:
        return [replica for replica in self._isr if replica != self._own]

    def safe_offset(self, own_end_offset: int) -> int:
        """The offset below which this leader and all counted followers have every record.

        Counted are the followers that the high watermark waits for. -1 if one of them has not
        fetched yet.
        """
        for follower in self._counted_followers:
            own_end_offset = min(own_end_offset, follower.end_offset)
        return own_end_offset

    @property
    def are_waited_for(self) -> bool:
        """Whether the high watermark waits for any follower."""
        return bool(self._counted_followers)

    @property
    def last_fetch_s(self) -> float:
        """The time of the last fetch of any follower that the high watermark waits for."""
        return max((follower.last_fetch_s for follower in self._counted_followers), default=NEVER_S)

    def counts(self, follower: ReplicaRef) -> bool:
        """Whether the high watermark waits for this follower."""
        known = self._followers.get(follower)
        return known is not None and any(
            known is counted_follower for counted_follower in self._counted_followers
        )

    def is_in_sync(self, follower: ReplicaRef) -> bool:
        """Whether this follower is in the ISR of the PartitionMap, in this session."""
        return follower in self._isr

    def is_copying(self, follower: ReplicaRef) -> bool:
        """Whether nothing waits for this follower: its broker is neither in the ISR nor proposed
        for it. A member that has restarted is listed in its earlier session; the high watermark
        waits until it has caught up in the new one."""
        proposed = () if self._proposal is None else self._proposal.isr
        return all(member.broker_id != follower.broker_id for member in (*self._isr, *proposed))

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that a move adds to the partition."""
        return self._view.adding

    def best_to_read(self, broker_ids: Collection[int], offset: int) -> int | None:
        """The broker id of the follower that a consumer at this offset should read from, or None.

        It is one of `broker_ids`, in sync, alive and has the offset. Among several the one with the
        longest log is preferred, then the one that caught up last, then the largest id (Kafka's
        order, KIP-392). A follower that is proposed for removal from the ISR is not returned.
        """
        remaining = self._isr if self._proposal is None else self._proposal.isr
        ranks = []
        for replica in self._isr:
            if replica.broker_id not in broker_ids or replica not in remaining:
                continue
            known = self._followers.get(replica)
            if known is not None and known.holds(offset) and replica in self._view.live_refs:
                progress = known.progress
                ranks.append((progress.end_offset, progress.caught_up_s, replica.broker_id))
        if not ranks:
            return None
        _, _, broker_id = max(ranks)
        return broker_id

    def propose(self, high_watermark: int, now_s: float, lag_max_s: float) -> bool:
        """Propose another ISR if the present one is not right; returns whether it was proposed.

        Nothing is proposed while a proposal is open, or in the pause after a refused one.
        """
        if self._proposal is not None or now_s < self._not_before_s:
            return False
        view = self._view
        isr = wanted_isr(
            InSync(
                own=self._own,
                replicas=tuple(map(BrokerId, view.replicas)),
                isr=view.isr_refs,
                live=frozenset(view.live_refs) | {self._own},
                min_isr=self._min_isr,
                high_watermark=high_watermark,
                epoch_start_offset=self.epoch_start_offset,
                progress={ref: follower.progress for ref, follower in self._followers.items()},
                now_s=now_s,
                lag_max_s=lag_max_s,
            )
        )
        if isr is None:
            return False
        self._proposal = BindingProposal(base_partition_epoch=view.partition_epoch, isr=isr)
        self._count(now_s)
        self._proposals.make(self._topic_id, view, self._proposal)
        return True

    def _count(self, now_s: float) -> None:
        """Set the followers that the high watermark waits for, and forget old sessions."""
        waited_for = counted_followers(self._own, self._isr, self._proposal)
        for replica in waited_for:
            # A replica in the ISR gets time to make its first fetch.
            self._followers.setdefault(replica, Follower(now_s))
        known = {*waited_for, *self._newest_sessions.values()}
        self._followers = {
            ref: follower for ref, follower in self._followers.items() if ref in known
        }
        self._counted_followers = tuple(self._followers[replica] for replica in waited_for)


def newest_sessions(view: PartitionView) -> dict[int, ReplicaRef]:
    """By broker id: the newest session of each follower, which alone may fetch.

    A session is known from the live brokers, or from the ISR, which may still list an ended one.
    """
    newest: dict[int, ReplicaRef] = {}
    for replica in (*view.live_refs, *view.isr_refs):
        if replica.broker_id != view.leader_id:
            known = newest.get(replica.broker_id)
            if known is None or known.session < replica.session:
                newest[replica.broker_id] = replica
    return newest
