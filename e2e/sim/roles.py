"""Roles of brokers and operators: what a process was at the moment when a fault hit it."""

from contextvars import ContextVar
from typing import Final

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.topic_name import is_internal
from chiplog_kube import kinds
from e2e.sim.api_store import ApiStore

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
OPERATOR_LEADER: Final = "operator leader"
STANDBY: Final = "standby"
OTHER: Final = "other"
COORDINATOR: Final = "coordinator"
MEMBER: Final = "member"
ROLES: Final = (COORDINATOR, LEADER, FOLLOWER, OPERATOR_LEADER, STANDBY, MEMBER, OTHER)

ACTING: ContextVar[str] = ContextVar("acting", default="")
"""Name of the fault that the current task injects."""


def role_of_broker(store: ApiStore, broker_id: BrokerId) -> str:
    """The most important role of a broker: coordinator, else leader, else follower, else other."""
    found = {OTHER}
    for manifest in store.all_of(kinds.PARTITION_MAPS):
        spec = PartitionMap.from_manifest(manifest).spec
        leading = COORDINATOR if is_internal(spec.topic_name) else LEADER
        for generation in spec.generations:
            for state in generation.partitions:
                if state.leader is not None and state.leader.broker_id == broker_id:
                    found.add(leading)
                elif broker_id in state.replicas:
                    found.add(FOLLOWER)
    return next(role for role in (COORDINATOR, LEADER, FOLLOWER, OTHER) if role in found)


def role_of_operator(*, is_active: bool) -> str:
    return OPERATOR_LEADER if is_active else STANDBY
