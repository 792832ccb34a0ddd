"""Replica moves of an approved Rebalance: on which brokers it wants the replicas of a partition.

Like its leader moves (`leader_orders`), they are in the status of the Rebalance, and how far each
is follows from the state of its partition alone. They begin when its leader moves are done, so many
at a time as the Rebalance allows; `wanted_replicas` begins them, like all moves that specs ask for.
If the Rebalance is stopped, moves that have begun are completed; `kafka-reassign-partitions.sh
--cancel` takes them back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.observed.pinned import pinned_partitions
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.leader_orders import is_in_force
from chiplog_core.rebalance.approval import MoveState, judge_all, move_bases
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.replicas import ReplicaChange
from chiplog_core.rebalance.status import changes_of, moves_of
from chiplog_core.rebalance.usable_brokers import departing_brokers


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """Where the replicas of a partition should be."""

    target: tuple[BrokerId, ...]
    max_copies: int | None = None
    """How many partitions a broker may copy at a time because of this Rebalance; None for the
    default."""


ReplicaOrders = Mapping[str, Mapping[PartitionIndex, ReplicaOrder]]
"""Topic name -> partition -> the order of a Rebalance that can begin now."""


def find_replica_orders(world: World, settings: Settings) -> ReplicaOrders:
    """The replica moves of all approved Rebalances that can begin now."""
    if settings.cluster is None:
        return {}
    orders: dict[str, dict[PartitionIndex, ReplicaOrder]] = {}
    for rebalance in world.rebalances:
        for change in _due(rebalance, world, settings.cluster):
            order = ReplicaOrder(
                change.replicas, rebalance.spec.concurrent_partition_movements_per_broker
            )
            orders.setdefault(change.name.topic, {}).setdefault(change.name.partition, order)
    return orders


def _due(rebalance: Rebalance, world: World, cluster: BrokerCluster) -> Iterator[ReplicaChange]:
    """The changes of a Rebalance that can begin; none while a leader move is to be made."""
    proposal = rebalance.status.proposal
    if not is_in_force(rebalance) or proposal is None or not proposal.replica_moves:
        return
    topics = proposal.moved_topics
    bases = move_bases(
        (partition_map.spec for name, partition_map in world.maps.items() if name in topics),
        pinned_partitions(world, cluster),
        departing_brokers(world),
    )
    judged = judge_all(moves_of(proposal), changes_of(proposal), bases)
    open_states = {MoveState.DUE, MoveState.ORDERED}
    if any(one.state in open_states and isinstance(one.move, LeaderMove) for one in judged):
        return
    for one in judged:
        if one.state is MoveState.DUE and isinstance(one.move, ReplicaChange):
            yield one.move
