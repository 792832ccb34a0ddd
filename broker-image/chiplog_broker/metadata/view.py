"""The cluster as this broker knows it: brokers, topics, who leads what.

Handlers read it; only the metadata store changes it, topic by topic. What a topic looks
like in a Metadata answer is made once and shared until the topic changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import ReplicaRef
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import MetadataPartition, MetadataTopic, NodeEndpoint

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Who leads and who holds one partition; `leader_id` is -1 where nobody does."""

    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """Those that hold every acknowledged record and are alive."""
    elr: tuple[int, ...] = ()
    """Those that hold every acknowledged record and are not (Kafka's eligible leaders)."""
    partition_epoch: int = 0
    """Raised with every change of this entry, and with every answer to a proposal."""
    leader_session: int = 0
    """The session that the leader leads in."""
    isr_refs: tuple[ReplicaRef, ...] = ()
    """All that are listed as in sync, dead ones too: the high watermark waits for each."""
    live_refs: tuple[ReplicaRef, ...] = ()
    """The replicas that live, in sync or not, each in the session it lives in."""
    unclean_epoch: int = NO_EPOCH
    """The leader epoch of the last election whose loss of records was accepted; -1 for none."""


@dataclass(frozen=True)
class TopicView:
    """One topic. A change makes a new one, so that whatever was derived is derived anew."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionView, ...]
    config: TopicConfig
    is_internal: bool = False
    min_isr: int = 1
    """Live in-sync replicas without which acks=all is refused."""
    durability: Durability | None = None
    """What is in force; None where the configuration alone says it."""
    owner_uid: str | None = None
    """The Topic object that it belongs to."""
    isolated: frozenset[int] = frozenset()
    """Partitions led here, perhaps: clients are told that nobody leads them."""
    metadata: MetadataTopic = field(init=False, compare=False)

    def __post_init__(self) -> None:
        partitions = [
            MetadataPartition(
                int(ErrorCode.none if leader_id >= 0 else ErrorCode.leader_not_available),
                one.index,
                leader_id,
                one.leader_epoch,
                one.replicas,
                one.isr,
            )
            for one in self.partitions
            for leader_id in (self.leader_to_tell(one),)
        ]
        topic = MetadataTopic(
            int(ErrorCode.none),
            self.name,
            self.topic_id,
            partitions,
            is_internal=self.is_internal,
        )
        object.__setattr__(self, "metadata", topic)

    def leader_to_tell(self, partition: PartitionView) -> int:
        """Whom clients are told to go to; -1 where they must ask elsewhere, or again."""
        return NO_LEADER if partition.index in self.isolated else partition.leader_id

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, which is what Kafka's tools show."""
        return len(self.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker: its address on each listener."""

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]
    """Listener name -> advertised host and port."""

    def on(self, listener: str) -> NodeEndpoint | None:
        """Its address for clients of this listener; None where it does not have that one."""
        if listener not in self.endpoints:
            return None
        host, port = self.endpoints[listener]
        return NodeEndpoint(self.broker_id, host, port, self.rack)


class ClusterView:
    """Everything known now. Changed and read on the event loop's thread only."""

    def __init__(self, cluster_id: str, broker_id: int) -> None:
        self.cluster_id = cluster_id
        self.broker_id = broker_id
        self.session = 0
        """The session this process was admitted to; 0 before. It may get another one."""
        self.brokers: dict[int, BrokerView] = {}
        """Those that live."""
        self.lingering: dict[int, BrokerView] = {}
        """Those that lived a moment ago: clients are told where they were."""
        self.is_cut_off = False
        """Whether clients are to go to other brokers, as this one can do nothing for them."""
        self._topics: dict[str, TopicView] = {}
        self._names: dict[UUID, str] = {}
        self._expected: dict[str, UUID] = {}

    def __iter__(self) -> Iterator[TopicView]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def topic(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def topic_with_id(self, topic_id: UUID) -> TopicView | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def put(self, topic: TopicView) -> None:
        """A topic is new or changed; a new id behind an old name replaces the old topic."""
        self._forget(topic.name)
        self._topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name
        if self._expected.get(topic.name) == topic.topic_id:
            del self._expected[topic.name]

    def remove(self, name: str) -> None:
        """A topic was deleted."""
        self._forget(name)
        self._expected.pop(name, None)

    def _forget(self, name: str) -> None:
        if old := self._topics.pop(name, None):
            del self._names[old.topic_id]

    def expect(self, name: str, topic_id: UUID) -> None:
        """The cluster has this topic, and this broker is about to `put` it.

        Until then "unknown" would be as wrong as what the topic before had under this name.
        """
        known = self._topics.get(name)
        if known is None or known.topic_id != topic_id:
            self._expected[name] = topic_id

    def expected(self, name: str) -> UUID | None:
        """The topic that will have this name in a moment, if it is not known yet."""
        return self._expected.get(name)

    def is_expected(self, topic_id: UUID) -> bool:
        """Whether a topic will be known in a moment, and is not yet."""
        return topic_id in self._expected.values()

    def nodes(self, listener: str) -> list[NodeEndpoint]:
        """All brokers that clients of this listener may know, in the order of their ids.

        One that is cut off does not name itself: librdkafka (2.x) has one connection as long as
        it knows no leader, and would ask the same broker again and again.
        """
        named = self.lingering | self.brokers
        known = (named[broker_id].on(listener) for broker_id in sorted(named))
        nodes = [node for node in known if node is not None]
        if self.is_cut_off:
            return [node for node in nodes if node.node_id != self.broker_id] or nodes
        return nodes

    def send_clients_elsewhere(self, is_cut_off: bool) -> None:
        """Whether clients are to go to other brokers from now on."""
        self.is_cut_off = is_cut_off

    @property
    def controller_id(self) -> int:
        """Where clients send admin requests: any live broker passes them on, so this one."""
        if self.is_cut_off:
            return min(self.brokers.keys() - {self.broker_id}, default=self.broker_id)
        return self.broker_id
