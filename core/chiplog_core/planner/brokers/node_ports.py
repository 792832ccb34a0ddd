"""The node ports of a cluster's Services, which are kept when the Services are deleted.

Kubernetes allocates them when a Service is created, and clients outside have them in their
configuration. Broker objects survive a BrokerCluster, so each records its own node ports and those
of the bootstrap Service. A recorded port is requested for the Service from then on. It is never
overwritten by the port that a Service has: if somebody else set another port on the Service, both
would change it back for ever.
"""

from collections.abc import Iterable, Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker, NodePorts
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.model.listener_configuration import Port
from chiplog_core.naming import names, ports
from chiplog_core.observed.world import World

BOOTSTRAP = 0
"""The offset of the bootstrap Service's node port from `nodePortBase`; that of a broker is its
id."""


def given_node_port(listener: Listener, port_offset: int) -> Port | None:
    """The port that the spec determines: nodePortBase plus `port_offset`. None if
    Kubernetes chooses the port, because the spec has no base or the sum is too high.

    Broker ids are never reused, so after many replacements the sum may be too high.
    """
    if listener.node_port_base is None:
        return None
    node_port = listener.node_port_base + port_offset
    return node_port if node_port <= ports.MAX_NODE_PORT else None


def kept_node_ports(
    world: World, cluster: BrokerCluster, broker_id: BrokerId, before: tuple[NodePorts, ...]
) -> tuple[NodePorts, ...]:
    """The node ports to record for each listener: from the spec, else as recorded `before`, else as
    Kubernetes allocated them to the Services."""
    recorded_ports = {ports.listener: ports for ports in before}
    broker_service_ports = world.node_ports.get(
        names.external_broker_service(world.metadata.name, broker_id), {}
    )
    bootstrap_service_ports = world.node_ports.get(
        names.external_bootstrap_service(world.metadata.name), {}
    )
    found = []
    for listener in cluster.listeners:
        if listener.type is not ListenerType.NODE_PORT:
            continue
        recorded = recorded_ports.get(listener.name, NodePorts(listener=listener.name))
        now = NodePorts(
            listener=listener.name,
            broker=given_node_port(listener, broker_id)
            or recorded.broker
            or broker_service_ports.get(listener.name),
            bootstrap=given_node_port(listener, BOOTSTRAP)
            or recorded.bootstrap
            or bootstrap_service_ports.get(listener.name),
        )
        if now.broker is not None or now.bootstrap is not None:
            found.append(now)
    return tuple(found)


def node_ports_of(brokers: Iterable[Broker]) -> Mapping[BrokerId, Mapping[str, Port]]:
    """Broker id -> listener name -> the recorded node port to request for its Service.

    The entry with the id `BOOTSTRAP` is for the bootstrap Service: every broker records its port,
    and that of the broker with the lowest id counts.
    """
    found: dict[BrokerId, dict[str, Port]] = {}
    for broker in sorted(brokers, key=lambda candidate: candidate.spec.broker_id):
        if broker.spec.retired:
            continue
        for requested in broker.spec.node_ports:
            if requested.broker is not None:
                found.setdefault(broker.spec.broker_id, {})[requested.listener] = requested.broker
            if requested.bootstrap is not None:
                found.setdefault(BrokerId(BOOTSTRAP), {}).setdefault(
                    requested.listener, requested.bootstrap
                )
    return found
