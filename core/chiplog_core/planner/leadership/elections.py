"""Elects leaders and updates ISRs (R2, R3, R4).

Each partition is decided from its state and the states of the brokers, in this order:
1. A member of the ISR that was fenced, but whose process still runs, is listed in its new session.
2. Members that are dead or were restarted leave the ISR, unless fewer than the floor would be left
   alive. The floor is min ISR, or the size of the ISR if that is smaller.
3. Members that are damaged or whose disk failed leave it, then members that are stopping, unless
   fewer than the floor could lead without them.
4. The leader stays if it can; else the first replica in the ISR that can lead becomes the leader.

The leaders' proposals for their ISRs are decided before (`proposals`), so that a proposal is
compared with the observed map.

A restarted broker is in sync only when its leader proposes it: its disk may lack records that its
last process acknowledged. If no member's process kept running, nobody can be elected. Then the
replicas are asked for reports of their disks (`reportsWanted`), and `regression` decides from
those.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from chiplog_core.ids import PartitionEpoch, ReplicaRef, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.leadership.epochs import could_unchecked_be_isr, next_epoch

Isr = tuple[ReplicaRef, ...]


def elect_all(spec: PartitionMapSpec, brokers: BrokerStates) -> PartitionMapSpec:
    """The map after all elections that are due."""
    if spec.hibernated:
        return spec
    generations = tuple(
        generation if generation.trash_until else _elect_in(generation, spec.min_isr, brokers)
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def with_generations(
    spec: PartitionMapSpec, generations: tuple[Generation, ...]
) -> PartitionMapSpec:
    """The map with these generations; the same object if nothing changes."""
    return (
        spec
        if _are_same_objects(generations, spec.generations)
        else replace(spec, generations=generations)
    )


def with_partitions(generation: Generation, partitions: tuple[PartitionState, ...]) -> Generation:
    """The generation with these partitions; the same object if nothing changes."""
    if _are_same_objects(partitions, generation.partitions):
        return generation
    return replace(generation, partitions=partitions)


def elect(
    state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates
) -> PartitionState:
    """The partition's next state: its ISR and its leader, or without a leader and with
    `reports_wanted`. The same object if nothing changes."""
    if _needs_no_decision(state, brokers) or is_held(state, brokers):
        return state
    isr = in_sync(state, topic_id, min_isr, brokers)
    leader = _leader(state, isr, topic_id, brokers)
    return changed(state, isr, leader, brokers, reports_wanted=leader is None)


def changed(
    state: PartitionState,
    isr: Isr,
    leader: ReplicaRef | None,
    brokers: BrokerStates,
    *,
    reports_wanted: bool = False,
) -> PartitionState:
    """The state with this ISR and leader; the same object if it has them already. The partition
    epoch is raised with any change, the leader epoch with a change of the leader or its session."""
    is_new_leadership = leader != state.leader
    if not is_new_leadership and isr == state.isr and reports_wanted == state.reports_wanted:
        return state
    return replace(
        state,
        isr=isr,
        leader=leader,
        leader_epoch=next_epoch(state, brokers) if is_new_leadership else state.leader_epoch,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        reports_wanted=reports_wanted,
    )


def in_sync(state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates) -> Isr:
    """The next ISR.

    Members whose process kept running get its present session. Then members that are dead or were
    restarted are removed, then damaged ones, then stopping ones. Each of these removals is made
    only if at least `floor` members are left that are alive, or can lead: min ISR, or the size of
    the ISR if that is smaller.
    """
    in_present_sessions = tuple(
        _in_present_session(ref, state, topic_id, brokers) for ref in state.isr
    )
    floor = max(min(min_isr, len(in_present_sessions)), 1)
    staying = tuple(
        ref for ref in in_present_sessions if brokers.process_state(ref) is not ProcessState.GONE
    )
    alive = sum(brokers.process_state(ref) is ProcessState.ALIVE for ref in staying)
    if alive < floor:
        return in_present_sessions
    undamaged = tuple(
        ref for ref in staying if not _is_member_despite_damage(ref, state, topic_id, brokers)
    )
    if sum(can_lead(ref, state, topic_id, brokers) for ref in undamaged) >= floor:
        staying = undamaged
    not_stopping = tuple(ref for ref in staying if ref not in brokers.stopping)
    able_to_lead = sum(can_lead(ref, state, topic_id, brokers) for ref in not_stopping)
    return not_stopping if able_to_lead >= floor else staying


def can_lead(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether this replica is alive in this session and undamaged, and its broker's disk works."""
    is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
    return is_able(ref, brokers) and not is_damaged


