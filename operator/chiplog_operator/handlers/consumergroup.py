"""Events of ConsumerGroups."""

import kopf

from chiplog_kube import kinds
from chiplog_operator.handlers.feed import Feed

KIND = kinds.CONSUMER_GROUPS


def register(registry: kopf.OperatorRegistry, feed: Feed) -> None:
    """Hear of every change of a ConsumerGroup."""

    @kopf.on.event(
        kinds.CONSUMER_GROUPS.api_version, kinds.CONSUMER_GROUPS.plural, registry=registry
    )
    async def on_event(event: kopf.RawEvent, **_: object) -> None:
        feed.take(KIND, event)
