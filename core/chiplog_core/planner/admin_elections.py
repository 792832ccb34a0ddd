"""What becomes of an admin client's request for elections (ElectLeaders).

A preferred election is carried out by the plan that handles the request, together with all others
of the map, and answered by a later one that sees it done. An unclean one loses records, so it is
never done for a client: that takes an annotation, which names partition and epoch.
"""

from collections.abc import Iterable, Iterator

from chiplog_core.admin.answers import PartitionVerdict
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import ElectLeaders
from chiplog_core.ids import PartitionIndex, ReplicaRef
from chiplog_core.model.partition_map import Generation, PartitionState
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.preferred import preferred


def judged_elections(
    operation: ElectLeaders, generation: Generation, brokers: BrokerStates
) -> Iterator[PartitionVerdict | PartitionIndex]:
    """For each partition, the verdict; only the number of the partition if an election is due."""
    states = {state.partition: state for state in generation.partitions}
    for partition, epoch in sorted(operation.partitions.items()):
        state = states.get(PartitionIndex(partition))
        if state is None:
            yield PartitionVerdict(
                partition=PartitionIndex(partition),
                code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                message=f"topic '{operation.name}' has no partition {partition}",
            )
        elif operation.is_unclean:
            yield _unclean(state, brokers)
        elif preferred(state, generation.topic_id, brokers) is not None:
            yield state.partition
        else:
            yield _preferred(state, epoch, brokers)


def due(found: Iterable[PartitionVerdict | PartitionIndex]) -> frozenset[PartitionIndex]:
    """The partitions whose election is due."""
    return frozenset(index for index in found if not isinstance(index, PartitionVerdict))


def _preferred(state: PartitionState, asked_epoch: int, brokers: BrokerStates) -> PartitionVerdict:
    """The verdict on a preferred election that is not due, or is done."""
    first = state.replicas[0]
    leader = _live_leader(state, brokers)
    if leader is None or leader.broker_id != first:
        return PartitionVerdict(
            partition=state.partition,
            code=Code.PREFERRED_LEADER_NOT_AVAILABLE,
            message=f"the preferred leader, broker {first}, is not in sync or cannot lead now",
        )
    if state.leader_epoch > asked_epoch:
        return PartitionVerdict(partition=state.partition)
    return PartitionVerdict(
        partition=state.partition,
        code=Code.ELECTION_NOT_NEEDED,
        message="the preferred leader leads already",
    )


def _unclean(state: PartitionState, brokers: BrokerStates) -> PartitionVerdict:
    """The verdict on an unclean election: an admin client cannot start one."""
    if _live_leader(state, brokers) is not None:
        return PartitionVerdict(
            partition=state.partition,
            code=Code.ELECTION_NOT_NEEDED,
            message="the partition has a live leader",
        )
    return PartitionVerdict(
        partition=state.partition,
        code=Code.POLICY_VIOLATION,
        message=(
            "an unclean election loses acknowledged records: accept the loss with the annotation "
            f"{labels.UNCLEAN_ELECTION} on the Topic; its Ready condition shows the value to set"
        ),
    )


def _live_leader(state: PartitionState, brokers: BrokerStates) -> ReplicaRef | None:
    """The partition's leader, if it is alive."""
    leader = state.leader
    return (
        leader
        if leader is not None and brokers.process_state(leader) is ProcessState.ALIVE
        else None
    )
