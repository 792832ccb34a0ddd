"""Who leads a partition, and who counts as in sync (R2, R3, R4).

One partition at a time, from its state and what is known of the brokers. In this order: members
of the ISR whose process was fenced and continues go over into its new session; those that are dead
or were started again leave it, unless fewer than the floor would be left alive; those that turned
out to be damaged or whose disk failed leave it, and those about to end, unless fewer than the floor
could serve without them; the leader stays if it can, else the first member that can lead, in the
order of the replicas, follows it. What leaders propose for their ISRs was judged before
(`proposals`), so that a proposal is compared with what is observed.

A broker that was started again is in sync when its leader proposes it, not before: its disk may
lack what its last process acknowledged. Where no member continues, there is nobody to elect. Then
the replicas are asked what they have (`reportsWanted`) and `regression` continues from their
answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from chiplog_core.ids import PartitionEpoch, ReplicaRef, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.epochs import are_outnumbered, next_epoch

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
    return spec if _same(generations, spec.generations) else replace(spec, generations=generations)


def with_partitions(generation: Generation, partitions: tuple[PartitionState, ...]) -> Generation:
    """The generation with these partitions; the same object if nothing changes."""
    if _same(partitions, generation.partitions):
        return generation
    return replace(generation, partitions=partitions)


def elect(
    state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates
) -> PartitionState:
    """The partition's next state; the same object if nothing changes."""
    if _is_settled(state, brokers) or is_held(state, brokers):
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
    """The state with this ISR and leader, and with the epochs that the change needs."""
    is_new_reign = leader != state.leader
    if not is_new_reign and isr == state.isr and reports_wanted == state.reports_wanted:
        return state
    return replace(
        state,
        isr=isr,
        leader=leader,
        leader_epoch=next_epoch(state, brokers) if is_new_reign else state.leader_epoch,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        reports_wanted=reports_wanted,
    )


def in_sync(state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates) -> Isr:
    """The next ISR.

    Members whose process continues get its present session. Dead, damaged and stopping members are
    removed as long as min ISR allows it.
    """
    carried = tuple(_carried(ref, state, topic_id, brokers) for ref in state.isr)
    floor = max(min(min_isr, len(carried)), 1)
    staying = tuple(ref for ref in carried if brokers.process_state(ref) is not ProcessState.GONE)
    alive = sum(brokers.process_state(ref) is ProcessState.ALIVE for ref in staying)
    if alive < floor:
        return carried
    undamaged = tuple(ref for ref in staying if not _is_spoiled(ref, state, topic_id, brokers))
    if sum(can_lead(ref, state, topic_id, brokers) for ref in undamaged) >= floor:
        staying = undamaged
    lasting = tuple(ref for ref in staying if ref not in brokers.stopping)
    able = sum(can_lead(ref, state, topic_id, brokers) for ref in lasting)
    return lasting if able >= floor else staying


def can_lead(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether this member of the ISR is alive in this session, with an undamaged log."""
    is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
    return is_able(ref, brokers) and not is_damaged


def is_able(ref: ReplicaRef, brokers: BrokerStates) -> bool:
    """Whether the broker is alive in this session and its disk works."""
    broker = brokers.by_id.get(ref.broker_id)
    return broker is not None and broker.may_lead and broker.ref == ref


def _is_spoiled(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether the replica is in the ISR only for data that it had before it was damaged or its disk
    failed.

    A replica that is fetched again is added to the ISR by its leader, and only when it is complete.
    """
    broker = brokers.by_id.get(ref.broker_id)
    if broker is not None and broker.process_state is ProcessState.ALIVE and not broker.may_lead:
        return True
    key = ref.broker_id, topic_id, state.partition
    return key in brokers.damaged and key not in brokers.refetching


def is_held(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether the partition must wait for reports of replicas that may have newer data (rule
    R6)."""
    return state.reports_wanted or is_awaited(state, brokers)


def is_awaited(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether a live replica has not yet compared its disk with the present maps."""
    return bool(brokers.awaited) and not brokers.awaited.isdisjoint(state.replicas)


def _elect_in(generation: Generation, min_isr: int, brokers: BrokerStates) -> Generation:
    """The generation after all elections that are due."""
    topic_id = generation.topic_id
    partitions = tuple(
        state
        if are_outnumbered(state, min_isr, brokers)
        else elect(state, topic_id, min_isr, brokers)
        for state in generation.partitions
    )
    return with_partitions(generation, partitions)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(map(is_, new, old))


def _is_settled(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether there is nothing to decide. That is so for nearly every partition, so this check
    is fast."""
    if state.leader not in brokers.leaders or brokers.damaged:
        return False
    isr = state.isr
    return len(isr) == 1 or all(ref in brokers.steady for ref in isr)


def _carried(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef:
    """The member in the present session of its process, if the process continues and its disk
    knows that session."""
    broker = brokers.by_id.get(ref.broker_id)
    if broker is None or broker.ref is None or broker.process_state is not ProcessState.ALIVE:
        return ref
    is_same = broker.continues(ref) and ref.session < broker.ref.session and broker.is_in_session
    is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
    return broker.ref if is_same and not is_damaged else ref


def _leader(
    state: PartitionState, isr: Isr, topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef | None:
    """The next leader. The present one stays if it can; else it is the first replica that can
    lead."""
    present = _present_leader(state, isr)
    if present is not None and brokers.process_state(present) is ProcessState.UNKNOWN:
        return present
    able = [ref for ref in isr if can_lead(ref, state, topic_id, brokers)]
    staying = [ref for ref in able if not brokers.by_id[ref.broker_id].is_leaving] or able
    if present in staying:
        return present
    order = {broker_id: index for index, broker_id in enumerate(state.replicas)}
    return min(staying, key=lambda ref: order.get(ref.broker_id, len(order)), default=None)


def _present_leader(state: PartitionState, isr: Isr) -> ReplicaRef | None:
    """The leader, in the session that the ISR now has for it."""
    if state.leader is None or state.leader in isr:
        return state.leader
    broker_id = state.leader.broker_id
    return next((ref for ref in isr if ref.broker_id == broker_id), None)
