"""What the builders need to know beside the BrokerCluster itself."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """The operator's part in a cluster's manifests."""

    broker_image: str
    """The broker image of clusters whose spec has none."""
    internal_password: str = field(repr=False)
    """The password of the cluster's internal listener: drawn once, then read from its Secret."""
    operator_namespace: str = ""
    """The namespace of the operator's pods; empty if the operator does not run in a pod."""
