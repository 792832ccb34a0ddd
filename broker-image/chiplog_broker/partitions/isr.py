"""Who is to be in sync, and how far records are safe: the leader's decisions, without a clock.

A proposal is a promise (R5): from the moment it is made until the map shows a higher partition
epoch nobody here changes it or takes it back, because the operator may have accepted it
already, and so the high watermark waits for the listed and the proposed replicas alike. What a
member that was proposed away acknowledged still counts; so does what a member that was proposed
has not yet got.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_core.ids import BrokerId, ReplicaRef

NOTHING = -1
"""How far a replica is of which this reign has heard nothing."""


class Progress(NamedTuple):
    """How far a follower is, as it said in this reign and session."""

    end_offset: int
    """Everything below it has, as durable as the topic asks for; -1 before its first word."""
    caught_up_s: float
    """When it last had all that the leader had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A proposal that was made: it stands until it is answered."""

    base_partition_epoch: int
    isr: tuple[ReplicaRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InSync:
    """What a leader knows when it decides who is to be in sync."""

    own: ReplicaRef
    replicas: tuple[BrokerId, ...]
    isr: tuple[ReplicaRef, ...]
    live: frozenset[ReplicaRef]
    min_isr: int
    high_watermark: int
    epoch_start_offset: int
    """The leader's log end when its reign began."""
    progress: Mapping[ReplicaRef, Progress]
    now_s: float
    lag_max_s: float


def wanted_isr(known: InSync) -> tuple[ReplicaRef, ...] | None:
    """The in-sync replicas to propose; None where those listed are right.

    A member in a session that has ended is replaced by the session that has caught up.
    """
    joining = [one for one in known.live if one not in known.isr and may_join(one, known)]
    replaced = {one.broker_id for one in joining}
    staying = [one for one in known.isr if one.broker_id not in replaced]
    floor = min(known.min_isr, len(known.isr))
    kept = set(_without_lagging(staying, known, floor - len(joining))) | set(joining)
    if kept == set(known.isr):
        return None
    place = {broker_id: number for number, broker_id in enumerate(known.replicas)}
    return tuple(sorted(kept, key=lambda one: (place.get(one.broker_id, len(place)), one)))


def may_join(follower: ReplicaRef, known: InSync) -> bool:
    """Whether a follower holds every record that was acknowledged, by whichever leader.

    The high watermark alone does not say so: at the start of a reign it may still be below
    what the leader before had acknowledged. The leader's own log at that time holds it all.
    """
    if follower.broker_id not in known.replicas or follower not in known.live:
        return False
    end_offset = known.progress.get(follower, _UNHEARD).end_offset
    if end_offset < max(known.high_watermark, known.epoch_start_offset):
        return False
    return not _lags(follower, known)


def counted(
    own: ReplicaRef, isr: Iterable[ReplicaRef], promise: Promise | None
) -> tuple[ReplicaRef, ...]:
    """The followers that the high watermark waits for: listed or proposed."""
    proposed = promise.isr if promise else ()
    return tuple(sorted({*isr, *proposed} - {own}))


def is_answered(promise: Promise, partition_epoch: int) -> bool:
    """Whether the map has moved on: accepted or refused, the promise is kept."""
    return partition_epoch > promise.base_partition_epoch


def _without_lagging(members: list[ReplicaRef], known: InSync, floor: int) -> Iterable[ReplicaRef]:
    """The members but those that lag, the dead and the longest behind first, not below `floor`."""
    lagging = [one for one in members if _lags(one, known)]
    lagging.sort(key=lambda one: (one in known.live, _caught_up_s(one, known), one))
    going = set(lagging[: max(len(members) - max(floor, 1), 0)])
    return [one for one in members if one not in going]


def _lags(replica: ReplicaRef, known: InSync) -> bool:
    if replica == known.own:
        return False
    return known.now_s - _caught_up_s(replica, known) > known.lag_max_s


def _caught_up_s(replica: ReplicaRef, known: InSync) -> float:
    return known.progress.get(replica, _UNHEARD).caught_up_s


_UNHEARD = Progress(NOTHING, float("-inf"))
