"""Reads the moves of a proposal from the status of a Rebalance."""

from collections.abc import Iterator

from chiplog_core.model import rebalance_status
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import PartitionName
from chiplog_core.rebalance.replicas import ReplicaChange


def moves_of(proposal: rebalance_status.Proposal) -> tuple[LeaderMove, ...]:
    """The leader moves of a proposal in a status. Entries whose replicas are not the old ones in
    another order, the new leader first, are left out: somebody has edited the status."""
    return tuple(_moves(proposal))


def _moves(proposal: rebalance_status.Proposal) -> Iterator[LeaderMove]:
    """The entries of the proposal that are valid leader moves."""
    for move in proposal.leader_moves:
        is_leader_first = move.replicas[0] == move.to
        if is_leader_first and sorted(move.replicas) == sorted(move.expected_replicas):
            yield LeaderMove(
                name=PartitionName(move.topic, move.partition),
                from_broker=move.from_,
                to_broker=move.to,
                replicas=move.replicas,
                expected_replicas=move.expected_replicas,
                leader_epoch=move.leader_epoch,
            )


def changes_of(proposal: rebalance_status.Proposal) -> tuple[ReplicaChange, ...]:
    """The changes of replicas of a proposal in a status."""
    return tuple(
        ReplicaChange(
            name=PartitionName(move.topic, move.partition),
            replicas=move.replicas,
            expected_replicas=move.expected_replicas,
        )
        for move in proposal.replica_moves
    )
