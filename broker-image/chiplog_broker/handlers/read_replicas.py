"""Which replica consumers with a rack should read from (KIP-392, `replica.selector.class`).

Only leaders check the setting, and send consumers to another replica. A follower serves a consumer
whatever its own setting is: a changed setting reaches one broker after the other, and a leader and
a follower with different settings would send a consumer to each other.
"""

from collections.abc import Collection, Mapping

from chiplog_broker.metadata.view import ClusterView
from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS


class ReadReplicas:
    """The replica selector of this broker."""

    def __init__(self, cluster: ClusterView, config: Mapping[str, str]) -> None:
        """`config` may change at any time."""
        self._cluster = cluster
        self._config = config

    @property
    def is_rack_aware(self) -> bool:
        """Whether consumers may be sent to followers."""
        return self._config.get(REPLICA_SELECTOR_CLASS.name) == RACK_AWARE_SELECTOR

    def near(self, rack_id: str, listener: str) -> Collection[int]:
        """The ids of the other brokers in a client's rack that the client can reach on its
        listener.

        Empty if this broker is in that rack itself, or if consumers only read from leaders.
        """
        if not rack_id or not self.is_rack_aware:
            return ()
        brokers, own_id = self._cluster.brokers, self._cluster.broker_id
        own = brokers.get(own_id)
        if own is not None and own.rack == rack_id:
            return ()
        return {
            broker.broker_id
            for broker in brokers.values()
            if broker.rack == rack_id
            and listener in broker.endpoints
            and broker.broker_id != own_id
        }
