"""The Lease by which a broker shows that it is alive: made here, renewed by the broker alone.

It has no spec: whatever stood there would be a renewal that no broker made.
"""

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import broker_object


def broker_lease(cluster: BrokerCluster, broker_id: BrokerId) -> Manifest:
    """The Lease of one broker, without a holder. The broker itself writes holder and renewals, and
    applying this manifest again does not change them."""
    name = names.broker_lease(cluster.metadata.name, broker_id)
    return broker_object(kinds.LEASES, name, cluster, broker_id, {})
