"""Placement by hand: on which brokers a Topic wants which partitions, and why they cannot be there.

`spec.assignments` is a standing order: new partitions are created there, existing ones move there,
and nothing else moves them. An entry that names a broker that does not exist or is being removed is
not in force: its partition is treated like one that is not named. One that names a broker that is
only down stays in force and waits for it.

`spec.initialAssignments` is for the creation of partitions only.
"""

from collections.abc import Iterable, Mapping, Sequence

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.topic import Assignment, TopicSpec
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World

Target = tuple[BrokerId, ...]
Placements = Mapping[PartitionIndex, Target]
"""Partition -> the brokers of its replicas, the preferred leader first."""

Brokers = Mapping[BrokerId, Broker]

NOWHERE: Placements = {}

MAX_SHOWN = 5
"""How many partitions a message names."""


def placements(assignments: Iterable[Assignment]) -> Placements:
    """The entries of a field of a Topic, by partition."""
    return {assignment.partition: assignment.replicas for assignment in assignments}


def creations(spec: TopicSpec) -> Placements:
    """On which brokers the Topic wants partitions to be created, for those that it names."""
    if not spec.assignments and not spec.initial_assignments:
        return NOWHERE
    return {**placements(spec.initial_assignments), **placements(spec.assignments)}


def in_force(spec: TopicSpec, brokers: Brokers) -> Placements:
    """The assignments of a Topic whose brokers all exist and stay."""
    return {
        assignment.partition: assignment.replicas
        for assignment in spec.assignments
        if not any(why_no_place(broker_id, brokers) for broker_id in assignment.replicas)
    }


def why_no_place(broker_id: BrokerId, brokers: Brokers) -> str:
    """Why no replica can be placed on the broker, ever; empty if it can, maybe later."""
    broker = brokers.get(broker_id)
    if broker is None:
        return f"there is no broker {broker_id}"
    if broker.spec.retired:
        return f"broker {broker_id} was removed"
    if broker.spec.intent is BrokerIntent.REMOVE:
        return f"broker {broker_id} is being removed"
    return ""


def why_not_placed(
    spec: TopicSpec, partitions: Sequence[PartitionState], world: World, states: BrokerStates
) -> str:
    """Why partitions are not, or will not stay, where spec.assignments wants them; empty if they
    are there or can move there."""
    existing = {state.partition: state for state in partitions}
    return shown(
        (assignment.partition, why)
        for assignment in sorted(spec.assignments, key=lambda one: one.partition)
        if (why := _why_not(assignment, existing.get(assignment.partition), world.brokers, states))
    )


def _why_not(
    assignment: Assignment, state: PartitionState | None, brokers: Brokers, states: BrokerStates
) -> str:
    """Why the partition is not where its assignment wants it; empty if it is, or can move there.
    `state` is None if there is no such partition."""
    for broker_id in assignment.replicas:
        if why := why_no_place(broker_id, brokers):
            return why
    if state is None:
        return "the topic has no such partition"
    for broker_id in assignment.replicas:
        is_missing = broker_id not in state.replicas or broker_id in state.adding
        if is_missing and states.by_id[broker_id].process_state is not ProcessState.ALIVE:
            return f"broker {broker_id} is not running"
    return ""


def shown(reasons: Iterable[tuple[PartitionIndex, str]]) -> str:
    """The reasons as a message shows them, those of the first partitions; empty if there are
    none."""
    found = [f"partition {partition}: {why}" for partition, why in reasons]
    more = [f"and {len(found) - MAX_SHOWN} more"] if len(found) > MAX_SHOWN else []
    return "; ".join([*found[:MAX_SHOWN], *more])
