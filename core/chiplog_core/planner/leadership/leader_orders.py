"""Leader moves of an approved Rebalance: a new order of a partition's replicas, whose first leads.

The moves are in the status of the Rebalance, which its own control loop writes, and are carried out
while that status says Rebalancing. How far a move is follows from the state of its partition alone
(`rebalance.approval`); nothing else is stored. A move whose partition has changed otherwise in the
meantime is never made.

A move is one write of the map: order and leader together, over the version that was read. It is
made only if the present leader and the next one are both alive, so that producers hardly wait.
Until then the move waits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from chiplog_core.ids import PartitionEpoch, PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.pinned import pinned_partitions
from chiplog_core.observed.settings import Settings, paused
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.elections import (
    can_lead,
    changed,
    is_held,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.leadership.preferred import MAX_CONCURRENT_MOVES
from chiplog_core.rebalance.approval import MoveState, judge, move_basis
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.status import moves_of

Orders = Mapping[str, Mapping[PartitionIndex, LeaderMove]]
"""Topic name -> partition -> the move that this plan makes."""


def is_in_force(rebalance: Rebalance) -> bool:
    """Whether the Rebalance's proposal was approved and is being carried out."""
    status, metadata = rebalance.status, rebalance.metadata
    if status.state is not RebalanceState.REBALANCING or metadata.deletion_timestamp is not None:
        return False
    is_approved = (
        status.proposal is not None
        and status.moves is not None
        and status.moves.proposal == status.proposal.id
    )
    return is_approved and not paused(metadata)


def find_orders(world: World, settings: Settings, brokers: BrokerStates) -> Orders:
    """The leader moves that this plan makes: at most `MAX_CONCURRENT_MOVES`, and for each Rebalance
    at most its concurrentLeaderMovements."""
    if settings.cluster is None:
        return {}
    orders: dict[str, dict[PartitionIndex, LeaderMove]] = {}
    left_in_plan = MAX_CONCURRENT_MOVES
    for rebalance in world.rebalances:
        left_in_rebalance = min(left_in_plan, rebalance.spec.concurrent_leader_movements)
        for move in _possible(rebalance, world, brokers, settings.cluster):
            if left_in_rebalance <= 0:
                break
            of_topic = orders.setdefault(move.name.topic, {})
            if move.name.partition not in of_topic:
                of_topic[move.name.partition] = move
                left_in_rebalance, left_in_plan = left_in_rebalance - 1, left_in_plan - 1
    return orders


def order_all(spec: PartitionMapSpec, brokers: BrokerStates, orders: Orders) -> PartitionMapSpec:
    """The map after the leader moves in `orders` for its current generation."""
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


def _possible(
    rebalance: Rebalance, world: World, brokers: BrokerStates, cluster: BrokerCluster
) -> Iterator[LeaderMove]:
    """The moves of a Rebalance that can be made now; none if it is not being carried out. It does
    not move a partition that its Topic places."""
    if not is_in_force(rebalance) or rebalance.status.proposal is None:
        return
    pinned = pinned_partitions(world, cluster)
    for move in moves_of(rebalance.status.proposal):
        found = world.maps.get(move.name.topic)
        is_pinned = move.name.partition in pinned.get(move.name.topic, ())
        if found is None or found.spec.hibernated or is_pinned:
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
    """The generation after the leader moves `ordered` for its partitions."""
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
    if judge(move, move_basis(state)).state not in {MoveState.DUE, MoveState.ORDERED}:
        return state
    leader = _successor(state, move, topic_id, brokers)
    if leader is None:
        return state
    order = {broker_id: position for position, broker_id in enumerate(move.replicas)}
    isr = tuple(sorted(state.isr, key=lambda ref: order[ref.broker_id]))
    after = changed(replace(state, replicas=move.replicas), isr, leader, brokers)
    # `changed` does not raise the epoch if only the order of the replicas changes.
    if after.partition_epoch == state.partition_epoch:
        after = replace(after, partition_epoch=PartitionEpoch(state.partition_epoch + 1))
    return after


def _successor(
    state: PartitionState, move: LeaderMove, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef | None:
    """The leader after the move if it can take over from a live leader now, else None."""
    if state.leader is None or state.is_moving or is_held(state, brokers):
        return None
    if brokers.process_state(state.leader) is not ProcessState.ALIVE:
        return None
    candidate = next(
        (candidate for candidate in state.isr if candidate.broker_id == move.to_broker), None
    )
    if candidate is None or not can_lead(candidate, state, topic_id, brokers):
        return None
    return None if brokers.by_id[candidate.broker_id].is_leaving else candidate
