"""The brokers of the cluster, from their Broker objects."""

import logging
from collections.abc import Callable

from chiplog_broker.metadata.view import BrokerView, ClusterView
from chiplog_core.ids import NEVER_ADMITTED, ReplicaRef
from chiplog_core.model.broker import Broker
from chiplog_core.problems import InvalidManifest
from chiplog_kube.api import Manifest

logger = logging.getLogger(__name__)


class Brokers:
    """Who there is, and in which session each of them lives."""

    def __init__(self, cluster_name: str, on_change: Callable[[Broker], None]) -> None:
        self._cluster_name = cluster_name
        self._on_change = on_change
        self._brokers: dict[str, Broker] = {}
        self._live: frozenset[ReplicaRef] = frozenset()

    @property
    def live(self) -> frozenset[ReplicaRef]:
        """Every broker that may serve, in the session in which it may."""
        return self._live

    def seen(self, _before: Manifest | None, manifest: Manifest | None) -> None:
        """An object as it is now. One that is gone stays as it was: absence means nothing."""
        if manifest is None:
            return
        try:
            broker = Broker.from_manifest(manifest)
        except InvalidManifest as invalid:
            logger.error("broker_unreadable", extra={"reason": str(invalid)})
            return
        if broker.spec.cluster != self._cluster_name:
            return
        self._brokers[broker.metadata.name] = broker
        self._live = frozenset(
            ReplicaRef(one.spec.broker_id, one.spec.session)
            for one in self._brokers.values()
            if is_live(one)
        )
        self._on_change(broker)

    def show(self, view: ClusterView) -> None:
        """Tell clients of the brokers that live."""
        found = [broker_view(one) for one in self._brokers.values() if is_live(one)]
        view.brokers = {one.broker_id: one for one in found}


def is_live(broker: Broker) -> bool:
    """Whether its admitted process may serve."""
    spec = broker.spec
    return not (spec.fenced or spec.retired) and spec.session != NEVER_ADMITTED


def broker_view(broker: Broker) -> BrokerView:
    """Its addresses, as the operator has worked them out."""
    endpoints = {one.listener: (one.host, one.port) for one in broker.spec.endpoints}
    return BrokerView(broker.spec.broker_id, broker.spec.rack, endpoints)
