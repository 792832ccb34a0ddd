"""The admitted broker processes, and their pods and addresses."""

from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.model.broker import Broker
from chiplog_core.observed.world import PodState


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Identity:
    """A broker process with its pod and address, as a handshake found it or as the objects show it
    now."""

    broker_id: BrokerId
    incarnation: Incarnation
    pod_uid: str
    address: str
    uses_tls: bool = field(default=False, compare=False)
    """Whether it answers the operator at a port of its own, with TLS."""


def identity(broker: Broker, pod: PodState | None) -> Identity | None:
    """The identity of the admitted process; None if there is none, or if its pod or address is not
    known."""
    spec = broker.spec
    if pod is None or not pod.uid or not pod.address:
        return None
    if spec.admitted_incarnation is None or spec.fenced or spec.retired:
        return None
    return Identity(
        broker_id=spec.broker_id,
        incarnation=spec.admitted_incarnation,
        pod_uid=pod.uid,
        address=pod.address,
        uses_tls=broker.status.uses_tls_with_peers,
    )
