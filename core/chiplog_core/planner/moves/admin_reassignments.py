"""Decides AlterPartitionReassignments requests of admin clients (KIP-455).

A reassignment is begun by the plan that handles the request, and the request is answered by a later
plan, which sees it in the map. As in Kafka, the answer does not wait for the records to be copied.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chiplog_core.admin.answers import PartitionVerdict
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import PartitionTarget, ReassignPartitions
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.leadership.elections import with_generations, with_partitions
from chiplog_core.planner.moves.reassignment import States, begin, states_of, why_not_target
from chiplog_core.planner.placement.assignments import Placements

Target = tuple[BrokerId, ...]
Targets = Mapping[PartitionIndex, Target]
Reassignments = Mapping[TopicId, Targets]
"""Topic id -> partition -> the replicas to which this plan begins to move it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the spec of a Topic says about replicas."""

    topic: str = "the Topic object"
    """The Topic as messages name it."""
    replicas: int | None = None
    """How many each partition should have; None if it says nothing."""
    assigned: Placements = field(default_factory=dict)
    """The brokers of the partitions that it places."""

    def refusal(self, state: PartitionState, replicas: Target | None) -> PartitionVerdict | None:
        """Why the partition cannot be moved to these replicas, or back (None), if its Topic places
        it elsewhere; else None. The operator would move it to where the Topic wants it."""
        if self.assigned.get(state.partition, replicas) == replicas:
            return None
        return _invalid(
            state,
            f"spec.assignments of {self.topic} places the partition: change it there, or remove "
            "its entry",
        )


def judged_reassignments(
    operation: ReassignPartitions,
    spec: PartitionMapSpec,
    generation: Generation,
    wish: Wish,
    brokers: BrokerStates,
) -> Iterator[PartitionVerdict | tuple[PartitionIndex, Target]]:
    """For each partition of the request its result, or its new replicas if it is to be moved."""
    states = {state.partition: state for state in generation.partitions}
    for number, target in sorted(operation.targets.items()):
        partition = PartitionIndex(number)
        state = states.get(partition)
        if state is None:
            yield PartitionVerdict(
                partition=partition,
                code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                message=f"topic '{operation.name}' has no partition {partition}",
            )
        elif target.replicas is None:
            pinned = state.is_moving and wish.refusal(state, None)
            yield pinned or _cancelled(state, target, spec, brokers)
        else:
            replicas = tuple(map(BrokerId, target.replicas))
            refused = wish.refusal(state, replicas)
            refused = refused or _refused(state, replicas, operation, spec, wish, brokers)
            yield refused or _moved(state, replicas)


def targets_of(found: Iterable[PartitionVerdict | tuple[PartitionIndex, Target]]) -> Targets:
    """The partitions to move, from the results of `judged_reassignments`."""
    return dict(entry for entry in found if not isinstance(entry, PartitionVerdict))


def begin_all(
    spec: PartitionMapSpec,
    brokers: BrokerStates,
    reassignments: Reassignments,
    before: PartitionMapSpec,
) -> PartitionMapSpec:
    """The map with the reassignments that this plan begins. Partitions that it changes otherwise,
    compared with the map `before`, wait for a later plan: each step is a write of its own."""
    if spec.hibernated or spec.fence is not None or spec.current not in reassignments:
        return spec
    assert spec.current is not None, "reassignments have topic ids"
    targets, known = reassignments[spec.current], states_of(before)
    return with_generations(
        spec,
        tuple(
            _begun(generation, targets, spec, brokers, known)
            if generation.topic_id == spec.current
            else generation
            for generation in spec.generations
        ),
    )


def _begun(
    generation: Generation,
    targets: Targets,
    spec: PartitionMapSpec,
    brokers: BrokerStates,
    known: States,
) -> Generation:
    """The generation with these reassignments. A target that has become impossible in this plan is
    left out: the next plan answers the request."""
    return with_partitions(
        generation,
        tuple(
            begin(state, target, generation.topic_id, brokers)
            if (target := targets.get(state.partition)) is not None
            and known.get((generation.topic_id, state.partition)) is state
            and not why_not_target(state, target, spec, brokers)
            else state
            for state in generation.partitions
        ),
    )


def _moved(
    state: PartitionState, replicas: Target
) -> PartitionVerdict | tuple[PartitionIndex, Target]:
    """The success of a reassignment that the map has already, or the one to begin."""
    if state.target == replicas:
        return PartitionVerdict(partition=state.partition)
    return state.partition, replicas


def _cancelled(
    state: PartitionState, target: PartitionTarget, spec: PartitionMapSpec, brokers: BrokerStates
) -> PartitionVerdict | tuple[PartitionIndex, Target]:
    """The result of a cancellation, or the replicas to which it goes back."""
    if state.is_moving:
        if why := why_not_target(state, state.assigned, spec, brokers):
            return _invalid(state, why)
        return state.partition, state.assigned
    if state.partition_epoch > target.partition_epoch:
        return PartitionVerdict(partition=state.partition)
    return PartitionVerdict(
        partition=state.partition,
        code=Code.NO_REASSIGNMENT_IN_PROGRESS,
        message="no reassignment of the partition is in progress",
    )


def _refused(
    state: PartitionState,
    replicas: Target,
    operation: ReassignPartitions,
    spec: PartitionMapSpec,
    wish: Wish,
    brokers: BrokerStates,
) -> PartitionVerdict | None:
    """Why the partition cannot be moved to these replicas; None if it can."""
    if why := why_not_target(state, replicas, spec, brokers):
        return _invalid(state, why)
    count = len(replicas)
    if not operation.allows_another_count and count != len(state.target):
        return PartitionVerdict(
            partition=state.partition,
            code=Code.INVALID_REPLICATION_FACTOR,
            message=f"the partition has {len(state.target)} replicas, and the request does not "
            "allow another number",
        )
    wanted = wish.replicas
    if wanted is not None and count not in {wanted, len(state.target)}:
        return PartitionVerdict(
            partition=state.partition,
            code=Code.INVALID_REPLICATION_FACTOR,
            message=f"{wish.topic} asks for {wanted} replicas of each partition: change "
            "spec.replicas there",
        )
    why_not_now = _why_not_now(state, spec, brokers)
    return _invalid(state, why_not_now) if why_not_now else None


def _why_not_now(state: PartitionState, spec: PartitionMapSpec, brokers: BrokerStates) -> str:
    """Why no reassignment can begin now; empty if it can."""
    if spec.hibernated or spec.fence is not None:
        return "the topic does not change while it is hibernated or refuses writes"
    leader = state.leader
    if leader is None or brokers.process_state(leader) is not ProcessState.ALIVE:
        return "the partition has no live leader: try again when it has one"
    return ""


def _invalid(state: PartitionState, why: str) -> PartitionVerdict:
    """INVALID_REPLICA_ASSIGNMENT with this reason."""
    return PartitionVerdict(
        partition=state.partition, code=Code.INVALID_REPLICA_ASSIGNMENT, message=why
    )
