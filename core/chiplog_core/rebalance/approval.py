"""Checks whether the moves of a proposal are still valid, on approval and while they are made.

Leader moves are made first, then replicas are moved.

A leader move is proposed for one state of the map. It is valid while the partition's leader epoch
and the order of its replicas are as they were then. A move that has begun or is done is recognized
by the new order of the replicas, so it need not be recorded which moves were made. A change of
replicas is valid while the partition is on the same brokers as when it was proposed.

- On approval: `approve`. If any move is stale, nothing is done, and the load must be measured again
  (annotation `refresh`).
- While moves are made: `judge_all`, from the present states of the partitions. `DUE` and `ORDERED`
  moves are made (the order is set, and the first replica leads if it is in the ISR; or the
  replicas move), `STALE` ones are skipped and reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.observed.pinned import NONE_PINNED, Pinned
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.replicas import ReplicaChange


class MoveState(StrEnum):
    """How far a move is."""

    DUE = "Due"
    """The partition is as it was when the move was proposed, and the move can be made."""
    ORDERED = "Ordered"
    """The replicas are in the new order, but another replica still leads; or the replicas are
    moving."""
    DONE = "Done"
    STALE = "Stale"
    """The partition has changed since the proposal, or cannot be led as proposed."""


PINNED = "is placed by spec.assignments of its Topic"

NONE_DEPARTING: frozenset[BrokerId] = frozenset()

Move: TypeAlias = LeaderMove | ReplicaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBasis:
    """The part of a partition's present state on which a move depends."""

    replicas: tuple[BrokerId, ...]
    is_pinned: bool = False
    """Whether the partition's Topic places it (spec.assignments)."""
    target: tuple[BrokerId, ...] = ()
    """The replicas without those that a reassignment removes."""
    is_moving: bool = False
    departing: frozenset[BrokerId] = NONE_DEPARTING
    """The brokers of the cluster that are being removed, or were: nothing moves to them."""
    isr: frozenset[BrokerId]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A move and its state."""

    move: Move
    state: MoveState
    message: str = ""
    """Why a stale move is stale; empty for other states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The result of approving a proposal now."""

    to_do: tuple[Move, ...]
    stale: tuple[Judged, ...]
    """If there are any, the approval is refused and nothing is done."""

    @property
    def is_refused(self) -> bool:
        return bool(self.stale)

    @property
    def message(self) -> str:
        """Why the approval is refused, and what to do; empty if it is not refused."""
        if not self.stale:
            return ""
        others = f" (and {len(self.stale) - 1} more)" if len(self.stale) > 1 else ""
        return (
            f"{self.stale[0].message}{others}: the proposal is outdated; set the annotation "
            "chiplog.dev/rebalance to refresh to measure again"
        )


MoveBases = Mapping[PartitionName, MoveBasis]


def move_bases(
    maps: Iterable[PartitionMapSpec],
    pinned: Pinned = NONE_PINNED,
    departing: frozenset[BrokerId] = NONE_DEPARTING,
) -> dict[PartitionName, MoveBasis]:
    """The `MoveBasis` of every partition of the current generations. `departing` are the brokers
    that are being removed, or were."""
    return {
        PartitionName(spec.topic_name, state.partition): move_basis(
            state,
            is_pinned=state.partition in pinned.get(spec.topic_name, ()),
            departing=departing,
        )
        for spec in maps
        for generation in spec.generations
        if generation.topic_id == spec.current
        for state in generation.partitions
    }


def move_basis(
    state: PartitionState,
    *,
    is_pinned: bool = False,
    departing: frozenset[BrokerId] = NONE_DEPARTING,
) -> MoveBasis:
    """The `MoveBasis` of one partition."""
    return MoveBasis(
        is_pinned=is_pinned,
        departing=departing,
        replicas=state.replicas,
        target=state.target,
        is_moving=state.is_moving,
        isr=frozenset(ref.broker_id for ref in state.isr),
        leader=state.leader.broker_id if state.leader else None,
        leader_epoch=state.leader_epoch,
    )


def approve(
    moves: Iterable[LeaderMove], changes: Sequence[ReplicaChange], now: MoveBases
) -> Approval:
    """The moves of a proposal that are still to do. If any is stale, the whole proposal is
    refused."""
    judged = judge_all(moves, changes, now)
    return Approval(
        to_do=tuple(
            judged_move.move
            for judged_move in judged
            if judged_move.state in {MoveState.DUE, MoveState.ORDERED}
        ),
        stale=tuple(judged_move for judged_move in judged if judged_move.state is MoveState.STALE),
    )


def judge_all(
    moves: Iterable[LeaderMove], changes: Sequence[ReplicaChange], now: MoveBases
) -> list[Judged]:
    """The state of each move of a proposal. The leader move of a partition whose replicas move, or
    have moved, is done: replicas are moved last."""
    judged_changes = [judge_change(change, now.get(change.name)) for change in changes]
    begun = {
        judged.move.name
        for judged in judged_changes
        if judged.state in {MoveState.ORDERED, MoveState.DONE}
    }
    judged_moves = [
        Judged(move=move, state=MoveState.DONE)
        if move.name in begun
        else judge(move, now.get(move.name))
        for move in moves
    ]
    return [*judged_moves, *judged_changes]


def judge_change(change: ReplicaChange, now: MoveBasis | None) -> Judged:
    """The state of a change of replicas, from the present state `now` of its partition; None if the
    partition does not exist."""
    if now is None:
        return _stale(change, "is gone")
    if now.target == change.replicas:
        state = MoveState.ORDERED if now.is_moving else MoveState.DONE
        return Judged(move=change, state=state)
    if now.is_pinned:
        return _stale(change, PINNED)
    if now.is_moving or sorted(now.target) != sorted(change.expected_replicas):
        return _stale(change, f"has replicas {_listed(now.replicas)} now")
    if gone := [broker_id for broker_id in change.replicas if broker_id in now.departing]:
        return _stale(change, f"would have a replica on {_removed(gone[0])}")
    return Judged(move=change, state=MoveState.DUE)


def judge(move: LeaderMove, now: MoveBasis | None) -> Judged:
    """The state of a move, from the present state `now` of its partition; None if the partition
    does not exist."""
    if now is None:
        return _stale(move, "is gone")
    if now.replicas == move.replicas and now.leader == move.to_broker:
        return Judged(move=move, state=MoveState.DONE)
    # Nobody completes a move that has begun but is not wanted any more.
    if now.is_pinned:
        return _stale(move, PINNED)
    if move.to_broker in now.departing:
        return _stale(move, f"would be led by {_removed(move.to_broker)}")
    # If the move does not change the order, the order does not show whether it has begun.
    if now.replicas == move.replicas != move.expected_replicas:
        return Judged(move=move, state=MoveState.ORDERED)
    obstacle = _obstacle(move, now)
    return _stale(move, obstacle) if obstacle else Judged(move=move, state=MoveState.DUE)


def _obstacle(move: LeaderMove, now: MoveBasis) -> str:
    """Why the move is stale, as the end of a sentence about its partition; empty if it is not."""
    if now.replicas != move.expected_replicas:
        return f"has replicas {_listed(now.replicas)} now"
    if now.leader_epoch != move.leader_epoch:
        return f"is in leader epoch {now.leader_epoch} now, not in {move.leader_epoch}"
    if now.leader is None:
        return "is offline"
    if move.to_broker not in now.isr:
        return f"would be led by broker {move.to_broker}, which is not in sync now"
    return ""


def _stale(move: Move, why: str) -> Judged:
    """The move as stale. `why` is the end of a sentence about its partition."""
    return Judged(move=move, state=MoveState.STALE, message=f"partition {move.name} {why}")


def _removed(broker_id: BrokerId) -> str:
    return f"broker {broker_id}, which is removed from the cluster"


def _listed(replicas: Iterable[BrokerId]) -> str:
    return ",".join(map(str, replicas))
