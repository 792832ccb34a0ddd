"""The addresses under which clients reach brokers."""

from collections.abc import Iterator

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Endpoint
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import (
    INTERNAL_LISTENER_NAME,
    Listener,
    ListenerStatus,
    ListenerType,
)
from chiplog_core.naming import names, ports
from chiplog_core.observed.world import World

DEFAULT_LISTENERS = (Listener(name="plain", type=ListenerType.INTERNAL, port=ports.PLAIN),)
"""The listeners of a cluster whose spec has none."""


def listeners_of(cluster: BrokerCluster) -> tuple[Listener, ...]:
    """The listeners for clients. The internal listener is not among them."""
    return cluster.spec.listeners or DEFAULT_LISTENERS


def broker_endpoints(
    world: World, cluster: BrokerCluster, broker_id: BrokerId, before: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """The broker's address at each listener. One that is not known now stays as in `before`."""
    endpoints_before = {endpoint.listener: endpoint for endpoint in before}
    host = _inside(world, names.pod(world.metadata.name, broker_id))
    found = [Endpoint(listener=INTERNAL_LISTENER_NAME, host=host, port=ports.INTERNAL)]
    for listener in listeners_of(cluster):
        if listener.type is ListenerType.INTERNAL:
            found.append(Endpoint(listener=listener.name, host=host, port=listener.port))
            continue
        endpoint = _outside(world, broker_id, listener) or endpoints_before.get(listener.name)
        if endpoint is not None:
            found.append(endpoint)
    return tuple(found)


def bootstrap_addresses(world: World, cluster: BrokerCluster) -> Iterator[ListenerStatus]:
    """The bootstrap address of each listener. One whose host or port is not known is left out."""
    inside_host = f"{names.bootstrap_service(world.metadata.name)}.{world.metadata.namespace}.svc"
    ports_outside = world.node_ports.get(names.external_bootstrap_service(world.metadata.name), {})
    for listener in listeners_of(cluster):
        host, port = inside_host, listener.port
        if listener.type is not ListenerType.INTERNAL:
            host = listener.advertised_host or _any_address(world)
            port = ports_outside.get(listener.name, 0)
        if host and port:
            yield ListenerStatus(
                name=listener.name,
                bootstrap_servers=f"{host}:{port}",
                certificates=world.ca_certificates if listener.is_issued else (),
            )


def _inside(world: World, pod: str) -> str:
    """The DNS name of a broker's pod inside the Kubernetes cluster."""
    return f"{pod}.{names.brokers_service(world.metadata.name)}.{world.metadata.namespace}.svc"


def _outside(world: World, broker_id: BrokerId, listener: Listener) -> Endpoint | None:
    """The broker's address for clients outside of Kubernetes; None if host or port is unknown."""
    service = names.external_broker_service(world.metadata.name, broker_id)
    port = world.node_ports.get(service, {}).get(listener.name)
    host = listener.advertised_host or _address(world, broker_id)
    return Endpoint(listener=listener.name, host=host, port=port) if host and port else None


def _address(world: World, broker_id: BrokerId) -> str:
    """The address of the node on which the broker's pod runs; empty if unknown."""
    pod = world.pods.get(broker_id)
    node = None if pod is None else world.nodes.get(pod.node)
    return "" if node is None else node.address


def _any_address(world: World) -> str:
    """The address of the first broker's node that is known; empty if none is. Every node forwards a
    node port, so any node will do."""
    return next(filter(None, (_address(world, broker_id) for broker_id in sorted(world.pods))), "")
