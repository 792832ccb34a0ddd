"""Brokers under maintenance: spec.maintenance.

The operator gives them the intent `Drain`: others lead, and nothing new is placed on them. It does
not restart or remove them, and a rolling restart does not wait for them.
"""

from collections.abc import Iterator, Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster, Maintenance
from chiplog_core.model.conditions import ConditionType, Verdict
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.verdicts import brokers_named, holds
from chiplog_core.observed.world import World

UNDER_WAY = "LeadershipsMoving"
LEADING_NOTHING = "LeadingNothing"
UNKNOWN_BROKERS = "UnknownBrokers"


def under_maintenance(cluster: BrokerCluster | None) -> frozenset[BrokerId]:
    """The brokers that the spec lists, whether they exist or not."""
    if cluster is None:
        return frozenset()
    return frozenset((cluster.spec.maintenance or Maintenance()).brokers)


def maintenance_verdicts(world: World, cluster: BrokerCluster | None) -> Iterator[Verdict]:
    """The condition Maintenance, while the spec lists brokers, and a warning for ids of none."""
    listed = under_maintenance(cluster)
    existing = sorted(
        one for one in listed if one in world.brokers and not world.brokers[one].spec.retired
    )
    if existing:
        yield _maintenance(world, existing)
    if unknown := sorted(listed.difference(existing)):
        message = (
            f"spec.maintenance.brokers lists {brokers_named(unknown)}, which the cluster does not "
            "have: correct the list"
        )
        yield holds(ConditionType.WARNING, UNKNOWN_BROKERS, message)


def _maintenance(world: World, existing: list[BrokerId]) -> Verdict:
    """The condition about brokers that exist."""
    led = _partitions_led(world.maps, frozenset(existing))
    named = f"{brokers_named(existing)} under maintenance"
    if not led:
        return holds(ConditionType.MAINTENANCE, LEADING_NOTHING, f"{named}, leading no partition")
    partitions = "1 partition" if led == 1 else f"{led} partitions"
    message = f"{named}, still leading {partitions}, where no other replica is in sync yet"
    return holds(ConditionType.MAINTENANCE, UNDER_WAY, message)


def _partitions_led(maps: Mapping[str, PartitionMap], brokers: frozenset[BrokerId]) -> int:
    """How many partitions these brokers lead."""
    return sum(
        state.leader is not None and state.leader.broker_id in brokers
        for partition_map in maps.values()
        for state in partition_map.spec.current_partitions
    )
