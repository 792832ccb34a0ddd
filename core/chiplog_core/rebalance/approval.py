"""Whether what a proposal says still holds, when it is approved and while it is carried out.

A leader move is made for one state of the map: it holds while the partition's leader epoch and the
order of its replicas are what they were. Who carries moves out asks again with every map it sees:
a move that is on its way or done is known by the order that it made, so nothing has to be
remembered about what was sent.

- On approval: `approve`. If any move does not hold any more, nothing is done and the figures are
  to be measured again: the annotation `refresh`.
- While it is carried out: `judge` of each move and each new state of its partition. `DUE` and
  `ORDERED` moves are to be done (the order set, the first replica made leader if it is in the
  ISR), `DONE` ones are done, `STALE` ones are left out and reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import PartitionName


class MoveState(StrEnum):
    """How far a leader move is."""

    DUE = "Due"
    """The partition is as it was when the move was proposed, and can be led as proposed."""
    ORDERED = "Ordered"
    """The order of the replicas is the new one; another replica leads yet."""
    DONE = "Done"
    STALE = "Stale"
    """The partition is another than the one that the move was proposed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a partition's state says that a move depends on."""

    replicas: tuple[BrokerId, ...]
    isr: frozenset[BrokerId]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A move, how far it is, and why."""

    move: LeaderMove
    state: MoveState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What becomes of a proposal that is approved now."""

    to_do: tuple[LeaderMove, ...]
    stale: tuple[Judged, ...]
    """Not empty: nothing is done."""

    @property
    def is_refused(self) -> bool:
        return bool(self.stale)

    @property
    def message(self) -> str:
        """Why the proposal is refused, and what to do."""
        if not self.stale:
            return ""
        more = f" (and {len(self.stale) - 1} more)" if len(self.stale) > 1 else ""
        return (
            f"{self.stale[0].message}{more}: the proposal is outdated; set the annotation "
            "chiplog.dev/rebalance to refresh to measure again"
        )


Standings = Mapping[PartitionName, Standing]


def standings(maps: Iterable[PartitionMapSpec]) -> dict[PartitionName, Standing]:
    """What moves depend on, for every current partition."""
    return {
        PartitionName(spec.topic_name, state.partition): standing(state)
        for spec in maps
        for generation in spec.generations
        if generation.topic_id == spec.current
        for state in generation.partitions
    }


def standing(state: PartitionState) -> Standing:
    """What moves depend on, for one partition."""
    return Standing(
        replicas=state.replicas,
        isr=frozenset(ref.broker_id for ref in state.isr),
        leader=state.leader.broker_id if state.leader else None,
        leader_epoch=state.leader_epoch,
    )


def approve(moves: Iterable[LeaderMove], now: Standings) -> Approval:
    """The moves of a proposal that are still to do. If any is stale, the whole proposal is
    refused."""
    judged = [judge(move, now.get(move.name)) for move in moves]
    return Approval(
        to_do=tuple(
            judged_move.move
            for judged_move in judged
            if judged_move.state in {MoveState.DUE, MoveState.ORDERED}
        ),
        stale=tuple(judged_move for judged_move in judged if judged_move.state is MoveState.STALE),
    )


def judge(move: LeaderMove, now: Standing | None) -> Judged:
    """How far a move is, from the state of its partition; `now` is None if there is no such
    partition."""
    if now is None:
        return _stale(move, "is gone")
    if now.replicas == move.replicas and now.leader == move.to_broker:
        return Judged(move=move, state=MoveState.DONE)
    if now.replicas == move.replicas != move.expected_replicas:
        return Judged(move=move, state=MoveState.ORDERED)
    obstacle = _obstacle(move, now)
    return _stale(move, obstacle) if obstacle else Judged(move=move, state=MoveState.DUE)


def _obstacle(move: LeaderMove, now: Standing) -> str:
    """Why the move cannot be made any more; empty if it can."""
    if now.replicas != move.expected_replicas:
        return f"has replicas {_listed(now.replicas)} now"
    if now.leader_epoch != move.leader_epoch:
        return f"is in leader epoch {now.leader_epoch} now, not in {move.leader_epoch}"
    if now.leader is None:
        return "is offline"
    if move.to_broker not in now.isr:
        return f"would be led by broker {move.to_broker}, which is not in sync now"
    return ""


def _stale(move: LeaderMove, why: str) -> Judged:
    return Judged(move=move, state=MoveState.STALE, message=f"partition {move.name} {why}")


def _listed(replicas: Iterable[BrokerId]) -> str:
    return ",".join(map(str, replicas))
