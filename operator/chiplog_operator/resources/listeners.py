"""The listeners of a cluster, as several of its objects name them."""

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.naming import ports

DEFAULT_LISTENER = Listener(name="plain", type=ListenerType.INTERNAL, port=ports.PLAIN)
"""The listener of a cluster whose spec has none."""


def listeners(cluster: BrokerCluster) -> tuple[Listener, ...]:
    """The listeners for clients: those of the spec, or the default one. The listener that brokers
    use among themselves is not one of them."""
    return cluster.spec.listeners or (DEFAULT_LISTENER,)


def of_type(cluster: BrokerCluster, wanted: ListenerType) -> tuple[Listener, ...]:
    """The listeners for clients of one type."""
    return tuple(listener for listener in listeners(cluster) if listener.type is wanted)
