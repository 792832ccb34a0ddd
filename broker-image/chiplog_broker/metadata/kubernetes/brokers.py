"""The brokers of the cluster, from their Broker objects."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from chiplog_broker.metadata.view import BrokerView, ClusterView
from chiplog_broker.ports.clock import Clock
from chiplog_core.ids import NEVER_ADMITTED, ReplicaRef
from chiplog_core.model.broker import Broker
from chiplog_core.problems import InvalidManifest
from chiplog_kube.api import Manifest

logger = logging.getLogger(__name__)


LINGER_S: Final = 5.0
"""How long clients still get the address of a broker that has ended.

librdkafka (2.x) drops a broker that is not listed any more. If the same answer names another leader
for its partitions, librdkafka loses them for a moment and finds them only in a refresh of all
partitions a second later, which doubles the time of a failover.
"""


class Brokers:
    """The brokers of the cluster, and their sessions."""

    def __init__(
        self, cluster_name: str, clock: Clock, on_change: Callable[[Broker], None]
    ) -> None:
        self._cluster_name = cluster_name
        self._clock = clock
        self._on_change = on_change
        self._brokers: dict[str, Broker] = {}
        self._live: frozenset[ReplicaRef] = frozenset()
        self._ended_s: dict[str, float] = {}
        """When brokers that are not alive any more were last known to be."""
        self._ended = asyncio.Event()

    @property
    def live(self) -> frozenset[ReplicaRef]:
        """Every broker that may serve, with its session."""
        return self._live

    def broker_changed(self, _before: Manifest | None, manifest: Manifest | None) -> None:
        """A Broker object changed. A deleted object is ignored: only `fenced` and
        `retired` in its spec say that a broker has ended."""
        if manifest is None:
            return
        try:
            broker = Broker.from_manifest(manifest)
        except InvalidManifest as invalid:
            logger.error("broker_unreadable", extra={"reason": str(invalid)})
            return
        if broker.spec.cluster != self._cluster_name:
            return
        self._note_end(self._brokers.get(broker.metadata.name), broker)
        self._brokers[broker.metadata.name] = broker
        self._live = frozenset(
            ReplicaRef(known.spec.broker_id, known.spec.session)
            for known in self._brokers.values()
            if is_live(known)
        )
        self._on_change(broker)

    def show(self, view: ClusterView) -> None:
        """Update the view with the live brokers, and with those that ended a moment ago."""
        found = [broker_view(broker) for broker in self._brokers.values() if is_live(broker)]
        view.brokers = {broker.broker_id: broker for broker in found}
        linger_from_s = self._clock.monotonic_s() - LINGER_S
        lingering = [
            broker_view(self._brokers[name])
            for name, ended_s in self._ended_s.items()
            if ended_s > linger_from_s
        ]
        view.lingering = {broker.broker_id: broker for broker in lingering}

    async def keep_view_current(self, view: ClusterView) -> None:
        """Remove ended brokers from the view `LINGER_S` after their end, until cancelled."""
        while True:
            await self._ended.wait()
            self._ended.clear()
            await self._clock.sleep(LINGER_S)
            self.show(view)

    def _note_end(self, before: Broker | None, after: Broker) -> None:
        """Note the time if a live broker has ended. A broker that is alive again, or retired, does
        not count as one that ended."""
        name = after.metadata.name
        if is_live(after) or after.spec.retired:
            self._ended_s.pop(name, None)
        elif before is not None and is_live(before):
            self._ended_s[name] = self._clock.monotonic_s()
            self._ended.set()


def is_live(broker: Broker) -> bool:
    """Whether the broker has an admitted process that may serve clients."""
    spec = broker.spec
    return not (spec.fenced or spec.retired) and spec.session != NEVER_ADMITTED


def broker_view(broker: Broker) -> BrokerView:
    """The broker with its addresses, as the operator has determined them."""
    endpoints = {
        endpoint.listener: (endpoint.host, endpoint.port) for endpoint in broker.spec.endpoints
    }
    return BrokerView(
        broker.spec.broker_id,
        broker.spec.rack,
        endpoints,
        uses_tls=broker.status.uses_tls_with_peers,
    )
