"""What the builders need to know beside the BrokerCluster itself."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """The operator's part in a cluster's manifests."""

    broker_image: str
    """Image of the brokers of clusters that name none."""
    internal_password: str = field(repr=False)
    """Of the cluster's internal listener: drawn once, then read from its Secret."""
    operator_namespace: str = ""
    """Where the operator's own pods are; empty where it is no pod itself."""
