"""The addresses under which clients reach brokers.

The address of a load balancer is in the status of its Service, and may change. What was advertised
before stays until a new one is known and, with a certificate of the cluster CA, until the broker
certainly shows a certificate that has it: a client would refuse the connection otherwise.
"""

from collections.abc import Iterable, Iterator

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Endpoint
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import (
    INTERNAL_LISTENER_NAME,
    MAX_BOOTSTRAP_LENGTH,
    Listener,
    ListenerStatus,
    ListenerType,
)
from chiplog_core.naming import names, ports
from chiplog_core.observed.world import World


def broker_endpoints(
    world: World, cluster: BrokerCluster, broker_id: BrokerId, before: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """The broker's address at each listener. One that is not known now stays as in `before`."""
    endpoints_before = {endpoint.listener: endpoint for endpoint in before}
    host = _inside(world, names.pod(world.metadata.name, broker_id))
    found = [Endpoint(listener=INTERNAL_LISTENER_NAME, host=host, port=ports.INTERNAL)]
    for listener in cluster.listeners:
        if listener.type is ListenerType.INTERNAL:
            found.append(Endpoint(listener=listener.name, host=host, port=listener.port))
            continue
        endpoint_before = endpoints_before.get(listener.name)
        endpoint = _outside(world, broker_id, listener, endpoint_before) or endpoint_before
        if endpoint is not None:
            found.append(endpoint)
    return tuple(found)


def bootstrap_addresses(world: World, cluster: BrokerCluster) -> Iterator[ListenerStatus]:
    """The bootstrap address of each listener. One whose host or port is not known is left out."""
    before = {status.name: status.bootstrap_servers for status in cluster.status.listeners}
    for listener in cluster.listeners:
        servers = _bootstrap_servers(world, listener, before.get(listener.name, ""))
        if servers:
            yield ListenerStatus(
                name=listener.name,
                bootstrap_servers=servers,
                certificates=world.ca_certificates if listener.is_issued else (),
            )


def _bootstrap_servers(world: World, listener: Listener, before: str) -> str:
    """The bootstrap address of a listener; empty if it is not known."""
    if listener.type is ListenerType.INTERNAL:
        service = names.bootstrap_service(world.metadata.name)
        return joined(f"{service}.{world.metadata.namespace}.svc", listener.port)
    if listener.type is ListenerType.NODE_PORT:
        service = names.external_bootstrap_service(world.metadata.name)
        port = world.node_ports.get(service, {}).get(listener.name, 0)
        given = (listener.advertised_host, *map(listener.given_host, _active(world)))
        return joined(next(filter(None, given), "") or _any_address(world), port)
    if listener.is_routed:
        return joined(listener.bootstrap.host or "", listener.outside_port)
    if not listener.has_bootstrap_service:
        return _first_brokers(world, listener)
    host = world.service_addresses.get(listener_service(world, listener), "")
    is_new = host != host_of(before)
    if not host or (is_new and not is_shown(world, listener, _active(world), host)):
        return before
    return joined(host, listener.outside_port)


def _first_brokers(world: World, listener: Listener) -> str:
    """The addresses that the first brokers advertise, in place of a bootstrap address: as many as
    its length allows, at most three."""
    found = ""
    for broker_id in _active(world):
        for endpoint in world.brokers[broker_id].spec.endpoints:
            if endpoint.listener == listener.name and found.count(",") < 2:
                longer = f"{found},{joined(endpoint.host, endpoint.port)}".lstrip(",")
                found = longer if len(longer) <= MAX_BOOTSTRAP_LENGTH else found
    return found


def _active(world: World) -> tuple[BrokerId, ...]:
    """The brokers that are not retired, by their ids."""
    return tuple(one for one, broker in sorted(world.brokers.items()) if not broker.spec.retired)


def joined(host: str, port: int) -> str:
    """Host and port as clients write them; empty if one of them is not known."""
    if not host or not port:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of an address as `joined` writes it."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _inside(world: World, pod: str) -> str:
    """The DNS name of a broker's pod inside the Kubernetes cluster."""
    return f"{pod}.{names.brokers_service(world.metadata.name)}.{world.metadata.namespace}.svc"


def _outside(
    world: World, broker_id: BrokerId, listener: Listener, before: Endpoint | None
) -> Endpoint | None:
    """The broker's address for clients outside of Kubernetes; None if host or port is unknown, or
    its certificate does not have the host yet."""
    host, port = listener.given_host(broker_id), listener.outside_port
    if host is not None and before is not None and host != before.host:
        # A proxy knows the broker by its new host only, so nobody is served by the old one.
        is_routed = host == listener.route_host(broker_id)
        if not is_routed and not is_shown(world, listener, (broker_id,), host):
            return None
    if listener.type is ListenerType.NODE_PORT:
        service = names.external_broker_service(world.metadata.name, broker_id)
        port = world.node_ports.get(service, {}).get(listener.name, 0)
        host = host or _address(world, broker_id)
    elif not host:
        host = _balancer(world, broker_id, listener, before)
    port = listener.configured.of_broker(broker_id).advertised_port or port
    return Endpoint(listener=listener.name, host=host, port=port) if host and port else None


def _balancer(
    world: World, broker_id: BrokerId, listener: Listener, before: Endpoint | None
) -> str:
    """The address of the broker's load balancer; empty if it is unknown, or its certificate does
    not have it yet."""
    host = world.service_addresses.get(listener_service(world, listener, broker_id), "")
    is_old = before is not None and before.host == host
    return host if is_old or is_shown(world, listener, (broker_id,), host) else ""


def is_shown(world: World, listener: Listener, broker_ids: Iterable[BrokerId], host: str) -> bool:
    """Whether clients that check the certificates of these brokers find the host in them."""
    if not listener.is_issued:
        return True
    return all(host in world.certified_hosts.get(one, ()) for one in broker_ids)


def listener_service(world: World, listener: Listener, broker_id: BrokerId | None = None) -> str:
    """The listener's own Service: for the bootstrap address, or one broker."""
    return names.listener_service(world.metadata.name, listener.name, broker_id)


def _address(world: World, broker_id: BrokerId) -> str:
    """The address of the node on which the broker's pod runs; empty if unknown."""
    pod = world.pods.get(broker_id)
    node = None if pod is None else world.nodes.get(pod.node)
    return "" if node is None else node.address


def _any_address(world: World) -> str:
    """The address of the first broker's node that is known; empty if none is. Every node forwards a
    node port, so any node will do."""
    return next(filter(None, (_address(world, broker_id) for broker_id in sorted(world.pods))), "")
