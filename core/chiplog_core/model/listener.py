"""Listeners of brokers, and their bootstrap addresses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.limits import MAX_CERTIFICATES, MAX_LISTENER_PEERS, MAX_NAME_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.certificates import (
    AuthenticationType,
    CertificateAndKey,
    CertificateText,
    ListenerAuthentication,
    ListenerConfiguration,
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
Port = Annotated[int, Range(ports.MIN_PORT, ports.MAX_PORT)]
Host = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern("[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?", "a DNS name or an IP address"),
]


class ListenerType(StrEnum):
    """From where and how a listener can be reached."""

    INTERNAL = "internal"
    NODE_PORT = "nodeport"
    LOAD_BALANCER = "loadbalancer"


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
        "loadbalancer: through one load balancer per broker.",
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
        "Only for nodeport and loadbalancer: the host that brokers advertise to clients. Default: "
        "the internal address of the broker's node, or the address of its load balancer.",
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
    def own_certificate(self) -> CertificateAndKey | None:
        """The user's certificate for this listener; None if the cluster CA issues certificates for
        it, or without TLS."""
        configuration = self.configuration or ListenerConfiguration()
        return configuration.broker_cert_chain_and_key if self.tls else None

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
    def authentication_type(self) -> AuthenticationType | None:
        return None if self.authentication is None else self.authentication.type


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """Bootstrap address of one listener."""

    name: Annotated[ListenerName, "Name of the listener."]
    bootstrap_servers: Annotated[
        str, "The value of bootstrap.servers for clients.", Length(MAX_NAME_LENGTH + 6)
    ]
    certificates: Annotated[
        tuple[CertificateText, ...],
        "The certificates of the cluster CA, in PEM format: clients of a listener with TLS must "
        "trust all of them. Empty if the listener has its own certificate.",
        Items(MAX_CERTIFICATES, ordered=True),
    ] = ()
