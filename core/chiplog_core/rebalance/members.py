"""Between which brokers a load can be evened out now."""

from chiplog_core.observed.members import find_members
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.world import World
from chiplog_core.rebalance.measured import Broker


def brokers_of(world: World) -> tuple[Broker, ...]:
    """All that were not retired, by id; usable are those that serve and are to stay."""
    members = find_members(world, awaiting_admission(world))
    return tuple(
        Broker(
            broker_id=broker_id,
            rack=member.rack,
            is_usable=member.may_lead and not member.is_leaving,
        )
        for broker_id, member in sorted(members.of.items())
        if not member.is_retired
    )
