"""Which brokers may hold data that is not certainly elsewhere.

Before a broker is retired, and before its volume is deleted, nothing may name it: no map, and no
report that is newer than its map.
"""

from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.regression import is_above
from chiplog_core.planner.moves.reassignment import states_of


def holding(world: World, brokers: BrokerStates) -> frozenset[BrokerId]:
    """The brokers that hold data of a partition, or are alive and have data to delete.

    A dead broker is not waited for to delete what may go: it may be gone for good.
    """
    holding: set[BrokerId] = set()
    deleting: set[BrokerId] = set()
    for partition_map in world.maps.values():
        for generation in partition_map.spec.generations:
            for state in generation.partitions:
                holding.update(state.replicas)
                holding.update(ref.broker_id for ref in state.isr)
                holding.update(one.broker for one in state.leftovers if one.removable_since is None)
        for tombstone in partition_map.spec.tombstones:
            deleting.update(set(tombstone.brokers) - set(tombstone.confirmed))
    dead = {
        broker_id
        for broker_id in deleting
        if (broker := brokers.by_id.get(broker_id)) is None
        or broker.process_state is ProcessState.GONE
    }
    return frozenset(holding | (deleting - dead))


def named_by_newer_reports(world: World) -> frozenset[BrokerId]:
    """The brokers that report a newer state of a partition than its map has, and the replicas that
    such a report names: maps that went back do not name all who hold data."""
    states: dict[tuple[TopicId, PartitionIndex], PartitionState] = {}
    buried: set[TopicId] = set()
    for partition_map in world.maps.values():
        states |= states_of(partition_map.spec)
        buried |= {tombstone.topic_id for tombstone in partition_map.spec.tombstones}
    named: set[BrokerId] = set()
    for broker_id, broker in world.brokers.items():
        for report in broker.status.replica_reports:
            state = states.get((report.topic_id, report.partition))
            if report.topic_id in buried or (state is not None and not is_above(report, state)):
                continue
            named.update((broker_id, *report.replicas))
            named.update(ref.broker_id for ref in report.isr)
            named.update(one.broker for one in report.leftovers)
    return frozenset(named)
