"""Events of Rebalances."""

import kopf

from chiplog_kube import kinds
from chiplog_operator.handlers.feed import Feed

KIND = kinds.REBALANCES


def register(registry: kopf.OperatorRegistry, feed: Feed) -> None:
    """Hear of every change of a Rebalance."""

    @kopf.on.event(KIND.api_version, KIND.plural, registry=registry)
    async def on_event(event: kopf.RawEvent, **_: object) -> None:
        feed.take(KIND, event)
