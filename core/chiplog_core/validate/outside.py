"""Rules for the settings with which listeners are reached from outside of Kubernetes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address

from chiplog_core.ids import BrokerId
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.model.listener_configuration import (
    DNS_NAME_MEANING,
    DNS_NAME_PATTERN,
    HOST_PATTERN,
    NODE_ID,
    ListenerBootstrap,
    ListenerBroker,
    filled,
)
from chiplog_core.naming.api import GROUP
from chiplog_core.problems import Problem
from chiplog_core.validate.pod_template import KEY_REMEDY, check_keys

INTERNAL, NODE_PORT = ListenerType.INTERNAL, ListenerType.NODE_PORT
LOAD_BALANCER, INGRESS = ListenerType.LOAD_BALANCER, ListenerType.INGRESS
TLS_ROUTE = ListenerType.TLS_ROUTE

RESERVED_ANNOTATIONS = f"^([^/]*[.])?{GROUP.replace('.', '[.]')}/.*$"
SNIPPETS = "^.*snippet.*$"
"""Annotations with which an Ingress changes the configuration of a proxy for everybody. A user who
may write BrokerClusters need not have the permission to create Ingresses."""
HOST_REMEDY = "write a DNS name or an IP address"
SHARED_REMEDY = "choose another host name"
SNIPPET_REMEDY = "remove it: it would change the proxy's configuration for everybody"


NO_TLS_ROUTES = (
    "listeners of type tlsroute are not supported by this Kubernetes cluster, which has no "
    "TLSRoute of gateway.networking.k8s.io/v1: install the Gateway API, version 1.5 or later, or "
    "set spec.listeners[].type to ingress or loadbalancer"
)
"""Why the TLSRoutes of a cluster cannot be created, and what to do."""


def check_outside(listener: Listener, field: str) -> Iterator[Problem]:
    """Problems with settings of a listener that its type does not have, or that it needs."""
    yield from _of_other_types(listener, field)
    if listener.bootstrap.alternative_names and not listener.tls:
        message = "is set, but the listener has no TLS"
        place = f"{field}.configuration.bootstrap.alternativeNames"
        yield Problem(place, message, "remove it, or set tls to true")
    if listener.is_routed:
        yield from _routed(listener, field)
    yield from _hosts(listener, f"{field}.configuration")
    yield from _metadata(listener, f"{field}.configuration")


def _of_other_types(listener: Listener, field: str) -> Iterator[Problem]:
    """Problems with settings that only other types have."""
    configured, place = listener.configured, f"{field}.configuration"
    routed, own = (INGRESS, TLS_ROUTE), (LOAD_BALANCER, INGRESS, TLS_ROUTE)
    for types, settings in (
        ((LOAD_BALANCER, INGRESS), {f"{place}.class": configured.class_}),
        ((TLS_ROUTE,), {f"{place}.parentRefs": configured.parent_refs}),
        (
            own,
            {
                f"{field}.advertisedPort": listener.advertised_port,
                f"{place}.bootstrap.labels": listener.bootstrap.labels,
                f"{place}.bootstrap.annotations": listener.bootstrap.annotations,
                **_brokers(listener, place, "labels", "annotations"),
            },
        ),
        (
            (LOAD_BALANCER,),
            {
                f"{place}.loadBalancerSourceRanges": configured.load_balancer_source_ranges,
                f"{place}.externalTrafficPolicy": configured.external_traffic_policy,
                f"{place}.createBootstrapService": configured.create_bootstrap_service,
            },
        ),
        (
            routed,
            {
                f"{place}.hostTemplate": configured.host_template,
                f"{place}.bootstrap.host": listener.bootstrap.host,
                **_brokers(listener, place, "host"),
            },
        ),
        (
            (NODE_PORT, *own),
            {
                f"{place}.advertisedHostTemplate": configured.advertised_host_template,
                **_brokers(listener, place, "advertised_host", "advertised_port"),
            },
        ),
    ):
        if listener.type not in types:
            for name, value in settings.items():
                if value is not None and value not in ((), {}):
                    words = f"type {types[0]} uses" if len(types) == 1 else _words(types)
                    message = f"is set, but only {words} it"
                    yield Problem(name, message, "remove it")


def _words(types: Sequence[ListenerType]) -> str:
    return f"types {', '.join(types[:-1])} and {types[-1]} use"


def _brokers(listener: Listener, place: str, *names: str) -> Mapping[str, object]:
    """The fields with these names in the settings for single brokers."""
    return {
        f"{place}.brokers[{index}].{_camel(name)}": getattr(one, name)
        for index, one in enumerate(listener.configured.brokers)
        for name in names
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _routed(listener: Listener, field: str) -> Iterator[Problem]:
    """Problems with what a listener behind a proxy needs: TLS, because the proxy finds the broker
    by the host name in it, and a host name of its own for the bootstrap address and each broker."""
    missing = f"is missing, but type {listener.type} needs it"
    if not listener.tls:
        message = f"is false, but type {listener.type} needs TLS"
        yield Problem(f"{field}.tls", message, "set it to true")
    place = f"{field}.configuration"
    if listener.type is TLS_ROUTE and not listener.configured.parent_refs:
        yield Problem(f"{place}.parentRefs", missing, "name the Gateway, like name: kafka")
    if listener.configured.host_template is None:
        remedy = "set it to a DNS name like broker-{nodeId}.kafka.example.com"
        yield Problem(f"{place}.hostTemplate", missing, remedy)
    if listener.bootstrap.host is None:
        remedy = "set it to a DNS name like bootstrap.kafka.example.com"
        yield Problem(f"{place}.bootstrap.host", missing, remedy)


def _hosts(listener: Listener, place: str) -> Iterator[Problem]:
    """Problems with hosts that the schema cannot find."""
    configured = listener.configured
    for name, template in (
        ("hostTemplate", configured.host_template),
        ("advertisedHostTemplate", configured.advertised_host_template),
    ):
        host = filled(template, BrokerId(1))
        if host is not None and not re.fullmatch(DNS_NAME_PATTERN, host):
            yield Problem(f"{place}.{name}", f"is {template!r}", f"write {DNS_NAME_MEANING}")
    if listener.advertised_host is not None and not _is_host(listener.advertised_host):
        field = f"{place.removesuffix('configuration')}advertisedHost"
        yield Problem(field, f"is {listener.advertised_host!r}", HOST_REMEDY)
    for index, name in enumerate(listener.bootstrap.alternative_names):
        if not _is_host(name):
            field = f"{place}.bootstrap.alternativeNames[{index}]"
            yield Problem(field, f"is {name!r}", HOST_REMEDY)
    for index, one in enumerate(configured.brokers):
        field = f"{place}.brokers[{index}]"
        if one.host is not None and not re.fullmatch(DNS_NAME_PATTERN, one.host):
            yield Problem(f"{field}.host", f"is {one.host!r}", f"write {DNS_NAME_MEANING}")
        host = one.advertised_host
        if host is not None and not _is_host(host):
            yield Problem(f"{field}.advertisedHost", f"is {host!r}", HOST_REMEDY)
    yield from _shared_hosts(listener, place)


def _is_host(text: str) -> bool:
    """Whether the text is a DNS name or an address, and has no port."""
    if not re.fullmatch(HOST_PATTERN, text):
        return False
    try:
        return ":" not in text or ip_address(text).version == 6
    except ValueError:
        return False


def _shared_hosts(listener: Listener, place: str) -> Iterator[Problem]:
    """Problems with hosts that two brokers have, or a broker and the bootstrap address: the proxy
    would lead clients to another broker than the one that they asked for."""
    bootstrap = listener.bootstrap.host
    owners = {} if bootstrap is None else {bootstrap: "bootstrap.host"}
    by_template = None if bootstrap is None else _by_template(listener, bootstrap)
    if by_template is not None:
        message = f"is {bootstrap}, the host of broker {by_template}"
        yield Problem(f"{place}.bootstrap.host", message, SHARED_REMEDY)
    for index, one in enumerate(listener.configured.brokers):
        if one.host is None:
            continue
        by_template = _by_template(listener, one.host)
        owner = owners.get(one.host)
        if owner is None and by_template not in (None, one.broker):
            owner = f"the host of broker {by_template}"
        if owner is not None:
            message = f"is {one.host}, {owner}"
            yield Problem(f"{place}.brokers[{index}].host", message, SHARED_REMEDY)
        owners.setdefault(one.host, f"the host of broker {one.broker}")


def check_proxies(listeners: Sequence[Listener]) -> Iterator[Problem]:
    """Problems with listeners that have the same hosts at the same proxy, which would lead clients
    of one to the other."""
    for index, listener in enumerate(listeners):
        for other in listeners[:index]:
            if listener.is_routed and _proxy(listener) == _proxy(other):
                place = f"spec.listeners[{index}].configuration"
                message = f"is that of listener {other.name}"
                template = listener.configured.host_template
                if template is not None and template == other.configured.host_template:
                    yield Problem(f"{place}.hostTemplate", message, SHARED_REMEDY)
                host = listener.bootstrap.host
                if host is not None and host == other.bootstrap.host:
                    yield Problem(f"{place}.bootstrap.host", message, SHARED_REMEDY)


def _proxy(listener: Listener) -> object:
    """What the listener says of its proxy."""
    return listener.type, listener.configured.class_, listener.configured.parent_refs


def _by_template(listener: Listener, host: str) -> BrokerId | None:
    """The broker to which the template gives this host, unless it has another one; None if there is
    none."""
    before, _, after = (listener.configured.host_template or "").partition(NODE_ID)
    match = re.fullmatch(f"{re.escape(before)}(0|[1-9][0-9]{{0,9}}){re.escape(after)}", host)
    if match is None:
        return None
    broker_id = BrokerId(int(match[1]))
    return broker_id if listener.route_host(broker_id) == host else None


def _metadata(listener: Listener, place: str) -> Iterator[Problem]:
    """Problems with labels and annotations that are reserved."""
    found: dict[str, ListenerBootstrap | ListenerBroker] = {
        f"{place}.brokers[{index}]": one for index, one in enumerate(listener.configured.brokers)
    }
    for field, given in {f"{place}.bootstrap": listener.bootstrap, **found}.items():
        yield from check_keys(f"{field}.labels", given.labels)
        yield from _annotations(f"{field}.annotations", given.annotations)


def _annotations(field: str, keys: Iterable[str]) -> Iterator[Problem]:
    """Problems with annotations. Those of Kubernetes' own domains are allowed, unlike for pods: by
    them load balancers and proxies are configured."""
    for key in keys:
        if re.match(RESERVED_ANNOTATIONS, key, re.DOTALL):
            yield Problem(f"{field}[{key}]", "is reserved", KEY_REMEDY)
        if re.match(SNIPPETS, key, re.DOTALL):
            yield Problem(f"{field}[{key}]", "is not allowed", SNIPPET_REMEDY)
