"""Decides the leaders' proposals to change in-sync replicas (R5).

A proposal is a promise: its leader waits for the old and the proposed replicas alike until it sees
a partitionEpoch above the one that the proposal is based on. So a proposal may be accepted as long
as the map still is exactly what it is based on, however late that is, and must be refused if
anything else was decided in between. Either way the partitionEpoch is raised, which is the answer.
A proposal based on a lower epoch was answered before. One based on a higher epoch proves that the
map went back, and `regression` handles it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from chiplog_core.ids import BrokerId, PartitionEpoch, PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.broker_status import IsrProposal
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.elections import (
    can_lead,
    is_able,
    is_held,
    with_generations,
    with_partitions,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A proposal to change an ISR, and the broker that made it."""

    broker_id: BrokerId
    proposal: IsrProposal

    @property
    def leader(self) -> ReplicaRef:
        """The proposing broker, in the session in which it made the proposal."""
        return ReplicaRef(self.broker_id, self.proposal.session)


Proposals = Mapping[TopicId, Mapping[PartitionIndex, Sequence[Claim]]]


def gather_proposals(world: World) -> Proposals:
    """The proposals of all brokers: topic id -> partition -> proposals."""
    found: dict[TopicId, dict[PartitionIndex, list[Claim]]] = {}
    for broker_id, broker in world.brokers.items():
        for proposal in broker.status.proposals:
            of_topic = found.setdefault(proposal.topic_id, {})
            of_topic.setdefault(proposal.partition, []).append(Claim(broker_id, proposal))
    return found


def judge_all(
    spec: PartitionMapSpec, brokers: BrokerStates, proposals: Proposals
) -> PartitionMapSpec:
    """The map after all proposals for it are decided. A hibernated map is left as it is."""
    if spec.hibernated or not any(
        generation.topic_id in proposals for generation in spec.generations
    ):
        return spec
    generations = tuple(
        generation
        if generation.trash_until or generation.topic_id not in proposals
        else _judged(generation, spec.min_isr, brokers, proposals[generation.topic_id])
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def judge(
    state: PartitionState,
    topic_id: TopicId,
    claims: Iterable[Claim],
    min_isr: int,
    brokers: BrokerStates,
) -> PartitionState:
    """The partition after the decision on its proposals; the same object if none is decided now."""
    due = [claim for claim in claims if is_due(claim, state)]
    if not due or is_held(state, brokers):
        return state
    claim_of_leader = next((claim for claim in due if claim.leader == state.leader), None)
    if (
        claim_of_leader is not None
        and brokers.process_state(claim_of_leader.leader) is not ProcessState.ALIVE
    ):
        # A dead leader is replaced in this plan. An unknown one may be known in the next plan.
        return state
    isr = state.isr
    if claim_of_leader is not None and is_acceptable(
        claim_of_leader, state, topic_id, min_isr, brokers
    ):
        isr = _in_order(claim_of_leader.proposal.isr, state)
    # The raised epoch is the answer, also to a refused proposal and to those of other brokers.
    return replace(state, isr=isr, partition_epoch=PartitionEpoch(state.partition_epoch + 1))


def is_due(claim: Claim, state: PartitionState) -> bool:
    """Whether the proposal is based on the partition's present epoch, so that it is not decided
    yet."""
    return claim.proposal.base_partition_epoch == state.partition_epoch


def is_beyond(claim: Claim, state: PartitionState) -> bool:
    """Whether the proposing broker has applied a newer state than the map has."""
    proposal = claim.proposal
    return (
        proposal.base_partition_epoch > state.partition_epoch
        or proposal.leader_epoch > state.leader_epoch
    )


def is_acceptable(
    claim: Claim, state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates
) -> bool:
    """Whether a proposal that is due is from the present leader and breaks no rule."""
    proposal = claim.proposal
    return (
        claim.leader == state.leader
        # A leader with a bad disk may propose to remove the only good replica.
        and can_lead(claim.leader, state, topic_id, brokers)
        and proposal.leader_epoch == state.leader_epoch
        and state.leader in proposal.isr
        and _are_replicas(proposal.isr, state)
        and is_above_floor(proposal.isr, state, min_isr)
        and all(ref in state.isr or may_join(ref, state, topic_id, brokers) for ref in proposal.isr)
    )


def is_above_floor(isr: Sequence[ReplicaRef], state: PartitionState, min_isr: int) -> bool:
    """Whether the proposed `isr` has at least min ISR members, or as many as the present ISR if
    that is smaller (rule R4)."""
    return len(isr) >= min(min_isr, len(state.isr))


def may_join(
    ref: ReplicaRef, state: PartitionState, topic_id: TopicId, brokers: BrokerStates
) -> bool:
    """Whether a replica may join the ISR: it must be able to lead now, in its admitted session
    (rule R1), and its broker must not be stopping.

    A damaged replica that is fetched again may join, too: its leader proposes it only when it is
    complete. It may lead after its broker has removed it from its list of damaged replicas.
    """
    is_refetched = (ref.broker_id, topic_id, state.partition) in brokers.refetching
    able = is_able(ref, brokers) if is_refetched else can_lead(ref, state, topic_id, brokers)
    return able and ref not in brokers.stopping


def _are_replicas(isr: Sequence[ReplicaRef], state: PartitionState) -> bool:
    """Whether the ISR has only replicas of the partition, each once."""
    ids = {ref.broker_id for ref in isr}
    return len(ids) == len(isr) and ids <= set(state.replicas)


def _in_order(isr: Sequence[ReplicaRef], state: PartitionState) -> tuple[ReplicaRef, ...]:
    """The ISR in the order of the replicas, so that equal ISRs make equal maps."""
    return tuple(sorted(isr, key=lambda ref: state.replicas.index(ref.broker_id)))


def _judged(
    generation: Generation,
    min_isr: int,
    brokers: BrokerStates,
    proposals: Mapping[PartitionIndex, Sequence[Claim]],
) -> Generation:
    """The generation after the decisions on proposals for it."""
    topic_id = generation.topic_id
    partitions = tuple(
        judge(state, topic_id, proposals[state.partition], min_isr, brokers)
        if state.partition in proposals
        else state
        for state in generation.partitions
    )
    return with_partitions(generation, partitions)
