"""Leaderships back to the first of the replicas, where the placement wants them.

By itself it happens only while the whole cluster is at rest, and has been for some time by the
cluster's published condition: a broker that comes and goes never gets that far. It is done in
small steps, since every move interrupts its partition for a moment. An admin client may ask for
single partitions at any time.
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
from chiplog_core.planner.elections import (
    can_lead,
    changed,
    is_held,
    with_generations,
    with_partitions,
)

REST = timedelta(seconds=30)
"""How long everything must have been in sync before leaderships move on their own."""

MAX_CONCURRENT_MOVES = 50
"""Leaderships that move on their own in one plan."""

Requested = Mapping[TopicId, Collection[PartitionIndex]]


@dataclass(slots=True)
class Moves:
    """What may still be moved in this plan."""

    requested: Requested = field(default_factory=dict)
    """What admin clients asked for."""
    left: int = 0
    """How many more may move on their own."""
    requeue_after_ms: int | None = None
    """When the cluster will have been at rest for long enough."""


def find_moves(
    world: World, counts: Counts, now: datetime, requested: Requested, *, is_rolling: bool
) -> Moves:
    """How many leaderships may move to their preferred leaders now, or when they may."""
    is_at_rest = not (counts.offline or counts.under_replicated or counts.questioned)
    if is_rolling or not is_at_rest or not counts.elsewhere:
        return Moves(requested)
    since = _at_rest_since(world)
    if since is None:
        return Moves(requested)
    missing = since + REST - now
    if missing > timedelta():
        return Moves(requested, requeue_after_ms=missing // timedelta(milliseconds=1) + 1)
    return Moves(requested, left=MAX_CONCURRENT_MOVES)


def prefer_all(spec: PartitionMapSpec, brokers: BrokerStates, moves: Moves) -> PartitionMapSpec:
    """The map after moves to preferred leaders, as far as `moves` allows them."""
    if spec.hibernated or not (moves.left or moves.requested):
        return spec
    generations = tuple(
        generation if generation.trash_until else _preferred_in(generation, brokers, moves)
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def preferred(state: PartitionState, topic_id: TopicId, brokers: BrokerStates) -> ReplicaRef | None:
    """The preferred leader, if it can take over now; None also if it leads already."""
    leader, first = state.leader, state.replicas[0]
    if leader is None or leader.broker_id == first or is_held(state, brokers):
        return None
    if brokers.process_state(leader) is not ProcessState.ALIVE:
        return None
    ref = next((ref for ref in state.isr if ref.broker_id == first), None)
    if ref is None or not can_lead(ref, state, topic_id, brokers):
        return None
    return None if brokers.by_id[first].is_leaving else ref


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
                moves.left -= moves.left > 0 and state.partition not in requested
        partitions.append(after)
    return with_partitions(generation, tuple(partitions))


def _at_rest_since(world: World) -> datetime | None:
    """The time since which the cluster is stable, from published conditions, which survive a
    restart of the operator."""
    if world.cluster is None:
        return None
    for condition in world.cluster.status.conditions:
        if condition.type == ConditionType.QUIESCED:
            is_true = condition.status is ConditionStatus.TRUE
            return condition.last_transition_time if is_true else None
    return None
