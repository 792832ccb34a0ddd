"""Who this broker process is to the operator."""

from dataclasses import dataclass

from chiplog_broker.ports.rng import Rng
from chiplog_core.ids import BrokerId, Incarnation, ReplicaRef, Session
from chiplog_core.naming import names

FIELD_MANAGER = "chiplog-broker"
"""Of what brokers write, in the managedFields of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of one broker; the next process of it has another incarnation."""

    cluster: str
    namespace: str
    broker_id: BrokerId
    incarnation: Incarnation
    version: str = ""

    @property
    def broker_name(self) -> str:
        """Of its Broker object."""
        return names.broker(self.cluster, self.broker_id)

    @property
    def lease_name(self) -> str:
        return names.broker_lease(self.cluster, self.broker_id)

    def replica(self, session: Session) -> ReplicaRef:
        """Itself in a session, as leaders and in-sync replicas are named."""
        return ReplicaRef(self.broker_id, session)


def new_incarnation(rng: Rng) -> Incarnation:
    """A name that no other process has."""
    return Incarnation(rng.token(16).hex())
