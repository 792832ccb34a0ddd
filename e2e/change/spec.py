"""Changes the spec of a BrokerCluster."""

import json

from e2e.main.broker_cluster import BrokerClusterUnderTest


def configure(cluster: BrokerClusterUnderTest, **spec: object) -> None:
    """Set these fields of the spec; None removes one."""
    change = json.dumps({"spec": spec})
    cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", change)
