"""Events of BrokerClusters."""

import kopf

from chiplog_kube import kinds
from chiplog_operator.handlers.feed import Feed

KIND = kinds.BROKER_CLUSTERS


def register(registry: kopf.OperatorRegistry, feed: Feed) -> None:
    """Hear of every change of a BrokerCluster."""

    @kopf.on.event(
        kinds.BROKER_CLUSTERS.api_version, kinds.BROKER_CLUSTERS.plural, registry=registry
    )
    async def on_event(event: kopf.RawEvent, **_: object) -> None:
        feed.take(KIND, event)
