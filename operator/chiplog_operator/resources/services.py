"""The Services: names and addresses under which brokers are reached, from inside and outside.

All of them publish pods that are not ready. A broker that still catches up must be reachable by
its peers, and a client that asks any broker learns from its metadata where to go.
"""

from collections.abc import Iterable, Mapping, Sequence

from chiplog_core import names, ports
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME, Listener, ListenerType
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.listeners import of_type
from chiplog_operator.resources.objects import (
    broker_object,
    broker_selector,
    brokers_selector,
    cluster_object,
)


def brokers_service(cluster: BrokerCluster) -> Manifest:
    """Headless: gives each broker's pod its DNS name."""
    spec = _spec(brokers_selector(cluster), _inside_ports(cluster), clusterIP="None")
    name = names.brokers_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def bootstrap_service(cluster: BrokerCluster) -> Manifest:
    """Where clients inside the Kubernetes cluster begin: any broker."""
    spec = _spec(brokers_selector(cluster), _inside_ports(cluster), type="ClusterIP")
    name = names.bootstrap_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def external_services(cluster: BrokerCluster, broker_ids: Iterable[BrokerId]) -> list[Manifest]:
    """Where clients outside begin, and the address of each broker; none without such listeners."""
    if not of_type(cluster, ListenerType.NODE_PORT):
        return []
    return [
        _external_bootstrap_service(cluster),
        *(_external_broker_service(cluster, broker_id) for broker_id in broker_ids),
    ]


def _external_bootstrap_service(cluster: BrokerCluster) -> Manifest:
    spec = _spec(brokers_selector(cluster), _outside_ports(cluster, 0), type="NodePort")
    name = names.external_bootstrap_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def _external_broker_service(cluster: BrokerCluster, broker_id: BrokerId) -> Manifest:
    spec = _spec(
        broker_selector(cluster, broker_id), _outside_ports(cluster, broker_id), type="NodePort"
    )
    name = names.external_broker_service(cluster.metadata.name, broker_id)
    return broker_object(kinds.SERVICES, name, cluster, broker_id, {"spec": spec})


def _spec(
    selector: Mapping[str, str], of_ports: Sequence[Mapping[str, object]], **how: str
) -> dict[str, object]:
    return {
        **how,
        "publishNotReadyAddresses": True,
        "selector": selector,
        "ports": of_ports,
    }


def _inside_ports(cluster: BrokerCluster) -> list[dict[str, object]]:
    return [
        _port(INTERNAL_LISTENER_NAME, ports.INTERNAL),
        *(_port(one.name, one.port) for one in of_type(cluster, ListenerType.INTERNAL)),
    ]


def _outside_ports(cluster: BrokerCluster, place: int) -> list[dict[str, object]]:
    """The ports of a Service; `place` counts from the base of the node ports."""
    return [
        _port(one.name, one.port) | _node_port(one, place)
        for one in of_type(cluster, ListenerType.NODE_PORT)
    ]


def _port(name: str, port: int) -> dict[str, object]:
    # Named like its listener: by this name the node port is found again.
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}


def _node_port(listener: Listener, place: int) -> dict[str, object]:
    if listener.node_port_base is None:
        return {}
    node_port = listener.node_port_base + place
    # Ids are never reused, so after many replaced brokers one may lie beyond the last port.
    return {"nodePort": node_port} if node_port <= ports.MAX_NODE_PORT else {}
