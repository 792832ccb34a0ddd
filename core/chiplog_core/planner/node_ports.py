"""The node ports of a cluster's Services, which outlive the Services.

Kubernetes allocates them when a Service is made, and clients outside have them in their
configuration. Broker objects survive a BrokerCluster, so each holds its own ports and those of the
bootstrap Service. What is held there is asked for from then on: it is never overwritten by what a
Service has, or two who insist on different ports would change it for ever.
"""

from collections.abc import Iterable, Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker, NodePorts
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType, Port
from chiplog_core.naming import names, ports
from chiplog_core.observed.world import World
from chiplog_core.planner.endpoints import listeners_of

BOOTSTRAP = 0
"""Its place among the node ports from `nodePortBase` on; that of a broker is its id."""


def given_node_port(listener: Listener, place: int) -> Port | None:
    """The port that the spec determines; None if Kubernetes chooses it.

    Ids are never reused, so after many replacements a broker may have no port left.
    """
    if listener.node_port_base is None:
        return None
    node_port = listener.node_port_base + place
    return node_port if node_port <= ports.MAX_NODE_PORT else None


def kept_node_ports(
    world: World, cluster: BrokerCluster, broker_id: BrokerId, before: tuple[NodePorts, ...]
) -> tuple[NodePorts, ...]:
    """The node ports of each listener: from the spec, else from the Broker object, else as
    Kubernetes allocated them."""
    held = {ports.listener: ports for ports in before}
    ports_now = world.node_ports.get(
        names.external_broker_service(world.metadata.name, broker_id), {}
    )
    first = world.node_ports.get(names.external_bootstrap_service(world.metadata.name), {})
    found = []
    for listener in listeners_of(cluster):
        if listener.type is not ListenerType.NODE_PORT:
            continue
        known = held.get(listener.name, NodePorts(listener=listener.name))
        now = NodePorts(
            listener=listener.name,
            broker=given_node_port(listener, broker_id)
            or known.broker
            or ports_now.get(listener.name),
            bootstrap=given_node_port(listener, BOOTSTRAP)
            or known.bootstrap
            or first.get(listener.name),
        )
        if now.broker is not None or now.bootstrap is not None:
            found.append(now)
    return tuple(found)


def held_by(brokers: Iterable[Broker]) -> Mapping[BrokerId, Mapping[str, Port]]:
    """Broker id -> listener -> the node port to request. The entry `BOOTSTRAP` is for the bootstrap
    Service.

    The broker with the lowest id determines the bootstrap Service's port.
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
