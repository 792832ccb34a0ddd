"""Settings of the brokers' NetworkPolicy: who may connect, if the network plugin enforces it.

Peers have the same fields as in a NetworkPolicy, so that users know them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.limits import MAX_PEER_ITEMS
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern
from chiplog_core.model.pod import LabelKey, LabelValue

Cidr = Annotated[
    str,
    Length(49, minimum=4),
    Pattern("[0-9A-Fa-f.:]+/[0-9]{1,3}", "an IP address block, like 10.0.0.0/8"),
]


class LabelOperator(StrEnum):
    """How the value of a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """Requirement for a label."""

    key: Annotated[LabelKey, "Key of the label that is compared."]
    operator: Annotated[
        LabelOperator,
        "How the label is compared: In or NotIn with values, Exists or DoesNotExist without.",
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        "Values that the label is compared with; only for In and NotIn.",
        Items(MAX_PEER_ITEMS),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Chooses by labels, as everywhere in Kubernetes; an empty one chooses all."""

    match_labels: Annotated[
        Mapping[str, LabelValue], "Labels that must all be present.", Entries(MAX_PEER_ITEMS)
    ] = field(default_factory=dict)
    match_expressions: Annotated[
        tuple[LabelRequirement, ...],
        "Requirements for labels, which must all be met.",
        Items(MAX_PEER_ITEMS),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IpBlock:
    """Addresses outside of the Kubernetes cluster."""

    cidr: Annotated[Cidr, "Addresses that may connect, as a block like 10.0.0.0/8."]
    except_: Annotated[
        tuple[Cidr, ...], "Address blocks within cidr that may not connect.", Items(MAX_PEER_ITEMS)
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicyPeer:
    """Who may connect: pods, or addresses."""

    pod_selector: Annotated[
        LabelSelector | None,
        "Pods with these labels, in the cluster's namespace or in those of namespaceSelector.",
    ] = None
    namespace_selector: Annotated[
        LabelSelector | None,
        "Namespaces with these labels; all their pods, or those of podSelector.",
    ] = None
    ip_block: Annotated[
        IpBlock | None,
        "Addresses outside of the Kubernetes cluster. It cannot be combined with a selector.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicySettings:
    """The NetworkPolicy that the operator creates for the brokers."""

    enabled: Annotated[
        bool,
        "Create a NetworkPolicy: only brokers can reach the brokers' own listener, only the "
        "operator can reach their health port, and clients can connect as networkPolicyPeers of "
        "each listener allows. If false, the operator deletes the NetworkPolicy that it created.",
    ] = True
