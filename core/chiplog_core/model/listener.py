"""Listeners of brokers, and their bootstrap addresses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_CERTIFICATES, MAX_LISTENER_PEERS, MAX_NAME_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.certificates import (
    AuthenticationType,
    CertificateAndKey,
    CertificateText,
)
from chiplog_core.model.listener_authentication import WITH_TOKENS, ListenerAuthentication
from chiplog_core.model.listener_configuration import (
    Host,
    ListenerBootstrap,
    ListenerConfiguration,
    Port,
    filled,
)
from chiplog_core.model.network_policy import NetworkPolicyPeer
from chiplog_core.naming import ports

INTERNAL_LISTENER_NAME = "internal"
"""The listener for connections between brokers, and from the operator to brokers."""

ListenerName = Annotated[
    str,
    Length(11, minimum=1),
    Pattern("[a-z0-9]+", "lower-case letters and digits"),
]
MAX_BOOTSTRAP_LENGTH = MAX_NAME_LENGTH + 8
"""Characters of `bootstrap.servers`: a host, in brackets if it is an IPv6 address, and a port."""


class ListenerType(StrEnum):
    """From where and how a listener can be reached."""

    INTERNAL = "internal"
    NODE_PORT = "nodeport"
    LOAD_BALANCER = "loadbalancer"
    INGRESS = "ingress"
    TLS_ROUTE = "tlsroute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One way for clients to connect."""

    name: Annotated[
        ListenerName,
        "Name of the listener, like plain. The name internal is the brokers' own.",
    ]
    type: Annotated[
        ListenerType,
        "internal: from inside the Kubernetes cluster. nodeport: through a port of every node. "
        "loadbalancer: through one load balancer per broker. ingress: through a proxy that "
        "passes TLS on and finds the broker by the host name (SNI), with one port for all. "
        "tlsroute: the same, through a Gateway of the Gateway API.",
    ]
    port: Annotated[
        Port,
        f"Port the brokers listen on, like {ports.PLAIN} (inside) or {ports.EXTERNAL} (outside).",
    ]
    tls: Annotated[bool, "Whether connections are encrypted with TLS."] = False
    authentication: Annotated[
        ListenerAuthentication | None,
        "How clients must authenticate. Default: they need not.",
    ] = None
    configuration: Annotated[ListenerConfiguration | None, "More settings of the listener."] = None
    advertised_host: Annotated[
        Host | None,
        "Only for nodeport: the host that brokers advertise to clients. Default: the internal "
        "address of the broker's node. For the other types, whose brokers have a host each, see "
        "configuration.",
    ] = None
    advertised_port: Annotated[
        Port | None,
        "Not for internal and nodeport: the port of the bootstrap address, which brokers "
        "advertise, too. Default: for loadbalancer the listener's port, for ingress and tlsroute "
        f"{ports.HTTPS}.",
    ] = None
    node_port_base: Annotated[
        int | None,
        "Only for nodeport: the node port of the bootstrap address; broker 1 gets the next port, "
        "and so on. Default: Kubernetes chooses the ports.",
        Range(ports.MIN_NODE_PORT, ports.MAX_NODE_PORT),
    ] = None
    network_policy_peers: Annotated[
        tuple[NetworkPolicyPeer, ...],
        "Who may connect, as in `from` of a NetworkPolicy. Default, and if the cluster has no "
        "NetworkPolicy: everybody. Clients that connect through a node port or load balancer "
        "usually appear with the address of a node.",
        Items(MAX_LISTENER_PEERS),
    ] = ()

    @property
    def configured(self) -> ListenerConfiguration:
        """The settings in `configuration`."""
        return self.configuration or ListenerConfiguration()

    @property
    def bootstrap(self) -> ListenerBootstrap:
        """The settings of the bootstrap address."""
        return self.configured.bootstrap or ListenerBootstrap()

    @property
    def has_own_services(self) -> bool:
        """Whether the listener has Services of its own, for its bootstrap address and each
        broker. The listeners of the other types share Services."""
        return self.type is ListenerType.LOAD_BALANCER or self.is_routed

    @property
    def is_routed(self) -> bool:
        """Whether clients reach brokers through a proxy that finds them by their host names."""
        return self.type in {ListenerType.INGRESS, ListenerType.TLS_ROUTE}

    @property
    def has_bootstrap_service(self) -> bool:
        """Whether one of these Services is for the bootstrap address."""
        return self.has_own_services and self.configured.create_bootstrap_service is not False

    @property
    def outside_port(self) -> int:
        """The port for clients outside, if the listener has Services of its own."""
        default = ports.HTTPS if self.is_routed else self.port
        return self.advertised_port or default

    def route_host(self, broker_id: BrokerId) -> str | None:
        """The host name by which a proxy finds the broker; None if it has none."""
        configured = self.configured
        return configured.of_broker(broker_id).host or filled(configured.host_template, broker_id)

    def given_host(self, broker_id: BrokerId) -> str | None:
        """The host that the broker advertises by the spec; None if it advertises the address of
        its load balancer or node."""
        configured = self.configured
        given = configured.of_broker(broker_id).advertised_host
        given = given or filled(configured.advertised_host_template, broker_id)
        return given or self.route_host(broker_id) or self.advertised_host

    @property
    def own_certificate(self) -> CertificateAndKey | None:
        """The user's certificate for this listener; None if the cluster CA issues certificates for
        it, or without TLS."""
        return self.configured.broker_cert_chain_and_key if self.tls else None

    @property
    def is_issued(self) -> bool:
        """Whether brokers show certificates of the cluster CA to clients of this listener."""
        return self.tls and self.own_certificate is None

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients of this listener must show a certificate."""
        return self.tls and self.authentication_type is AuthenticationType.TLS

    @property
    def asks_for_passwords(self) -> bool:
        """Whether clients of this listener authenticate with SCRAM."""
        return self.authentication_type is AuthenticationType.SCRAM_SHA_512

    @property
    def asks_for_tokens(self) -> bool:
        """Whether clients of this listener authenticate with OAUTHBEARER."""
        return self.authentication_type in WITH_TOKENS

    @property
    def authentication_type(self) -> AuthenticationType | None:
        return None if self.authentication is None else self.authentication.type


DEFAULT_LISTENERS = (Listener(name="plain", type=ListenerType.INTERNAL, port=ports.PLAIN),)
"""The listeners for clients of a cluster whose spec has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """Bootstrap address of one listener."""

    name: Annotated[ListenerName, "Name of the listener."]
    bootstrap_servers: Annotated[
        str, "The value of bootstrap.servers for clients.", Length(MAX_BOOTSTRAP_LENGTH)
    ]
    certificates: Annotated[
        tuple[CertificateText, ...],
        "The certificates of the cluster CA, in PEM format: clients of a listener with TLS must "
        "trust all of them. Empty if the listener has its own certificate.",
        Items(MAX_CERTIFICATES, ordered=True),
    ] = ()
