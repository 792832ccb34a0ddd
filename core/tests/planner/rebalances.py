"""Rebalances as they are while they are carried out, or not."""

from typing import Any

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.rebalance import Rebalance, RebalanceSpec
from chiplog_core.model.rebalance_status import (
    LeaderMove,
    MovesStatus,
    Proposal,
    RebalanceState,
    RebalanceStatus,
)
from chiplog_core.model.references import ClusterRef
from tests.planner.model import Kubernetes
from tests.planner.objects import CLUSTER, HOME


def state_of(kubernetes: Kubernetes, partition: int, topic: str = "orders") -> PartitionState:
    return kubernetes.maps[topic].spec.generations[0].partitions[partition]


def move(kubernetes: Kubernetes, partition: int, to: int, topic: str = "orders") -> LeaderMove:
    """As a proposal has it that is made now."""
    state, chosen = state_of(kubernetes, partition, topic), BrokerId(to)
    assert state.leader is not None
    return LeaderMove(
        topic=topic,
        partition=PartitionIndex(partition),
        from_=state.leader.broker_id,
        to=chosen,
        replicas=(chosen, *(one for one in state.replicas if one != chosen)),
        expected_replicas=state.replicas,
        leader_epoch=state.leader_epoch,
    )


def rebalance(
    *moves: LeaderMove,
    state: RebalanceState = RebalanceState.REBALANCING,
    approved: str = "even-1",
    name: str = "even",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Rebalance:
    """One whose proposal, even-1, has these moves."""
    return Rebalance(
        metadata=Metadata(
            name=name, namespace=HOME, uid=f"uid-{name}", annotations=annotations or {}
        ),
        spec=RebalanceSpec(cluster_ref=ClusterRef(name=CLUSTER), **spec),
        status=RebalanceStatus(
            state=state,
            proposal=Proposal(id="even-1", executable=True, leader_moves=moves),
            moves=MovesStatus(proposal=approved, total=len(moves)),
        ),
    )
