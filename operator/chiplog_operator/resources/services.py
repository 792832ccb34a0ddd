"""The Services: names and addresses under which brokers are reached, from inside and outside.

All of them publish pods that are not ready. A broker that still catches up must be reachable by
its peers, and a client that asks any broker learns from its metadata where to go.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME, Listener, ListenerType
from chiplog_core.naming import names, ports
from chiplog_core.planner.brokers.node_ports import BOOTSTRAP, given_node_port
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.listeners import of_type
from chiplog_operator.resources.objects import (
    broker_object,
    broker_selector,
    brokers_selector,
    cluster_object,
)

HeldPorts: TypeAlias = Mapping[BrokerId, Mapping[str, int]]
"""Broker id -> listener -> node port, as `planner.node_ports.node_ports_of` has them."""


def brokers_service(cluster: BrokerCluster) -> Manifest:
    """The headless Service that gives each broker's pod its DNS name."""
    spec = service_spec(brokers_selector(cluster), _inside_ports(cluster), clusterIP="None")
    name = names.brokers_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def bootstrap_service(cluster: BrokerCluster) -> Manifest:
    """The Service with the bootstrap address inside of Kubernetes, for any broker."""
    spec = service_spec(brokers_selector(cluster), _inside_ports(cluster), type="ClusterIP")
    name = names.bootstrap_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def external_services(
    cluster: BrokerCluster, broker_ids: Iterable[BrokerId], held: HeldPorts
) -> list[Manifest]:
    """The bootstrap Service for clients outside of Kubernetes, and a Service for each broker.
    Empty if the cluster has no listener of type NodePort. `held` are the allocated node ports."""
    if not of_type(cluster, ListenerType.NODE_PORT):
        return []
    return [
        _external_bootstrap_service(cluster, held),
        *(_external_broker_service(cluster, broker_id, held) for broker_id in broker_ids),
    ]


def _external_bootstrap_service(cluster: BrokerCluster, held: HeldPorts) -> Manifest:
    """The Service of type NodePort that leads clients outside of Kubernetes to any broker."""
    # Node ports are planned by broker id. The bootstrap Service has an id that no broker has.
    place = BrokerId(BOOTSTRAP)
    of_ports = _outside_ports(cluster, place, held)
    spec = service_spec(brokers_selector(cluster), of_ports, type="NodePort")
    name = names.external_bootstrap_service(cluster.metadata.name)
    return cluster_object(kinds.SERVICES, name, cluster, {"spec": spec})


def _external_broker_service(
    cluster: BrokerCluster, broker_id: BrokerId, held: HeldPorts
) -> Manifest:
    """The Service of type NodePort that leads clients outside of Kubernetes to one broker."""
    of_ports = _outside_ports(cluster, broker_id, held)
    spec = service_spec(broker_selector(cluster, broker_id), of_ports, type="NodePort")
    name = names.external_broker_service(cluster.metadata.name, broker_id)
    return broker_object(kinds.SERVICES, name, cluster, broker_id, {"spec": spec})


def service_spec(
    selector: Mapping[str, str], of_ports: Sequence[Mapping[str, object]], **more_fields: object
) -> dict[str, object]:
    """The spec of a Service. It also publishes pods that are not ready, because a broker that
    catches up must be reachable by its peers."""
    return {
        **more_fields,
        "publishNotReadyAddresses": True,
        "selector": selector,
        "ports": of_ports,
    }


def _inside_ports(cluster: BrokerCluster) -> list[dict[str, object]]:
    """The ports of all listeners that are reached from inside of Kubernetes."""
    return [
        service_port(INTERNAL_LISTENER_NAME, ports.INTERNAL),
        *(
            service_port(listener.name, listener.port)
            for listener in of_type(cluster, ListenerType.INTERNAL)
        ),
    ]


def _outside_ports(
    cluster: BrokerCluster, place: BrokerId, held: HeldPorts
) -> list[dict[str, object]]:
    """The external ports of a Service. `place` is the broker id, or `BOOTSTRAP`: the offset of the
    Service's node port from `nodePortBase`."""
    return [
        service_port(listener.name, listener.port)
        | _node_port(listener, place, held.get(place, {}))
        for listener in of_type(cluster, ListenerType.NODE_PORT)
    ]


def service_port(name: str, port: int) -> dict[str, object]:
    """A port of a Service, with its listener's name, by which its node port is found again."""
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}


def _node_port(listener: Listener, place: int, held: Mapping[str, int]) -> dict[str, object]:
    """The field `nodePort`: the port from the spec, or the one that was allocated before. Empty if
    Kubernetes is to choose one."""
    node_port = given_node_port(listener, place) or held.get(listener.name)
    return {} if node_port is None else {"nodePort": node_port}
