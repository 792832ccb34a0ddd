"""Leaderships that an approved Rebalance moves: another order of replicas, whose first one leads.

The order stands in the status of the Rebalance, where its own loop writes it when the proposal is
approved, and is in force while that status says Rebalancing. Nothing is remembered of what was
done: how far a move is, the state of its partition says (`rebalance.approval`), and a move whose
partition has become another one is left alone for good.

A move is one write of the map: order and leader together, over the very version that was read. The
leader is alive, and so does the member of the ISR that follows it: no record waits for anybody.
Where that is not so yet, the move waits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from chiplog_core.ids import PartitionEpoch, PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.settings import Settings, paused
from chiplog_core.observed.world import World
from chiplog_core.planner.elections import (
    can_lead,
    changed,
    is_held,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.preferred import MAX_CONCURRENT_MOVES
from chiplog_core.rebalance.approval import MoveState, judge, standing
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.status import moves_of

Orders = Mapping[str, Mapping[PartitionIndex, LeaderMove]]
"""What is to be moved by this plan, by topic name."""


def is_in_force(rebalance: Rebalance) -> bool:
    """Whether the Rebalance's proposal was approved and is being carried out."""
    status, about = rebalance.status, rebalance.metadata
    if status.state is not RebalanceState.REBALANCING or about.deletion_timestamp is not None:
        return False
    is_approved = (
        status.proposal is not None
        and status.moves is not None
        and status.moves.proposal == status.proposal.id
    )
    return is_approved and not paused(about)


def find_orders(world: World, settings: Settings, brokers: BrokerStates) -> Orders:
    """The leader moves that can be made now, a limited number at a time."""
    if settings.cluster is None:
        return {}
    orders: dict[str, dict[PartitionIndex, LeaderMove]] = {}
    left = MAX_CONCURRENT_MOVES
    for rebalance in world.rebalances:
        allowed = min(left, rebalance.spec.concurrent_leader_movements)
        for move in _possible(rebalance, world, brokers):
            if allowed <= 0:
                break
            of_topic = orders.setdefault(move.name.topic, {})
            if move.name.partition not in of_topic:
                of_topic[move.name.partition] = move
                allowed, left = allowed - 1, left - 1
    return orders


def order_all(spec: PartitionMapSpec, brokers: BrokerStates, orders: Orders) -> PartitionMapSpec:
    """The map after the leader moves that are ordered for it."""
    ordered = orders.get(spec.topic_name)
    if not ordered:
        return spec
    generations = tuple(
        _with_orders(generation, brokers, ordered)
        if generation.topic_id == spec.current
        else generation
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def _possible(rebalance: Rebalance, world: World, brokers: BrokerStates) -> Iterator[LeaderMove]:
    """The moves of a Rebalance that can be made now."""
    if not is_in_force(rebalance) or rebalance.status.proposal is None:
        return
    for move in moves_of(rebalance.status.proposal):
        found = world.maps.get(move.name.topic)
        if found is None or found.spec.hibernated:
            continue
        generation = found.spec.current_generation
        if generation is None:
            continue
        state = generation.state_of(move.name.partition)
        if state is not None:
            moved = _moved(state, move, generation.topic_id, brokers)
            if moved is not state:
                yield move


def _with_orders(
    generation: Generation, brokers: BrokerStates, ordered: Mapping[PartitionIndex, LeaderMove]
) -> Generation:
    """The generation after the leader moves that are ordered for its partitions."""
    partitions = tuple(
        _moved(state, ordered[state.partition], generation.topic_id, brokers)
        if state.partition in ordered
        else state
        for state in generation.partitions
    )
    return with_partitions(generation, partitions)


def _moved(
    state: PartitionState, move: LeaderMove, topic_id: TopicId, brokers: BrokerStates
) -> PartitionState:
    """The partition with the order and the leader of the move; the same object if the move
    cannot be made now."""
    if judge(move, standing(state)).state not in {MoveState.DUE, MoveState.ORDERED}:
        return state
    leader = _successor(state, move, topic_id, brokers)
    if leader is None:
        return state
    order = {broker_id: number for number, broker_id in enumerate(move.replicas)}
    isr = tuple(sorted(state.isr, key=lambda ref: order[ref.broker_id]))
    after = changed(replace(state, replicas=move.replicas), isr, leader, brokers)
    if after.partition_epoch == state.partition_epoch:  # only the order of replicas changes
        after = replace(after, partition_epoch=PartitionEpoch(state.partition_epoch + 1))
    return after


def _successor(
    state: PartitionState, move: LeaderMove, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef | None:
    """The leader after the move, if it can take over now from a live leader; else None."""
    is_being_moved = bool(state.adding or state.removing)
    if state.leader is None or is_being_moved or is_held(state, brokers):
        return None
    if brokers.process_state(state.leader) is not ProcessState.ALIVE:
        return None
    ref = next((ref for ref in state.isr if ref.broker_id == move.to_broker), None)
    if ref is None or not can_lead(ref, state, topic_id, brokers):
        return None
    return None if brokers.by_id[ref.broker_id].is_leaving else ref
