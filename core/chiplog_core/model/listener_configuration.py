"""More settings of a listener: its certificate, and how it is reached from outside of Kubernetes.

The fields have the names and meanings of Strimzi's `GenericKafkaListenerConfiguration`:
https://strimzi.io/docs/operators/latest/configuring.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import BrokerId
from chiplog_core.limits import (
    MAX_ALTERNATIVE_NAMES,
    MAX_BROKERS,
    MAX_LABEL_LENGTH,
    MAX_NAME_LENGTH,
    MAX_PARENT_REFS,
    MAX_SOURCE_RANGES,
)
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern, Range
from chiplog_core.model.certificates import CertificateAndKey
from chiplog_core.model.network_policy import Cidr
from chiplog_core.model.references import Namespace, ObjectName
from chiplog_core.naming import ports

NODE_ID = "{nodeId}"
"""What a template has in place of the broker's id."""

HOST_PATTERN = "[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?"
DNS_NAME_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
DNS_NAME_MEANING = "a DNS name in lower case"

Port = Annotated[int, Range(ports.MIN_PORT, ports.MAX_PORT)]
Host = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern(HOST_PATTERN, "a DNS name or an IP address"),
]
DnsName = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern(DNS_NAME_PATTERN, DNS_NAME_MEANING),
]
BrokerHost = Annotated[str, Length(MAX_NAME_LENGTH, minimum=1)]
"""A host of one broker. `validate.outside` checks it: rules in the schema for hundreds of brokers
would cost more than the API server allows for the whole kind."""
HostTemplate = Annotated[
    str,
    Length(240, minimum=1),
    Pattern(
        r"([a-z0-9][-a-z0-9.]*)?\{nodeId\}([-a-z0-9.]*[a-z0-9])?",
        "a DNS name in lower case with {nodeId} where the broker's id is to be, like "
        "broker-{nodeId}.example.com",
    ),
]
ObjectLabels = Annotated[Mapping[str, Annotated[str, Length(MAX_LABEL_LENGTH)]], Entries(20)]
ObjectAnnotations = Annotated[Mapping[str, Annotated[str, Length(1_024)]], Entries(20)]


class TrafficPolicy(StrEnum):
    """To which nodes' pods a node forwards connections from outside."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRef:
    """What a TLSRoute is attached to, usually a Gateway; as in its spec."""

    group: Annotated[
        str | None, "API group. Default: gateway.networking.k8s.io.", Length(MAX_NAME_LENGTH)
    ] = None
    kind: Annotated[str | None, "Kind. Default: Gateway.", Length(63, minimum=1)] = None
    namespace: Annotated[Namespace | None, "Namespace. Default: that of the cluster."] = None
    name: Annotated[ObjectName, "Name of the Gateway."]
    section_name: Annotated[ObjectName | None, "Name of one listener of the Gateway."] = None
    port: Annotated[Port | None, "Port of the Gateway's listeners."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerBootstrap:
    """Settings of a listener's bootstrap address."""

    host: Annotated[
        DnsName | None,
        "Only for ingress and tlsroute, which need it: the host name of the bootstrap address.",
    ] = None
    alternative_names: Annotated[
        tuple[Host, ...],
        "Only with tls: more names and addresses that the brokers' certificates are valid for, "
        "like a DNS name of yours that leads to the bootstrap address.",
        Items(MAX_ALTERNATIVE_NAMES, unique=True),
    ] = ()
    labels: Annotated[
        ObjectLabels,
        "Not for internal and nodeport: labels of the bootstrap Service, Ingress or TLSRoute.",
    ] = field(default_factory=dict)
    annotations: Annotated[
        ObjectAnnotations,
        "Not for internal and nodeport: annotations of the bootstrap Service, Ingress or TLSRoute.",
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerBroker:
    """Settings of a listener for one broker."""

    broker: Annotated[BrokerId, "Id of the broker."]
    host: Annotated[
        BrokerHost | None,
        "Only for ingress and tlsroute: the broker's host name. Default: by hostTemplate.",
    ] = None
    advertised_host: Annotated[
        BrokerHost | None,
        "Not for internal: the host that the broker advertises to clients. Default: by "
        "advertisedHostTemplate.",
    ] = None
    advertised_port: Annotated[
        Port | None, "Not for internal: the port that the broker advertises to clients."
    ] = None
    labels: Annotated[
        ObjectLabels,
        "Not for internal and nodeport: labels of the broker's Service, Ingress or TLSRoute.",
    ] = field(default_factory=dict)
    annotations: Annotated[
        ObjectAnnotations,
        "Not for internal and nodeport: annotations of the broker's Service, Ingress or TLSRoute.",
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfiguration:
    """More settings of a listener."""

    broker_cert_chain_and_key: Annotated[
        CertificateAndKey | None,
        "Only with tls: the certificate that all brokers show to clients of this listener. "
        "Default: each broker has a certificate that the cluster CA issued.",
    ] = None
    class_: Annotated[
        str | None,
        "Only for loadbalancer and ingress: loadBalancerClass of the Services, or "
        "ingressClassName of the Ingresses. Default: that of the Kubernetes cluster.",
        Length(MAX_NAME_LENGTH, minimum=1),
    ] = None
    bootstrap: Annotated[
        ListenerBootstrap | None, "Settings of the bootstrap address, which leads to any broker."
    ] = None
    brokers: Annotated[
        tuple[ListenerBroker, ...],
        "Settings for single brokers.",
        Items(MAX_BROKERS, key=("broker",)),
    ] = ()
    host_template: Annotated[
        HostTemplate | None,
        "Only for ingress and tlsroute, which need it: the brokers' host names, with {nodeId} in "
        "place of the broker's id.",
    ] = None
    advertised_host_template: Annotated[
        HostTemplate | None,
        "Not for internal: the hosts that brokers advertise to clients, with {nodeId} in place of "
        "the broker's id. Default: the addresses of their load balancers or nodes, or for ingress "
        "and tlsroute the brokers' host names.",
    ] = None
    parent_refs: Annotated[
        tuple[ParentRef, ...],
        "Only for tlsroute, which needs it: the Gateways to which the routes are attached.",
        Items(MAX_PARENT_REFS, ordered=True),
    ] = ()
    load_balancer_source_ranges: Annotated[
        tuple[Cidr, ...],
        "Only for loadbalancer: the address blocks from which clients may connect. Default: all.",
        Items(MAX_SOURCE_RANGES, unique=True),
    ] = ()
    external_traffic_policy: Annotated[
        TrafficPolicy | None,
        "Only for loadbalancer. Cluster: every node takes connections for every broker. Local: "
        "only the broker's own node does, and brokers see the addresses of clients. Default: "
        "Cluster.",
    ] = None
    create_bootstrap_service: Annotated[
        bool | None,
        "Only for loadbalancer: false saves the load balancer of the bootstrap address; the "
        "addresses of brokers take its place. Default: true.",
    ] = None

    def of_broker(self, broker_id: BrokerId) -> ListenerBroker:
        """The settings for a broker."""
        found = (one for one in self.brokers if one.broker == broker_id)
        return next(found, ListenerBroker(broker=broker_id))


def filled(template: str | None, broker_id: BrokerId) -> str | None:
    """The host that a template gives a broker; None without a template."""
    return None if template is None else template.replace(NODE_ID, str(broker_id))
