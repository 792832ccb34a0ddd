"""The moves of a proposal as they stand in the status of a Rebalance."""

from collections.abc import Iterator

from chiplog_core.model import rebalance_status
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import PartitionName


def moves_of(proposal: rebalance_status.Proposal) -> tuple[LeaderMove, ...]:
    """All that are moves of a leadership. What somebody wrote there who moves data with it, or
    names another leader than the first replica, is none."""
    return tuple(_moves(proposal))


def _moves(proposal: rebalance_status.Proposal) -> Iterator[LeaderMove]:
    for one in proposal.leader_moves:
        is_move = one.replicas[0] == one.to
        if is_move and sorted(one.replicas) == sorted(one.expected_replicas):
            yield LeaderMove(
                name=PartitionName(one.topic, one.partition),
                from_broker=one.from_,
                to_broker=one.to,
                replicas=one.replicas,
                expected_replicas=one.expected_replicas,
                leader_epoch=one.leader_epoch,
            )
