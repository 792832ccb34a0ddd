"""What an admin operation needs to know of the cluster: which topic a name means, and the counts.

A name is taken as long as anything has it: a Topic that may name the cluster, or a PartitionMap,
whose records may have outlived their Topic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from chiplog_core.admin.capacity import Capacity
from chiplog_core.admin.checks import ClusterFacts, ExistingTopic
from chiplog_core.config.broker_keys import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS
from chiplog_core.config.effective import broker_value, topic_defaults
from chiplog_core.config.given import given_broker_config, given_topic_config
from chiplog_core.ids import TopicId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.partition_map import Generation, PartitionMap
from chiplog_core.model.topic import Topic
from chiplog_core.observed.world import World
from chiplog_core.topic_name import is_internal


@dataclass(frozen=True, slots=True)
class Named:
    """What there is under a topic's name."""

    topic: Topic | None
    """The Topic that the name belongs to, wherever it is."""
    map: PartitionMap | None

    @property
    def is_leaving(self) -> bool:
        """Whether everything under the name is being deleted."""
        if self.topic is not None:
            return self.topic.metadata.deletion_timestamp is not None
        return self.map is not None and self.map.spec.current is None

    @property
    def generation(self) -> Generation | None:
        """The current partitions of the name."""
        return None if self.map is None else self.map.spec.current_generation

    def has_topic_id(self, topic_id: TopicId) -> bool:
        """Whether the name still stands for this topic id."""
        if self.map is not None:
            return self.map.spec.current == topic_id
        return self.topic is not None and self.topic.status.topic_id == topic_id


class TopicNames:
    """The names in use, looked up once per plan."""

    def __init__(self, world: World, cluster: BrokerCluster) -> None:
        self._maps = world.maps
        self._by_uid = {topic.metadata.uid: topic for topic in world.topics}
        self._by_name: dict[str, list[Topic]] = {}
        for topic in world.topics:
            if cluster.allows(topic.metadata.namespace):
                self._by_name.setdefault(topic.topic_name, []).append(topic)
        self.in_use = self._by_name.keys() | self._maps.keys()

    @property
    def allowed_topics(self) -> Iterable[Topic]:
        """The Topics that may name the cluster."""
        return chain.from_iterable(self._by_name.values())

    def named(self, name: str) -> Named:
        """The Topic and the PartitionMap under this name."""
        found = self._maps.get(name)
        if found is not None and found.spec.owner_uid is not None:
            return Named(self._by_uid.get(found.spec.owner_uid), found)
        return Named(min(self._by_name.get(name, ()), key=_age, default=None), found)


def _age(topic: Topic) -> tuple[bool, str, str, str]:
    """Sort key of Topics that want one name: the oldest that is not being deleted will most
    likely get it."""
    meta = topic.metadata
    made = "" if meta.creation_timestamp is None else meta.creation_timestamp.isoformat()
    return meta.deletion_timestamp is not None, made, meta.namespace, meta.name


def facts_of(world: World, cluster: BrokerCluster, names: TopicNames) -> ClusterFacts:
    """What the checks need to know of the cluster."""
    config = given_broker_config(cluster.spec.config).values
    default_partitions = broker_value(config, NUM_PARTITIONS) or 1
    return ClusterFacts(
        broker_ids=[
            broker_id
            for broker_id, broker in world.brokers.items()
            if not broker.spec.retired and broker.spec.intent is not BrokerIntent.REMOVE
        ],
        default_partitions=default_partitions,
        default_replicas=broker_value(config, DEFAULT_REPLICATION_FACTOR) or 1,
        topics=names.in_use,
        capacity=_capacity(config, world, names, default_partitions),
        inherited=topic_defaults(config),
    )


def _capacity(
    config: Mapping[str, str], world: World, names: TopicNames, default_partitions: int
) -> Capacity:
    """The capacity, with existing topics and those about to be created: a Topic counts as soon
    as it exists."""
    wanted = {
        topic.topic_name: topic.spec.partitions or default_partitions
        for topic in names.allowed_topics
    }
    partition_counts = partitions_of(world)
    users = wanted.keys() | partition_counts.keys()
    return Capacity.of(
        config,
        topics=len(users),
        partitions=sum(max(partition_counts.get(name, 0), wanted.get(name, 0)) for name in users),
    )


def partitions_of(world: World) -> dict[str, int]:
    """Topic -> number of partitions, without internal topics."""
    return {
        name: sum(len(generation.partitions) for generation in found.spec.generations)
        for name, found in world.maps.items()
        if not is_internal(name)
    }


def existing(topic: Topic, named: Named, facts: ClusterFacts) -> ExistingTopic:
    """The topic as the checks see it, with what its spec asks for already counted."""
    spec, generation = topic.spec, named.generation
    states = () if generation is None else generation.partitions
    made_with = len(states[0].replicas) if states else facts.default_replicas
    return ExistingTopic(
        name=topic.topic_name,
        partitions=max(spec.partitions or 0, len(states)),
        replicas=spec.replicas or made_with,
        config=texts(spec.config),
    )


def texts(config: Mapping[str, object]) -> dict[str, str]:
    """The configuration of a manifest as texts, including invalid values, because a change may
    correct them."""
    values = given_topic_config(config).values
    return {name: values.get(name, str(value)) for name, value in config.items()}
