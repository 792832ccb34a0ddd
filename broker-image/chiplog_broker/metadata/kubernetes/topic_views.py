"""The view of a topic for clients and replicas of one broker, derived from its PartitionMap.

A leader or an in-sync replica counts only in the session that the map names (R1). A process knows
its own session; the sessions of others are in their Broker objects.
"""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from chiplog_broker.metadata.view import NO_EPOCH, NO_LEADER, PartitionView, TopicView
from chiplog_core.config.effective import TopicConfig
from chiplog_core.ids import (
    NEVER_ADMITTED,
    BrokerId,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    TopicId,
)
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.topic_name import is_internal


def current_generation(spec: PartitionMapSpec) -> Generation | None:
    """The present generation of the name; None if there is no such topic."""
    return next(
        (generation for generation in spec.generations if generation.topic_id == spec.current), None
    )


def uuid_of(topic_id: TopicId) -> UUID:
    return UUID(bytes=topic_id.value)


def topic_view(spec: PartitionMapSpec, live: frozenset[ReplicaRef]) -> TopicView | None:
    """The view of a topic, given the live brokers; None if there is no such topic."""
    generation = current_generation(spec)
    if generation is None:
        return None
    live_by_broker = {broker.broker_id: broker for broker in live}
    return TopicView(
        spec.topic_name,
        uuid_of(generation.topic_id),
        tuple(_partition_view(partition, live_by_broker) for partition in generation.partitions),
        TopicConfig({**spec.config, **spec.client_config}, spec.inherited_config),
        is_internal(spec.topic_name),
        spec.min_isr,
        spec.durability,
        spec.owner_uid,
    )


def _partition_view(
    state: PartitionState, live_by_broker: Mapping[BrokerId, ReplicaRef]
) -> PartitionView:
    """The view of one partition. A leader or in-sync replica from an earlier session of its broker
    counts as not alive."""
    leader = state.leader
    if leader is not None and live_by_broker.get(leader.broker_id) != leader:
        leader = None
    in_sync = [replica for replica in state.isr if live_by_broker.get(replica.broker_id) == replica]
    return PartitionView(
        state.partition,
        leader.broker_id if leader else NO_LEADER,
        state.leader_epoch,
        state.replicas,
        tuple(replica.broker_id for replica in in_sync),
        tuple(replica.broker_id for replica in state.isr if replica not in in_sync),
        state.partition_epoch,
        leader.session if leader else NEVER_ADMITTED,
        state.isr,
        tuple(live_by_broker[replica] for replica in state.replicas if replica in live_by_broker),
        NO_EPOCH if state.unclean_epoch is None else state.unclean_epoch,
        state.adding,
        state.removing,
        any(leftover.removable_since is None for leftover in state.leftovers),
    )


def held_by(generation: Generation, broker_id: BrokerId) -> list[PartitionState]:
    """The partitions of this generation of a topic of which the broker has a replica."""
    return [partition for partition in generation.partitions if broker_id in partition.replicas]


def named_by(states: Iterable[PartitionState], broker_id: BrokerId) -> list[PartitionState]:
    """The partitions of which the broker has a replica, or data of one that was moved away."""
    return [state for state in states if broker_id in state.holders]


def ordered_removals(
    spec: PartitionMapSpec, broker_id: BrokerId
) -> Iterator[tuple[TopicId, PartitionIndex, PartitionEpoch]]:
    """The partitions whose data the map orders the broker to delete, with their topic ids, and the
    partitionEpoch of each order."""
    for generation in spec.generations:
        for state in generation.partitions:
            for leftover in state.leftovers:
                if leftover.broker == broker_id and leftover.removable_since is not None:
                    yield generation.topic_id, state.partition, leftover.removable_since


def holds_any(spec: PartitionMapSpec, broker_id: BrokerId) -> bool:
    """Whether a broker has a replica of any generation, or data of one that was moved away."""
    return any(named_by(generation.partitions, broker_id) for generation in spec.generations)
