"""The throttles of replication in Broker objects and PartitionMaps.

A broker's configuration has two kinds: the rates that Kafka's clients have set for it, which stay
until a client removes them, and the rate of all moves, from `spec.replicationThrottle`. Brokers
find the replicas that move in the maps, so nothing is to be removed when a move ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chiplog_core.admin.client_keys import clients_part
from chiplog_core.config.broker_keys import MOVES_THROTTLED_RATE
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.observed.pinned import pinned_partitions
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.leader_orders import is_in_force
from chiplog_core.rebalance.approval import MoveState, judge_change, move_bases
from chiplog_core.rebalance.status import changes_of
from chiplog_core.rebalance.usable_brokers import departing_brokers


@dataclass(frozen=True, slots=True)
class ClientThrottles:
    """The throttles that this plan writes because clients requested them."""

    of_topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Topic name -> all that its map has of the clients' keys."""
    of_brokers: Mapping[BrokerId, Mapping[str, str]] = field(default_factory=dict)
    """Broker id -> all that its configuration has of the clients' keys."""


def throttled_map(spec: PartitionMapSpec, throttles: ClientThrottles) -> PartitionMapSpec:
    """The map with the lists of throttled replicas that clients requested."""
    wanted = throttles.of_topics.get(spec.topic_name)
    if wanted is None or spec.current is None:
        return spec
    return replace(spec, client_config=wanted)


def throttled_broker(spec: BrokerSpec, throttles: ClientThrottles) -> BrokerSpec:
    """The broker with the rates that clients requested."""
    wanted = throttles.of_brokers.get(spec.broker_id)
    if wanted is None or spec.retired:
        return spec
    present = clients_part(spec.config)
    others = {name: value for name, value in spec.config.items() if name not in present}
    return replace(spec, config={**others, **wanted})


def throttle_config(
    world: World, cluster: BrokerCluster, present: Mapping[str, str]
) -> dict[str, str]:
    """The throttles in a broker's configuration; `present` is its configuration so far."""
    key = MOVES_THROTTLED_RATE
    rate = present.get(key.name)
    if world.is_complete:
        moves = moves_rate(world, cluster)
        rate = None if moves is None else key.format(moves)
    return clients_part(present) | ({} if rate is None else {key.name: rate})


def moves_rate(world: World, cluster: BrokerCluster) -> int | None:
    """The limit for moves of replicas, in bytes per second on each broker; None for no limit.

    A Rebalance that moves replicas now overrides the cluster's; of several, the lowest counts.
    """
    of_rebalances = [
        rate
        for rebalance in world.rebalances
        if (rate := rebalance.spec.replication_throttle) is not None
        and _moves_replicas(rebalance, world, cluster)
    ]
    return min(of_rebalances, default=cluster.spec.replication_throttle)


def _moves_replicas(rebalance: Rebalance, world: World, cluster: BrokerCluster) -> bool:
    """Whether the Rebalance has replicas to move that are not moved yet."""
    proposal = rebalance.status.proposal
    if not is_in_force(rebalance) or proposal is None:
        return False
    topics = proposal.moved_topics
    bases = move_bases(
        (partition_map.spec for name, partition_map in world.maps.items() if name in topics),
        pinned_partitions(world, cluster),
        departing_brokers(world),
    )
    return any(
        judge_change(change, bases.get(change.name)).state in {MoveState.DUE, MoveState.ORDERED}
        for change in changes_of(proposal)
    )
