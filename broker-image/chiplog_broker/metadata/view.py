"""The cluster as this broker knows it: brokers, topics, leaders and replicas.

Handlers read it; only the metadata store changes it, topic by topic. The Metadata answer for a
topic is encoded once and shared until the topic changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import ReplicaRef
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    LeaderIdAndEpoch,
    MetadataPartition,
    MetadataTopic,
    NodeEndpoint,
)

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Leader, replicas and epochs of one partition; `leader_id` is -1 if it has no leader."""

    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """In-sync replicas that are alive."""
    elr: tuple[int, ...] = ()
    """In-sync replicas that are not alive (Kafka's eligible leader replicas)."""
    partition_epoch: int = 0
    """Raised with every change of this entry, and with every answer to a proposal."""
    leader_session: int = 0
    """The session of the leader in which it was elected."""
    isr_refs: tuple[ReplicaRef, ...] = ()
    """The whole ISR, dead replicas included: the high watermark waits for each of them."""
    live_refs: tuple[ReplicaRef, ...] = ()
    """The replicas that are alive, in sync or not, each in its present session."""
    unclean_epoch: int = NO_EPOCH
    """The leader epoch of the last unclean election; -1 for none."""
    adding: tuple[int, ...] = ()
    """The replicas that the present reassignment adds."""
    removing: tuple[int, ...] = ()
    """The replicas that the present reassignment removes."""
    awaits_proof: bool = False
    """Whether removed replicas keep their data until the leader has reported that all replicas have
    every committed record on disk."""

    @property
    def assigned(self) -> tuple[int, ...]:
        """The replicas without those that the present reassignment adds."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment has begun and not yet switched to the new replicas."""
        return bool(self.adding or self.removing)

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync or not alive. One that is only being added is not
        missing: the partition is as it was before (as in Kafka's `Partition.isUnderReplicated`)."""
        return not set(self.assigned).issubset(self.isr)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas without those that the present reassignment removes."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


@dataclass(frozen=True)
class TopicView:
    """One topic, immutable: a change makes a new one, so that cached values are derived again."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionView, ...]
    config: TopicConfig
    is_internal: bool = False
    min_isr: int = 1
    """acks=all is refused if fewer in-sync replicas than this are alive."""
    durability: Durability | None = None
    """The durability in force; None if only the configuration determines it."""
    owner_uid: str | None = None
    """The uid of its Topic object."""
    isolated: frozenset[int] = frozenset()
    """Partitions whose leader here is isolated: clients are answered that they have no leader."""
    metadata: MetadataTopic = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Derive `metadata`, the topic as Metadata answers contain it."""
        partitions = [
            MetadataPartition(
                int(ErrorCode.none if leader_id >= 0 else ErrorCode.leader_not_available),
                partition.index,
                leader_id,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
            )
            for partition in self.partitions
            # One value, bound to a name, as it is needed twice.
            for leader_id in (self.advertised_leader(partition),)
        ]
        topic = MetadataTopic(
            int(ErrorCode.none),
            self.name,
            self.topic_id,
            partitions,
            is_internal=self.is_internal,
        )
        object.__setattr__(self, "metadata", topic)

    def advertised_leader(self, partition: PartitionView) -> int:
        """The leader that clients are sent to; -1 if the partition has no leader, or its leader
        here is isolated: then clients ask other brokers, or retry."""
        return NO_LEADER if partition.index in self.isolated else partition.leader_id

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, which Kafka's tools show."""
        return len(self.partitions[0].target)


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker: its address on each listener."""

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]
    """Listener name -> advertised host and port."""
    uses_tls: bool = False
    """Whether other brokers connect to it with TLS."""

    def on(self, listener: str) -> NodeEndpoint | None:
        """The broker's address on this listener; None if it does not have the listener."""
        if listener not in self.endpoints:
            return None
        host, port = self.endpoints[listener]
        return NodeEndpoint(self.broker_id, host, port, self.rack)


class ClusterView:
    """The cluster as known now. Changed and read on the event loop's thread only."""

    def __init__(self, cluster_id: str, broker_id: int) -> None:
        self.cluster_id = cluster_id
        self.broker_id = broker_id
        self.session = 0
        """The present session of this process; 0 before it is admitted. It may change."""
        self.brokers: dict[int, BrokerView] = {}
        """Brokers that are alive."""
        self.lingering: dict[int, BrokerView] = {}
        """Brokers that ended a moment ago: clients still get their addresses."""
        self.broker_is_isolated = False
        """Whether clients must use other brokers, because this one is isolated."""
        self._topics: dict[str, TopicView] = {}
        self._names: dict[UUID, str] = {}
        self._announced: dict[str, UUID] = {}
        self._being_applied: dict[str, TopicView] = {}
        self._lost: set[str] = set()

    def __iter__(self) -> Iterator[TopicView]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def has_plain_brokers(self) -> bool:
        """Whether a live broker uses plain text with the others: they all did before the cluster
        had certificates, and older versions do."""
        return not all(broker.uses_tls for broker in self.brokers.values())

    def topic(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def topic_with_id(self, topic_id: UUID) -> TopicView | None:
        """The topic with this id; None if it is not known."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def put(self, topic: TopicView) -> None:
        """Add or replace a topic; a new id under an existing name replaces the old topic. A topic
        that `announce` has announced is not announced any more."""
        self._forget(topic.name)
        self._topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name
        self._being_applied.pop(topic.name, None)
        self._lost.discard(topic.name)
        # Another id is announced if the topic was replaced, and its map is not applied
        # yet.
        if self._announced.get(topic.name) == topic.topic_id:
            del self._announced[topic.name]

    def remove(self, name: str, *, is_lost: bool = False) -> None:
        """Remove a topic that was deleted; unknown names are ignored. `is_lost`: nothing says that
        it was deleted, only its metadata is missing."""
        self._forget(name)
        if is_lost:
            self._lost.add(name)
        else:
            self._lost.discard(name)
        self._announced.pop(name, None)
        self._being_applied.pop(name, None)

    def is_lost(self, name: str) -> bool:
        """Whether a topic is unknown because its metadata is missing: it may come back from the
        brokers that have its replicas."""
        return name in self._lost

    def _forget(self, name: str) -> None:
        """Remove the topic that has this name now, if there is one."""
        if old := self._topics.pop(name, None):
            del self._names[old.topic_id]

    def announce(self, name: str, topic_id: UUID) -> None:
        """Note that this topic exists in the cluster, and that this broker will `put` it soon.

        Until then neither "unknown topic" nor the previous topic of this name is a correct answer.
        """
        known = self._topics.get(name)
        if known is None or known.topic_id != topic_id:
            self._announced[name] = topic_id

    def announced_topic_id(self, name: str) -> UUID | None:
        """The id that was announced for this name, of a topic that is not `put` yet; None if there
        is none."""
        return self._announced.get(name)

    def is_announced(self, topic_id: UUID) -> bool:
        """Whether a topic with this id was announced and is not `put` yet."""
        return topic_id in self._announced.values()

    def begin_to_apply(self, topic: TopicView) -> None:
        """Note that the replicas here are being changed to this state of the topic, which will be
        `put` when that is done.

        A leader that resigns in the meantime already says who its successor is.
        """
        self._being_applied[topic.name] = topic

    def leader_elsewhere(
        self, topic: str, index: int, listener: str
    ) -> tuple[LeaderIdAndEpoch, NodeEndpoint] | None:
        """The newest known leader of a partition, and its address for clients of this listener.

        None if this broker leads, or if there is no leader, or none that these clients can reach.
        """
        view = self._being_applied.get(topic) or self._topics.get(topic)
        if view is None or not 0 <= index < len(view.partitions):
            return None
        partition = view.partitions[index]
        leader = self.brokers.get(partition.leader_id)
        node = None if leader is None else leader.on(listener)
        if node is None or node.node_id == self.broker_id:
            return None
        return LeaderIdAndEpoch(partition.leader_id, partition.leader_epoch), node

    def nodes(self, listener: str) -> list[NodeEndpoint]:
        """The brokers that clients of this listener get in Metadata answers, ordered by id. They
        include brokers that ended a moment ago.

        An isolated broker does not list itself: librdkafka (2.x) uses one connection as long as it
        knows no leader, and would contact the same broker again and again.
        """
        brokers = self.lingering | self.brokers
        addresses = (brokers[broker_id].on(listener) for broker_id in sorted(brokers))
        nodes = [node for node in addresses if node is not None]
        if self.broker_is_isolated:
            # An empty list would be of no use: then this broker is listed after all.
            return [node for node in nodes if node.node_id != self.broker_id] or nodes
        return nodes

    def set_broker_isolated(self, broker_is_isolated: bool) -> None:
        """Set whether clients must use other brokers, because this one is isolated."""
        self.broker_is_isolated = broker_is_isolated

    @property
    def controller_id(self) -> int:
        """The broker to which clients send admin requests. Every live broker can forward them, so
        it is this one, or another one if this broker is isolated."""
        if self.broker_is_isolated:
            return min(self.brokers.keys() - {self.broker_id}, default=self.broker_id)
        return self.broker_id
