"""The brokers between which a Rebalance can move load now."""

from collections import Counter

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker as BrokerObject
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import World
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.measured import Broker
from chiplog_core.topic_name import is_internal


def brokers_of(world: World) -> tuple[Broker, ...]:
    """All brokers that are not retired, by id. Those that serve and are not leaving are usable."""
    brokers = find_broker_states(world, awaiting_admission(world))
    limits = limits_of(world)
    internal = _internal_replicas(world)
    return tuple(
        Broker(
            broker_id=broker_id,
            rack=broker.rack,
            node=broker.node,
            is_usable=broker.may_lead and not broker.is_leaving,
            capacity=_capacity(world.brokers[broker_id], limits, internal[broker_id]),
        )
        for broker_id, broker in sorted(brokers.by_id.items())
        if not broker.is_retired
    )


def departing_brokers(world: World) -> frozenset[BrokerId]:
    """The brokers that are being removed, or were: the planner moves nothing to them."""
    return frozenset(
        broker_id
        for broker_id, broker in world.brokers.items()
        if broker.spec.retired or broker.spec.intent is BrokerIntent.REMOVE
    )


def limits_of(world: World) -> BrokerCapacity:
    """What each broker may hold (spec.brokerCapacity)."""
    found = None if world.cluster is None else world.cluster.spec.broker_capacity
    return found or BrokerCapacity()


def _internal_replicas(world: World) -> Counter[BrokerId]:
    """How many replicas of internal topics each broker has."""
    return Counter(
        broker_id
        for name, partition_map in world.maps.items()
        if is_internal(name)
        for generation in partition_map.spec.generations
        for state in generation.partitions
        for broker_id in state.replicas
    )


def _capacity(broker: BrokerObject, limits: BrokerCapacity, internal_replicas: int) -> Capacity:
    """The limits of a broker, whose volume is known if its process has reported it."""
    directory = next(iter(broker.status.directories), None)
    return Capacity(
        max_replicas=limits.max_replicas,
        internal_replicas=internal_replicas,
        max_disk_percent=limits.max_disk_percent,
        total_bytes=None if directory is None else directory.total_bytes,
        free_bytes=None if directory is None else directory.usable_bytes,
        log_bytes=None if directory is None else directory.log_bytes,
    )
