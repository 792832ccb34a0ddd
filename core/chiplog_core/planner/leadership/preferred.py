"""Moves leaderships back to preferred leaders, which are the first replicas of their partitions.

Automatic moves happen only after the whole cluster has been quiesced for some time, as its
published condition Quiesced says, so that a broker that restarts again and again gets none. They
are made in small steps, since every move interrupts its partition for a moment. An admin client may
request the preferred leaders of single partitions at any time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from chiplog_core.ids import PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.conditions import ConditionStatus, ConditionType
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.leadership.elections import (
    can_lead,
    changed,
    is_held,
    with_generations,
    with_partitions,
)

REST = timedelta(seconds=30)
"""How long the cluster must have been quiesced before leaderships are moved automatically."""

MAX_CONCURRENT_MOVES = 50
"""How many leaderships one plan moves at most."""

Requested = Mapping[TopicId, Collection[PartitionIndex]]
"""Partitions for which admin clients request their preferred leader."""


@dataclass(slots=True)
class Moves:
    """The moves to preferred leaders that this plan may still make."""

    requested: Requested = field(default_factory=dict)
    """Moves that admin clients requested. They are not limited."""
    left: int = 0
    """How many more automatic moves may be made."""
    requeue_after_ms: int | None = None
    """In how many milliseconds the cluster will have been quiesced for long enough."""


def find_moves(
    world: World, counts: Counts, now: datetime, requested: Requested, *, is_rolling: bool
) -> Moves:
    """How many leaderships may move to their preferred leaders now, or when they may.

    `requested` are the moves that admin clients ask for: they are always allowed. If `is_rolling`,
    brokers are about to be restarted, so no other leadership moves.
    """
    is_at_rest = not (counts.offline or counts.under_replicated or counts.awaiting_reports)
    if is_rolling or not is_at_rest or not counts.not_preferred:
        return Moves(requested)
    quiesced_at = _quiesced_at(world)
    if quiesced_at is None:
        return Moves(requested)
    remaining = quiesced_at + REST - now
    if remaining > timedelta():
        return Moves(requested, requeue_after_ms=remaining // timedelta(milliseconds=1) + 1)
    return Moves(requested, left=MAX_CONCURRENT_MOVES)


def prefer_all(spec: PartitionMapSpec, brokers: BrokerStates, moves: Moves) -> PartitionMapSpec:
    """The map after moves to preferred leaders, as far as `moves` allows them. Its `left` is
    reduced by the automatic moves made here."""
    if spec.hibernated or not (moves.left or moves.requested):
        return spec
    generations = tuple(
        generation if generation.trash_until else _preferred_in(generation, brokers, moves)
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def preferred(state: PartitionState, topic_id: TopicId, brokers: BrokerStates) -> ReplicaRef | None:
    """The preferred leader, if it can take over from a live leader now; None if it leads already or
    cannot."""
    leader, first = state.leader, state.replicas[0]
    if leader is None or leader.broker_id == first or is_held(state, brokers):
        return None
    if state.is_moving:
        return None  # the switch to the target replicas changes the leader
    if brokers.process_state(leader) is not ProcessState.ALIVE:
        return None
    candidate = next((ref for ref in state.isr if ref.broker_id == first), None)
    if candidate is None or not can_lead(candidate, state, topic_id, brokers):
        return None
    return None if brokers.by_id[first].is_leaving else candidate


def _preferred_in(generation: Generation, brokers: BrokerStates, moves: Moves) -> Generation:
    """The generation after moves to preferred leaders."""
    topic_id = generation.topic_id
    requested = moves.requested.get(topic_id, ())
    partitions = []
    for state in generation.partitions:
        after = state
        if moves.left or state.partition in requested:
            leader = preferred(state, topic_id, brokers)
            if leader is not None:
                after = changed(state, state.isr, leader, brokers)
                # A requested move is not counted against the limit of automatic ones.
                moves.left -= moves.left > 0 and state.partition not in requested
        partitions.append(after)
    return with_partitions(generation, tuple(partitions))


def _quiesced_at(world: World) -> datetime | None:
    """When the condition Quiesced became True; None if it is not True.

    The published condition is used because it survives a restart of the operator.
    """
    if world.cluster is None:
        return None
    for condition in world.cluster.status.conditions:
        if condition.type == ConditionType.QUIESCED:
            is_true = condition.status is ConditionStatus.TRUE
            return condition.last_transition_time if is_true else None
    return None
