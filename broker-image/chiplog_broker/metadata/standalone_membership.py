"""The membership of a standalone broker, which admits itself."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

from chiplog_broker.metadata.port import MembershipEvents, Node
from chiplog_broker.metadata.standalone import StandaloneStore, admit
from chiplog_broker.metadata.standalone_plan import Defaults
from chiplog_broker.metadata.view import BrokerView, TopicView
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.settings import setting
from chiplog_core.config import broker_keys as keys
from chiplog_core.config.effective import topic_defaults


class StandaloneMembership:
    """The `Membership` of a broker without Kubernetes."""

    def __init__(self, disk: Disk, rng: Rng, config: Mapping[str, str]) -> None:
        self._disk = disk
        self._rng = rng
        self._config = config
        self._session = 0
        self._store: StandaloneStore
        self._node: Node

    @property
    def incarnation(self) -> None:
        """None: no operator admits it."""

    @property
    def authority(self) -> None:
        """None: no other service elects leaders."""
        return

    async def begin(self, _events: MembershipEvents) -> str:
        """Begin a new session, and read all topics. Returns the cluster id."""
        record = await admit(self._disk, self._rng)
        self._session = record.session
        self._store = StandaloneStore(
            self._disk,
            self._rng,
            Defaults(
                setting(self._config, keys.NODE_ID),
                setting(self._config, keys.NUM_PARTITIONS),
                record.session,
                topic_defaults(self._config),
                self._config,
            ),
        )
        return record.cluster_id

    def known_topics(self) -> list[TopicView]:
        return self._store.views()

    async def join(self, node: Node) -> StandaloneStore:
        """Apply all topics to the node's view and replicas, which follow every later change."""
        self._node = node
        node.cluster.session = self._session
        await self._store.start(self._topic_changed, self._topic_deleted)
        return self._store

    def listening(self, view: BrokerView) -> None:
        """Show clients this broker with the addresses that were bound."""
        self._node.cluster.brokers[view.broker_id] = view

    def is_ready(self) -> tuple[bool, str]:
        """Whether the broker is ready, and a text. It always is: there is no other replica to catch
        up with."""
        return True, "ready"

    def proposals_changed(self) -> None:
        """Does nothing: there is no other replica."""

    def problems_changed(self) -> None:
        """Does nothing: the log and the metrics of this broker report problems."""

    def partition_settled(self) -> None:
        """Does nothing: no replica is ever moved."""

    def topic_outdated(self, topic: str) -> None:
        """Does nothing: there is no other replica to fetch from."""

    def disk_failed(self) -> None:
        """Does nothing: every start verifies the data."""

    async def drain(self) -> None:
        """Does nothing: no other broker can lead."""

    async def leave(self) -> None:
        await self._store.close()

    async def close(self) -> None:
        """Does nothing: there is no Lease."""

    async def deposed(self) -> str:
        """Never returns: no other process can be admitted as this broker."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def _topic_changed(self, topic: TopicView) -> None:
        """Apply a new or changed topic to the replicas, and only then show it to clients."""
        await self._node.replicas.apply(topic)
        self._node.cluster.put(topic)

    async def _topic_deleted(self, name: str, topic_id: UUID) -> None:
        """Hide a deleted topic from clients, then delete its data."""
        self._node.cluster.remove(name)
        await self._node.replicas.delete(name, topic_id)
