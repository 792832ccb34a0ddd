"""The identity of this broker process for the operator."""

from dataclasses import dataclass

from chiplog_broker.ports.rng import Rng
from chiplog_core.ids import BrokerId, Incarnation, ReplicaRef, Session
from chiplog_core.naming import names

FIELD_MANAGER = "chiplog-broker"
"""The field manager in the managedFields of objects that brokers write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a broker; a restarted process has another incarnation."""

    cluster: str
    namespace: str
    broker_id: BrokerId
    incarnation: Incarnation
    version: str = ""

    @property
    def broker_name(self) -> str:
        """The name of its Broker object."""
        return names.broker(self.cluster, self.broker_id)

    @property
    def lease_name(self) -> str:
        return names.broker_lease(self.cluster, self.broker_id)

    def replica(self, session: Session) -> ReplicaRef:
        """This broker in a session, as leaders and in-sync replicas are named."""
        return ReplicaRef(self.broker_id, session)


def new_incarnation(rng: Rng) -> Incarnation:
    """A random name for a process."""
    return Incarnation(rng.token(16).hex())
