"""Who else has everything that is on a broker's volume, as a condition of deleting it.

A replica counts only if it is a member of the ISR in the present session of its broker, and that
session is alive, on the broker's disk, and in no doubt, and the broker's pod is ready. A member
that is dead, was restarted, is damaged or is stopping may look in sync in the map, but may be gone
as well; one whose volume claim is being deleted will be. Nothing is certain about a partition whose
maps or disks have yet to be compared (R6).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, ReplicaRef, TopicId
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.volume_losses import losing_volumes
from chiplog_core.planner.leadership.elections import can_lead, is_held
from chiplog_core.planner.rolls.rollout import is_serving


@dataclass(slots=True)
class Needs:
    """The partitions for which a broker's volume is needed, like `orders-0`."""

    last: list[str] = field(default_factory=list)
    """Those of which no other replica certainly has everything."""
    low: list[str] = field(default_factory=list)
    """Others that would have fewer in-sync replicas than min.insync.replicas."""
    led: list[str] = field(default_factory=list)
    """Others that the broker leads: until another replica does, the ISR may shrink to this one."""
    stuck: list[str] = field(default_factory=list)
    """Those of `led` that no other replica will take over, because their brokers are leaving,
    too."""


def find_needs(broker_id: BrokerId, world: World, brokers: BrokerStates) -> Needs:
    """The partitions for which the broker's volume is needed now."""
    needs, losing = Needs(), losing_volumes(world)
    for spec, topic_id, state in _states_on(broker_id, world):
        name = f"{spec.topic_name}-{state.partition}"
        others = [
            ref
            for ref in state.isr
            if ref.broker_id != broker_id
            and ref.broker_id not in losing
            and is_serving(world, brokers, ref.broker_id)
            and _is_certain(ref, state, topic_id, brokers)
        ]
        if not others or _is_unsettled(broker_id, state, brokers):
            needs.last.append(name)
        elif _is_alive_in_isr(broker_id, state, brokers) and len(others) < min(
            spec.min_isr, len(state.assigned) - 1
        ):
            needs.low.append(name)
        elif state.leader is not None and state.leader.broker_id == broker_id:
            needs.led.append(name)
            if all(brokers.by_id[ref.broker_id].is_leaving for ref in others):
                needs.stuck.append(name)
    return needs


def _states_on(
    broker_id: BrokerId, world: World
) -> Iterator[tuple[PartitionMapSpec, TopicId, PartitionState]]:
    """The partitions of which the broker may have data, in the order of their names."""
    for _, partition_map in sorted(world.maps.items()):
        for generation in partition_map.spec.generations:
            for state in generation.partitions:
                members = (ref.broker_id for ref in state.isr)
                if broker_id in state.holders or broker_id in members:
                    yield partition_map.spec, generation.topic_id, state


def _is_certain(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether this member of the ISR certainly has everything, and is there to stay."""
    return (
        can_lead(ref, state, topic_id, brokers)
        and brokers.by_id[ref.broker_id].is_in_session
        and ref not in brokers.stopping
        and ref.broker_id not in brokers.unchecked
    )


def _is_unsettled(broker_id: BrokerId, state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether something about the partition is still to be decided or proven: its leader, its
    newest metadata, or that the broker's old replica is not needed any more."""
    leader = state.leader
    if leader is None or brokers.process_state(leader) is not ProcessState.ALIVE:
        return True
    is_kept = any(
        one.broker == broker_id and one.removable_since is None for one in state.leftovers
    )
    return is_kept or is_held(state, brokers)


def _is_alive_in_isr(broker_id: BrokerId, state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether the broker is a member of the ISR, and alive."""
    return any(
        ref.broker_id == broker_id and brokers.process_state(ref) is ProcessState.ALIVE
        for ref in state.isr
    )
