"""Unique producer ids, drawn without coordination between brokers.

A producer id consists of the broker's id (15 bits), its session (20 bits) and a counter (28 bits).
No two processes have the same broker id and session.
"""

from chiplog_broker.metadata.view import ClusterView

SESSION_BITS = 20
COUNTER_BITS = 28


class ProducerIds:
    """Draws producer ids. In each session of this broker the counter starts at 0."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._session = cluster.session
        self._next_count = 0

    def draw(self) -> int | None:
        """A new producer id; None before the broker is admitted, and when all ids of its session
        are used."""
        if self._session != self._cluster.session:
            self._session, self._next_count = self._cluster.session, 0
        if self._session == 0 or self._next_count >> COUNTER_BITS:
            return None
        prefix = self._cluster.broker_id << SESSION_BITS | self._session
        producer_id = prefix << COUNTER_BITS | self._next_count
        self._next_count += 1
        return producer_id
