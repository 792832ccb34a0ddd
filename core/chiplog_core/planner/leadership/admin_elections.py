"""Decides ElectLeaders requests of admin clients.

A preferred election is made by the plan that handles the request and answered by a later plan,
which sees the new leader. An unclean election loses records, so it is never made for a client: it
needs an annotation, which names partition and epoch.
"""

from collections.abc import Iterable, Iterator

from chiplog_core.admin.answers import PartitionVerdict
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import ElectLeaders
from chiplog_core.ids import PartitionIndex, ReplicaRef
from chiplog_core.model.partition_map import Generation, PartitionState
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.leadership.preferred import preferred


def judged_elections(
    operation: ElectLeaders, generation: Generation, brokers: BrokerStates
) -> Iterator[PartitionVerdict | PartitionIndex]:
    """For each partition of the request its result, or only its number if an election is due."""
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
    """The partitions with an election that is due, from the results of `judged_elections`."""
    return frozenset(entry for entry in found if not isinstance(entry, PartitionVerdict))


def _preferred(state: PartitionState, asked_epoch: int, brokers: BrokerStates) -> PartitionVerdict:
    """The result of a preferred election that cannot be made, is not needed, or was made.

    `asked_epoch` is the leader epoch when the client asked: a higher one now means that the
    preferred leader was elected after that.
    """
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
    """The result of an unclean election, which an admin client cannot start."""
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
    """The partition's leader if it is alive, else None."""
    leader = state.leader
    return (
        leader
        if leader is not None and brokers.process_state(leader) is ProcessState.ALIVE
        else None
    )
