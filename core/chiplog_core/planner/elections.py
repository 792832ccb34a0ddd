"""Who leads a partition, and who counts as in sync (R2, R3, R4).

One partition at a time, from its state and what is known of the brokers. In this order: members
of the ISR whose process was fenced and goes on go over into its new session; those that are dead
or were started again leave it, unless fewer than the floor would be left alive; those that turned
out to be damaged or whose disk failed leave it, and those about to end, unless fewer than the floor
could serve without them; the leader stays if it can, else the first member that can lead, in the
order of the replicas, follows it. What leaders propose for their ISRs was judged before
(`proposals`), so that a proposal is compared with what is observed.

A broker that was started again is in sync when its leader proposes it, not before: its disk may
lack what its last process acknowledged. Where no member goes on, there is nobody to elect. Then
the replicas are asked what they have (`reportsWanted`) and `regression` goes on from their answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from chiplog_core.ids import PartitionEpoch, ReplicaRef, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.members import Life, Members
from chiplog_core.planner.epochs import are_outnumbered, next_epoch

Isr = tuple[ReplicaRef, ...]


def elect_all(spec: PartitionMapSpec, members: Members) -> PartitionMapSpec:
    """The map with every election done that is due."""
    if spec.hibernated:
        return spec
    generations = tuple(
        generation if generation.trash_until else _elect_in(generation, spec.min_isr, members)
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def with_generations(
    spec: PartitionMapSpec, generations: tuple[Generation, ...]
) -> PartitionMapSpec:
    """The map with these generations; the very same object where they are its own."""
    return spec if _same(generations, spec.generations) else replace(spec, generations=generations)


def with_partitions(generation: Generation, partitions: tuple[PartitionState, ...]) -> Generation:
    """The generation with these partitions; the very same object where they are its own."""
    if _same(partitions, generation.partitions):
        return generation
    return replace(generation, partitions=partitions)


def elect(
    state: PartitionState, topic_id: TopicId, min_isr: int, members: Members
) -> PartitionState:
    """The partition's next state; the very same object where nothing changes."""
    if _is_settled(state, members) or is_held(state, members):
        return state
    isr = in_sync(state, topic_id, min_isr, members)
    leader = _leader(state, isr, topic_id, members)
    return changed(state, isr, leader, members, reports_wanted=leader is None)


def changed(
    state: PartitionState,
    isr: Isr,
    leader: ReplicaRef | None,
    members: Members,
    *,
    reports_wanted: bool = False,
) -> PartitionState:
    """The state with this ISR and leader, and the epochs that go with the change."""
    is_new_reign = leader != state.leader
    if not is_new_reign and isr == state.isr and reports_wanted == state.reports_wanted:
        return state
    return replace(
        state,
        isr=isr,
        leader=leader,
        leader_epoch=next_epoch(state, members) if is_new_reign else state.leader_epoch,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        reports_wanted=reports_wanted,
    )


def in_sync(state: PartitionState, topic_id: TopicId, min_isr: int, members: Members) -> Isr:
    """The ISR after carrying over members that go on and dropping, above the floor, dead ones,
    damaged ones and those about to end."""
    carried = tuple(_carried(ref, state, topic_id, members) for ref in state.isr)
    floor = max(min(min_isr, len(carried)), 1)
    staying = tuple(ref for ref in carried if members.life(ref) is not Life.GONE)
    alive = sum(members.life(ref) is Life.ALIVE for ref in staying)
    if alive < floor:
        return carried
    whole = tuple(ref for ref in staying if not _is_spoiled(ref, state, topic_id, members))
    if sum(can_lead(ref, state, topic_id, members) for ref in whole) >= floor:
        staying = whole
    lasting = tuple(ref for ref in staying if ref not in members.stopping)
    able = sum(can_lead(ref, state, topic_id, members) for ref in lasting)
    return lasting if able >= floor else staying


def can_lead(ref: ReplicaRef, state: PartitionState, topic_id: TopicId, members: Members) -> bool:
    """Whether this member of the ISR is alive, in this session, with an undamaged log."""
    is_damaged = (ref.broker_id, topic_id, state.partition) in members.damaged
    return is_able(ref, members) and not is_damaged


def is_able(ref: ReplicaRef, members: Members) -> bool:
    """Whether the broker is alive, in this session, and its disk works."""
    member = members.of.get(ref.broker_id)
    return member is not None and member.may_lead and member.ref == ref


def _is_spoiled(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, members: Members
) -> bool:
    """Whether it is listed for what it had before it was found damaged, or its disk failed.

    A copy that was begun anew is listed by its leader's word, and not before it is whole.
    """
    member = members.of.get(ref.broker_id)
    if member is not None and member.life is Life.ALIVE and not member.may_lead:
        return True
    key = ref.broker_id, topic_id, state.partition
    return key in members.damaged and key not in members.refetching


def is_held(state: PartitionState, members: Members) -> bool:
    """Whether nothing may be decided here: not before all who may know more have spoken (R6)."""
    return state.reports_wanted or is_awaited(state, members)


def is_awaited(state: PartitionState, members: Members) -> bool:
    """Whether a replica lives that has not compared its disk with the maps as they are now."""
    return bool(members.awaited) and not members.awaited.isdisjoint(state.replicas)


def _elect_in(generation: Generation, min_isr: int, members: Members) -> Generation:
    topic_id = generation.topic_id
    partitions = tuple(
        state
        if are_outnumbered(state, min_isr, members)
        else elect(state, topic_id, min_isr, members)
        for state in generation.partitions
    )
    return with_partitions(generation, partitions)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(map(is_, new, old))


def _is_settled(state: PartitionState, members: Members) -> bool:
    """The answer for nearly every partition in nearly every plan, and the quickest."""
    if state.leader not in members.leaders or members.damaged:
        return False
    isr = state.isr
    return len(isr) == 1 or all(ref in members.steady for ref in isr)


def _carried(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, members: Members
) -> ReplicaRef:
    """The same process in its present session, which its disk remembers by now."""
    member = members.of.get(ref.broker_id)
    if member is None or member.ref is None or member.life is not Life.ALIVE:
        return ref
    goes_on = member.continues(ref) and ref.session < member.ref.session and member.is_in_session
    is_damaged = (ref.broker_id, topic_id, state.partition) in members.damaged
    return member.ref if goes_on and not is_damaged else ref


def _leader(
    state: PartitionState, isr: Isr, topic_id: TopicId, members: Members
) -> ReplicaRef | None:
    present = _present_leader(state, isr)
    if present is not None and members.life(present) is Life.UNKNOWN:
        return present
    able = [ref for ref in isr if can_lead(ref, state, topic_id, members)]
    staying = [ref for ref in able if not members.of[ref.broker_id].is_leaving] or able
    if present in staying:
        return present
    order = {broker_id: index for index, broker_id in enumerate(state.replicas)}
    return min(staying, key=lambda ref: order.get(ref.broker_id, len(order)), default=None)


def _present_leader(state: PartitionState, isr: Isr) -> ReplicaRef | None:
    """The leader, in the session the ISR now has it under."""
    if state.leader is None or state.leader in isr:
        return state.leader
    broker_id = state.leader.broker_id
    return next((ref for ref in isr if ref.broker_id == broker_id), None)
