"""Whom a fault hit: what a broker or an operator was at that moment."""

from contextvars import ContextVar
from typing import Final

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionMap
from chiplog_kube import kinds
from e2e.sim.api_store import ApiStore

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
OPERATOR_LEADER: Final = "operator leader"
STANDBY: Final = "standby"
OTHER: Final = "other"
ROLES: Final = (LEADER, FOLLOWER, OPERATOR_LEADER, STANDBY, OTHER)

ACTING: ContextVar[str] = ContextVar("acting", default="")
"""The fault that acts in this task."""


def role_of_broker(store: ApiStore, broker_id: BrokerId) -> str:
    """Leader of any partition, else follower in one, else nothing of interest."""
    role = OTHER
    for manifest in store.all_of(kinds.PARTITION_MAPS):
        for generation in PartitionMap.from_manifest(manifest).spec.generations:
            for state in generation.partitions:
                if state.leader is not None and state.leader.broker_id == broker_id:
                    return LEADER
                if broker_id in state.replicas:
                    role = FOLLOWER
    return role


def role_of_operator(*, is_in_charge: bool) -> str:
    return OPERATOR_LEADER if is_in_charge else STANDBY
