"""What a request of an admin client needs to know of the cluster: the topic of a name, and counts.

A name is in use as long as a Topic or a PartitionMap has it. A PartitionMap may have outlived its
Topic, together with the records.
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
    """The Topic and the PartitionMap of a topic name."""

    topic: Topic | None
    """The Topic that owns the name, in any namespace."""
    map: PartitionMap | None

    @property
    def is_being_deleted(self) -> bool:
        """Whether everything under the name is being deleted."""
        if self.topic is not None:
            return self.topic.metadata.deletion_timestamp is not None
        return self.map is not None and self.map.spec.current is None

    @property
    def generation(self) -> Generation | None:
        """The current generation of the topic; None if there is none."""
        return None if self.map is None else self.map.spec.current_generation

    def has_topic_id(self, topic_id: TopicId) -> bool:
        """Whether the topic with this id still exists under the name."""
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
        """The Topic and the PartitionMap of this name.

        If the map names no owner, or there is no map, the Topic is the one that will most likely
        become the owner.
        """
        found = self._maps.get(name)
        if found is not None and found.spec.owner_uid is not None:
            return Named(self._by_uid.get(found.spec.owner_uid), found)
        return Named(min(self._by_name.get(name, ()), key=_age, default=None), found)


def _age(topic: Topic) -> tuple[bool, str, str, str]:
    """Sort key of Topics with the same topic name: the oldest that is not being deleted comes
    first, because it will most likely get the name."""
    meta = topic.metadata
    created = "" if meta.creation_timestamp is None else meta.creation_timestamp.isoformat()
    return meta.deletion_timestamp is not None, created, meta.namespace, meta.name


def facts_of(world: World, cluster: BrokerCluster, names: TopicNames) -> ClusterFacts:
    """The facts about the cluster that `chiplog_core.admin.checks` uses."""
    config = given_broker_config(cluster.spec.config).values
    default_partitions = broker_value(config, NUM_PARTITIONS) or 1  # Kafka's default
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
    """The limits on topics and partitions, and how much of them is used.

    A Topic object counts as soon as it exists, even if its topic is still to be created or grown.
    """
    requested_counts = {
        topic.topic_name: topic.spec.partitions or default_partitions
        for topic in names.allowed_topics
    }
    existing_counts = partitions_of(world)
    topic_names = requested_counts.keys() | existing_counts.keys()
    return Capacity.of(
        config,
        topics=len(topic_names),
        partitions=sum(
            max(existing_counts.get(name, 0), requested_counts.get(name, 0)) for name in topic_names
        ),
    )


def partitions_of(world: World) -> dict[str, int]:
    """Topic name -> number of partitions over all its generations, without internal topics."""
    return {
        name: sum(len(generation.partitions) for generation in found.spec.generations)
        for name, found in world.maps.items()
        if not is_internal(name)
    }


def existing(topic: Topic, named: Named, facts: ClusterFacts) -> ExistingTopic:
    """The topic as `chiplog_core.admin.checks` sees it. Partitions and replicas that its spec asks
    for count even if they do not exist yet."""
    spec, generation = topic.spec, named.generation
    states = () if generation is None else generation.partitions
    current_replicas = len(states[0].target) if states else facts.default_replicas
    return ExistingTopic(
        name=topic.topic_name,
        partitions=max(spec.partitions or 0, len(states)),
        replicas=spec.asked_replicas or current_replicas,
        config=config_as_text(spec.config),
    )


def config_as_text(config: Mapping[str, object]) -> dict[str, str]:
    """The configuration of a manifest in Kafka's text form. Invalid values are kept as they are,
    because the client's change may correct them."""
    values = given_topic_config(config).values
    return {name: values.get(name, str(value)) for name, value in config.items()}
