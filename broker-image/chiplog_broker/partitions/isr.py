"""The leader's decisions: which ISR to propose, and for which followers the high watermark waits.

A proposal is binding (rule R5): until the PartitionMap shows a higher partition epoch, the leader
neither changes nor withdraws it, because the operator may have accepted it already. So the high
watermark waits for the replicas of the present ISR and of the proposed one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_core.ids import BrokerId, ReplicaRef

NOTHING = -1
"""The end offset of a replica that has not fetched in this leader epoch."""


class Progress(NamedTuple):
    """The progress of a follower, as reported in this leader epoch and session."""

    end_offset: int
    """The follower has all records below, as durable as the topic requires; -1 before its first
    fetch."""
    caught_up_s: float
    """When it last had every record of the leader, in monotonic seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingProposal:
    """An ISR proposal that was made: it is binding until a PartitionMap answers it."""

    base_partition_epoch: int
    isr: tuple[ReplicaRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InSync:
    """The facts with which a leader decides the ISR."""

    own: ReplicaRef
    replicas: tuple[BrokerId, ...]
    isr: tuple[ReplicaRef, ...]
    live: frozenset[ReplicaRef]
    min_isr: int
    high_watermark: int
    epoch_start_offset: int
    """The leader's log end offset when its leadership began."""
    progress: Mapping[ReplicaRef, Progress]
    now_s: float
    lag_max_s: float


def wanted_isr(known: InSync) -> tuple[ReplicaRef, ...] | None:
    """The ISR to propose; None if the present one is right.

    Followers that have caught up join. Lagging replicas leave, but never so many that fewer than
    `min_isr` remain, or than the ISR has now if it is already smaller. A replica whose broker got a
    new session is replaced by the one in the new session once that has caught up.
    """
    joining = [
        replica for replica in known.live if replica not in known.isr and may_join(replica, known)
    ]
    replaced = {replica.broker_id for replica in joining}
    remaining = [replica for replica in known.isr if replica.broker_id not in replaced]
    floor = min(known.min_isr, len(known.isr))
    kept = set(_without_lagging(remaining, known, floor - len(joining))) | set(joining)
    if kept == set(known.isr):
        return None
    # List the ISR in the order of the replicas.
    place = {broker_id: number for number, broker_id in enumerate(known.replicas)}
    return tuple(
        sorted(kept, key=lambda replica: (place.get(replica.broker_id, len(place)), replica))
    )


def may_join(follower: ReplicaRef, known: InSync) -> bool:
    """Whether a follower is alive, does not lag and has every acknowledged record.

    To have the records below the high watermark is not enough: at the start of a leadership the
    high watermark may be below records that the previous leader has acknowledged. But the new
    leader had all of them in its log at that time, so a follower must reach that offset, too.
    """
    if follower.broker_id not in known.replicas or follower not in known.live:
        return False
    end_offset = known.progress.get(follower, _NO_PROGRESS).end_offset
    if end_offset < max(known.high_watermark, known.epoch_start_offset):
        return False
    return not _lags(follower, known)


def counted_followers(
    own: ReplicaRef, isr: Iterable[ReplicaRef], proposal: BindingProposal | None
) -> tuple[ReplicaRef, ...]:
    """The followers that the high watermark waits for: those in the ISR or in the proposed ISR.

    While a proposal is open, it is unknown which of the two ISRs the next leader is elected from.
    """
    proposed = proposal.isr if proposal else ()
    return tuple(sorted({*isr, *proposed} - {own}))


def is_answered(proposal: BindingProposal, partition_epoch: int) -> bool:
    """Whether the map's partition epoch shows that the proposal was accepted or refused."""
    return partition_epoch > proposal.base_partition_epoch


def _without_lagging(members: list[ReplicaRef], known: InSync, floor: int) -> Iterable[ReplicaRef]:
    """The members without those that lag, but at least `floor` of them, and at least one.

    If not all lagging replicas can leave, dead ones leave first, then those that lag longest.
    """
    lagging = [replica for replica in members if _lags(replica, known)]
    lagging.sort(key=lambda replica: (replica in known.live, _caught_up_s(replica, known), replica))
    leaving = set(lagging[: max(len(members) - max(floor, 1), 0)])
    return [replica for replica in members if replica not in leaving]


def _lags(replica: ReplicaRef, known: InSync) -> bool:
    """Whether the replica has not caught up for `lag_max_s`; the leader itself never lags."""
    if replica == known.own:
        return False
    return known.now_s - _caught_up_s(replica, known) > known.lag_max_s


def _caught_up_s(replica: ReplicaRef, known: InSync) -> float:
    return known.progress.get(replica, _NO_PROGRESS).caught_up_s


_NO_PROGRESS = Progress(NOTHING, float("-inf"))
