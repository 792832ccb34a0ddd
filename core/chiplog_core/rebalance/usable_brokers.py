"""The brokers between which a Rebalance can move load now."""

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import World
from chiplog_core.rebalance.measured import Broker


def brokers_of(world: World) -> tuple[Broker, ...]:
    """All brokers that are not retired, by id. Those that serve and are not leaving are usable."""
    brokers = find_broker_states(world, awaiting_admission(world))
    return tuple(
        Broker(
            broker_id=broker_id,
            rack=broker.rack,
            is_usable=broker.may_lead and not broker.is_leaving,
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
