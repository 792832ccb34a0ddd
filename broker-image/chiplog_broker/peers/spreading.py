"""Waits until the other brokers know a new topic, before a client is answered that it exists.

Brokers learn of topics some ten milliseconds apart. A client may be connected to any of them, and
would get "unknown topic" from one that is later.
"""

import asyncio
import logging
from typing import Any, Final
from uuid import UUID

from chiplog_broker.metadata.listeners import INTERNAL_NAME
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.peers.kept import KeptConnections
from chiplog_broker.ports.clock import Clock
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.messages import NodeEndpoint

logger = logging.getLogger(__name__)

WITHIN_S: Final = 1.0
"""After this time the client is answered anyway: the topic exists, and a broker that does not know
it yet is slow or unavailable."""
RETRY_S: Final = 0.02
IDS_FROM_VERSION: Final = 10
"""The first version of Metadata that requests topics by id."""


class Spreading:
    """Sends Metadata requests to the other brokers; one connection each, kept for the next
    topic."""

    def __init__(self, cluster: ClusterView, dialer: Dialer, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._connections = KeptConnections(cluster, dialer)

    async def until_known(self, topic: TopicView) -> None:
        """Return when every other live broker knows a leader of each partition of this topic, or
        cannot be reached; after `WITHIN_S` at the latest."""
        views = self._cluster.brokers.values()
        addresses = (
            view.on(INTERNAL_NAME) for view in views if view.broker_id != self._cluster.broker_id
        )
        others = [node for node in addresses if node is not None]
        self._connections.close_unused(others)
        late: set[int] = {node.node_id for node in others}

        async def wait(node: NodeEndpoint) -> None:
            await self._until_known_by(node, topic)
            late.discard(node.node_id)

        try:
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*map(wait, others))
        except TimeoutError:
            facts = {"topic": topic.name, "brokers": sorted(late)}
            logger.warning("topic_not_known_yet", extra=facts)

    async def close(self) -> None:
        """Close all connections, which ends each `until_known` that waits for an answer."""
        self._connections.close()

    async def _until_known_by(self, node: NodeEndpoint, topic: TopicView) -> None:
        """Ask this broker until it knows the topic; return also if it cannot be reached."""
        while True:
            try:
                if await self._knows(node, topic):
                    return
            except PeerError as error:
                # Clients cannot reach this broker either, and use another.
                logger.debug("peer_not_asked", extra={"broker": node.node_id, "error": str(error)})
                return
            await self._clock.sleep(RETRY_S)

    async def _knows(self, node: NodeEndpoint, topic: TopicView) -> bool:
        """Whether this broker knows a leader of each partition. Raises `PeerError`."""
        connection = await self._connections.to(node)
        version = connection.common_version(ApiKey.METADATA)
        if version < IDS_FROM_VERSION:
            raise PeerError(
                f"the broker supports Metadata up to version {version}, and {IDS_FROM_VERSION} is "
                "needed to ask for a topic by id"
            )
        request = metadata_request(version, topic.topic_id)
        answer = await connection.send_request(ApiKey.METADATA, version, request, WITHIN_S)
        partitions_with_leader = [
            partition
            for found in answer.topics
            if not found.error_code
            for partition in found.partitions
            if partition.leader_id >= 0
        ]
        return len(partitions_with_leader) >= len(topic.partitions)


def metadata_request(version: int, topic_id: UUID) -> Any:
    """A Metadata request for one topic, by id: the name may belong to another topic."""
    from chiplog_wire.protocol.codec import schema  # noqa: PLC0415 - slow to import

    request = schema.request_class(ApiKey.METADATA, version)
    topic = schema.element(request, "topics")
    values = schema.defaults(request) | {
        "topics": (topic(topic_id=topic_id, name=None),),
        "allow_auto_topic_creation": False,
    }
    return request(**values)
