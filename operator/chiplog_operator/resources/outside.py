"""The Services, Ingresses and TLSRoutes of listeners behind load balancers and proxies: each such
listener has its own, for its bootstrap address and for each broker.

An Ingress is for a proxy that passes TLS on without ending it (SSL passthrough), because Kafka's
protocol is not HTTP. It finds the broker by the host name in the client's first message (SNI). Its
annotations are those that Strimzi sets:
https://strimzi.io/docs/operators/latest/deploying.html#proc-accessing-kafka-using-ingress-str
"""

from collections.abc import Iterable, Iterator, Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.manifest.writing import write
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_operator.resources.listeners import of_type
from chiplog_operator.resources.objects import (
    broker_object,
    broker_selector,
    brokers_selector,
    cluster_object,
)
from chiplog_operator.resources.services import service_port, service_spec

PASSTHROUGH = {
    "ingress.kubernetes.io/ssl-passthrough": "true",
    "nginx.ingress.kubernetes.io/ssl-passthrough": "true",
    "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS",
}


def own_services(cluster: BrokerCluster, broker_ids: Iterable[BrokerId]) -> Iterator[Manifest]:
    """The Services of listeners that have their own."""
    ids = tuple(broker_ids)
    for listener in cluster.listeners:
        if listener.has_own_services:
            for place in _places(listener, ids):
                yield _service(cluster, listener, place)


def ingresses(cluster: BrokerCluster, broker_ids: Iterable[BrokerId]) -> Iterator[Manifest]:
    """The Ingresses of listeners that have some."""
    ids = tuple(broker_ids)
    for listener in of_type(cluster, ListenerType.INGRESS):
        for place in _places(listener, ids):
            host = listener.bootstrap.host if place is None else listener.route_host(place)
            if host is not None:  # a spec without it is refused
                yield _ingress(cluster, listener, place, host)


def tls_routes(cluster: BrokerCluster, broker_ids: Iterable[BrokerId]) -> Iterator[Manifest]:
    """The TLSRoutes of listeners that have some."""
    ids = tuple(broker_ids)
    for listener in of_type(cluster, ListenerType.TLS_ROUTE):
        for place in _places(listener, ids):
            host = listener.bootstrap.host if place is None else listener.route_host(place)
            if host is not None:  # a spec without it is refused
                yield _tls_route(cluster, listener, place, host)


def _places(listener: Listener, broker_ids: Iterable[BrokerId]) -> list[BrokerId | None]:
    """For what the listener has objects: None is the bootstrap address."""
    bootstrap = [None] if listener.has_bootstrap_service else []
    return [*bootstrap, *broker_ids]


def _port(listener: Listener) -> int:
    """The port of the listener's Services. Clients reach that of a load balancer; a proxy that of
    an ingress."""
    is_balanced = listener.type is ListenerType.LOAD_BALANCER
    return listener.outside_port if is_balanced else listener.port


def _balancer_fields(listener: Listener) -> dict[str, object]:
    """The fields of a Service that ask for a load balancer."""
    configured = listener.configured
    found: dict[str, object] = {"type": "LoadBalancer"}
    if configured.class_ is not None:
        found["loadBalancerClass"] = configured.class_
    if configured.load_balancer_source_ranges:
        found["loadBalancerSourceRanges"] = list(configured.load_balancer_source_ranges)
    if configured.external_traffic_policy is not None:
        found["externalTrafficPolicy"] = configured.external_traffic_policy.value
    return found


def _service(cluster: BrokerCluster, listener: Listener, place: BrokerId | None) -> Manifest:
    """The Service of the bootstrap address or a broker."""
    selector = brokers_selector(cluster)
    if place is not None:
        selector = broker_selector(cluster, place)
    is_balanced = listener.type is ListenerType.LOAD_BALANCER
    fields = _balancer_fields(listener) if is_balanced else {"type": "ClusterIP"}
    port = {**service_port(listener.name, listener.port), "port": _port(listener)}
    made = _object(
        kinds.SERVICES, cluster, listener, place, service_spec(selector, [port], **fields)
    )
    return _with_metadata(made, listener, place) if is_balanced else made


def _ingress(
    cluster: BrokerCluster, listener: Listener, place: BrokerId | None, host: str
) -> Manifest:
    """The Ingress that leads from the host to the Service."""
    name = names.listener_service(cluster.metadata.name, listener.name, place)
    service = {"name": name, "port": {"number": _port(listener)}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    class_ = listener.configured.class_
    spec = {
        **({} if class_ is None else {"ingressClassName": class_}),
        "rules": [{"host": host, "http": {"paths": [path]}}],
        "tls": [{"hosts": [host]}],
    }
    made = _object(kinds.INGRESSES, cluster, listener, place, spec)
    return _with_metadata(made, listener, place, PASSTHROUGH)


def _tls_route(
    cluster: BrokerCluster, listener: Listener, place: BrokerId | None, host: str
) -> Manifest:
    """The TLSRoute that leads from the host to the Service."""
    name = names.listener_service(cluster.metadata.name, listener.name, place)
    spec = {
        "parentRefs": [write(one) for one in listener.configured.parent_refs],
        "hostnames": [host],
        "rules": [{"backendRefs": [{"name": name, "port": _port(listener)}]}],
    }
    made = _object(kinds.TLS_ROUTES, cluster, listener, place, spec)
    return _with_metadata(made, listener, place)


def _object(
    kind: Kind,
    cluster: BrokerCluster,
    listener: Listener,
    place: BrokerId | None,
    spec: Mapping[str, object],
) -> Manifest:
    """The listener's object for the bootstrap address or a broker."""
    name, parts = (
        names.listener_service(cluster.metadata.name, listener.name, place),
        {"spec": spec},
    )
    if place is None:
        return cluster_object(kind, name, cluster, parts)
    return broker_object(kind, name, cluster, place, parts)


def _with_metadata(
    made: Manifest,
    listener: Listener,
    place: BrokerId | None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """The object with the labels and annotations of the spec. The operator's own labels, by which
    it finds the object, stay."""
    given = listener.bootstrap if place is None else listener.configured.of_broker(place)
    metadata = made["metadata"]
    return {
        **made,
        "metadata": {
            **metadata,
            "labels": {**given.labels, **metadata["labels"]},
            "annotations": {**(annotations or {}), **given.annotations},
        },
    }