def is_able(ref: ReplicaRef, brokers: BrokerStates) -> bool:
    """Whether the broker is alive in this session and its disk works."""
    broker = brokers.by_id.get(ref.broker_id)
    return broker is not None and broker.may_lead and broker.ref == ref


def _is_member_despite_damage(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether the ISR lists the replica although it is damaged or its broker's disk has failed.

    A replica that is being fetched again does not count: its leader adds it to the ISR only when
    the new copy is complete.
    """
    broker = brokers.by_id.get(ref.broker_id)
    if broker is not None and broker.process_state is ProcessState.ALIVE and not broker.may_lead:
        return True
    key = ref.broker_id, topic_id, state.partition
    return key in brokers.damaged and key not in brokers.refetching


def is_held(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether nothing may be decided about the partition until its replicas have reported or have
    compared their disks with the maps, because one may know newer metadata (rule R6)."""
    return state.reports_wanted or is_awaited(state, brokers)


def is_awaited(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether a broker that may be alive has yet to compare its disk with the present maps, and may
    know newer metadata of the partition: one of its replicas, or any broker, if a dead replica has
    not compared its disk or a member of the ISR has lost it. The partition may have been moved
    there since, and that replica would have known."""
    if not brokers.unchecked_alive:
        return False
    return not brokers.unchecked.isdisjoint(state.replicas) or any(
        (broker := brokers.by_id.get(ref.broker_id)) is not None and not broker.has_disk_of(ref)
        for ref in state.isr
    )


def _elect_in(generation: Generation, min_isr: int, brokers: BrokerStates) -> Generation:
    """The generation after all elections that are due. A partition whose unchecked replicas may
    hold newer records is left as it is."""
    topic_id = generation.topic_id
    partitions = tuple(
        state
        if could_unchecked_be_isr(state, min_isr, brokers)
        else elect(state, topic_id, min_isr, brokers)
        for state in generation.partitions
    )
    return with_partitions(generation, partitions)


def _are_same_objects(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether both, which have the same length, have identical objects (`is`) at each position:
    faster than comparing values."""
    return all(map(is_, new, old))


def _needs_no_decision(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether leader and ISR certainly stay as they are. This is so for nearly every partition, so
    this fast check saves the full decision."""
    if state.leader not in brokers.leaders or brokers.damaged:
        return False
    isr = state.isr
    return len(isr) == 1 or all(ref in brokers.may_stay_in_isr for ref in isr)


def _in_present_session(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef:
    """The ISR member in the present session of its broker, if its process has been running since
    the listed session, has stored the present one on its disk and the replica is undamaged.
    Otherwise the member as it is listed."""
    broker = brokers.by_id.get(ref.broker_id)
    if broker is None or broker.ref is None or broker.process_state is not ProcessState.ALIVE:
        return ref
    is_same = broker.continues(ref) and ref.session < broker.ref.session and broker.is_in_session
    is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
    return broker.ref if is_same and not is_damaged else ref


def _leader(
    state: PartitionState, isr: Isr, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef | None:
    """The next leader: the present one if it can lead or its state is unknown, else the first
    replica of the ISR that can; None if none can. Brokers that are not leaving are preferred."""
    present = _present_leader(state, isr)
    if present is not None and brokers.process_state(present) is ProcessState.UNKNOWN:
        return present
    able = [ref for ref in isr if can_lead(ref, state, topic_id, brokers)]
    staying = [ref for ref in able if not brokers.by_id[ref.broker_id].is_leaving] or able
    if present in staying:
        return present
    position = {broker_id: index for index, broker_id in enumerate(state.replicas)}
    return min(staying, key=lambda ref: position.get(ref.broker_id, len(position)), default=None)


def _present_leader(state: PartitionState, isr: Isr) -> ReplicaRef | None:
    """The present leader, in the session in which the new ISR lists it; None if there is no leader
    or the ISR does not list it."""
    if state.leader is None or state.leader in isr:
        return state.leader
    broker_id = state.leader.broker_id
    return next((ref for ref in isr if ref.broker_id == broker_id), None)
