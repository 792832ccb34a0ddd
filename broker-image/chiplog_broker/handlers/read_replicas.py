"""Where consumers that name a rack are sent to read (KIP-392): `replica.selector.class`.

Only leaders send anybody anywhere, by the setting in force when they are asked. A follower goes
by what the consumer says, not by its own setting: while a change of the setting reaches one broker
after another, leader and follower may differ, and a consumer sent to and fro would read nothing.
"""

from collections.abc import Collection, Mapping

from chiplog_broker.metadata.view import ClusterView
from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS


class ReadReplicas:
    """The replica selector in force on this broker."""

    def __init__(self, cluster: ClusterView, config: Mapping[str, str]) -> None:
        """`config` may change at any time."""
        self._cluster = cluster
        self._config = config

    @property
    def is_rack_aware(self) -> bool:
        """Whether consumers may be sent to followers."""
        return self._config.get(REPLICA_SELECTOR_CLASS.name) == RACK_AWARE_SELECTOR

    def near(self, rack_id: str, listener: str) -> Collection[int]:
        """The other brokers in a client's rack that it can reach on its listener.

        Empty if this broker is in that rack itself.
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
