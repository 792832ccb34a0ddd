"""The listeners of a cluster by their type."""

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType


def of_type(cluster: BrokerCluster, wanted: ListenerType) -> tuple[Listener, ...]:
    """The listeners for clients of one type."""
    return tuple(listener for listener in cluster.listeners if listener.type is wanted)
