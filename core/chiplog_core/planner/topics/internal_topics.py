"""`__consumer_offsets` and `__transaction_state`: created with the cluster, without Topic objects
(replication.md section 5).

Their configuration and their number of replicas follow the BrokerCluster. Their number of
partitions never changes: groups and transactional ids find their coordinator by it (KIP-1268).
Their topic ids are kept in the status of the BrokerCluster, so that a PartitionMap that is lost is
rebuilt from the brokers' disks. A new, empty one would lose every group's committed offsets, or
what was decided about transactions.
"""

from collections.abc import Iterator, Mapping

from chiplog_core.config.internal_topics import CREATED_TOPICS, InternalTopic
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_cluster import BrokerClusterStatus, InternalTopicStatus
from chiplog_core.model.conditions import ConditionType, Verdict
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec, fewest_replicas
from chiplog_core.model.verdicts import holds
from chiplog_core.naming import names
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.counts import TopicCounts
from chiplog_core.planner.topics.damage_reports import damage_by_topic, damage_verdict
from chiplog_core.planner.topics.disturbances import disturbance
from chiplog_core.planner.topics.maps_plan import MapsPlan, Situation
from chiplog_core.planner.topics.new_maps import DesiredTopic
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE


def desired_internal_topics(world: World, settings: Settings) -> Iterator[DesiredTopic]:
    """The internal topics to create: those that do not exist and can be created now."""
    cluster, config = settings.valid_cluster, settings.config
    if cluster is None or config is None or not world.is_complete:
        return
    if world.metadata.deletion_timestamp is not None:
        return
    for topic in CREATED_TOPICS.values():
        map_name = names.partition_map(world.metadata.name, topic.name)
        if topic.name in world.maps or map_name in world.unreadable_maps:
            continue  # its map exists, even if it cannot be parsed
        wanted = topic.size(config, cluster.spec.replicas)
        earlier = _status_of(cluster.status, topic)  # set: it existed, its map was lost
        replicas = wanted.replicas if earlier is None else earlier.replicas
        yield DesiredTopic(
            name=topic.name,
            owner_uid=None,
            partitions=wanted.partitions,
            replicas=wanted.replicas,
            config=topic.config(config, replicas),
            lost_topic_id=None if earlier is None else earlier.topic_id,
            partitions_in_status=1 if earlier is None else earlier.partitions,
            ignores_other_topics=True,
        )


def config_without_owner(
    spec: PartitionMapSpec, settings: Settings, world: World
) -> Mapping[str, str]:
    """The configuration that a PartitionMap without a Topic should have.

    That of an internal topic follows the BrokerCluster; any other map keeps its configuration. If
    it will have fewer replicas, its min ISR is lowered first.
    """
    topic, partitions = CREATED_TOPICS.get(spec.topic_name), spec.current_partitions
    if topic is None or settings.config is None or not partitions:
        return spec.config
    replicas = fewest_replicas(partitions)
    wanted = replicas_without_owner(spec, settings, world)
    return topic.config(settings.config, replicas if wanted is None else min(replicas, wanted))


def replicas_without_owner(spec: PartitionMapSpec, settings: Settings, world: World) -> int | None:
    """The number of replicas that a PartitionMap without a Topic should have; None to keep it.

    Brokers that are being removed do not count. Those whose removal is refused do.
    """
    topic = CREATED_TOPICS.get(spec.topic_name)
    if topic is None or settings.valid_cluster is None or settings.config is None:
        return None
    if world.unreadable_brokers:
        return None  # they are not in `world.brokers`, and may serve
    staying = sum(
        broker.spec.intent is not BrokerIntent.REMOVE and not broker.spec.retired
        for broker in world.brokers.values()
    )
    return topic.size(settings.config, staying).replicas if staying else None


def internal_topic_status(world: World, name: str) -> InternalTopicStatus | None:
    """The entry for an internal topic in the BrokerCluster's status; None if it has no map."""
    observed = world.maps.get(name)
    if observed is None or observed.spec.current is None:
        return None
    partitions = observed.spec.current_partitions
    return InternalTopicStatus(
        topic_id=observed.spec.current,
        partitions=len(partitions),
        replicas=fewest_replicas(partitions),
    )


def internal_topic_verdicts(
    situation: Situation, plan: MapsPlan, counts: Mapping[str, TopicCounts]
) -> Iterator[Verdict]:
    """Warnings about the internal topics, published on the BrokerCluster because there are no Topic
    objects."""
    for topic in CREATED_TOPICS.values():
        yield from _verdicts(situation, plan, counts, topic)


def _verdicts(
    situation: Situation, plan: MapsPlan, counts: Mapping[str, TopicCounts], topic: InternalTopic
) -> Iterator[Verdict]:
    """Warnings about one internal topic."""
    observed, wait = situation.world.maps.get(topic.name), plan.waits.get(topic.name)
    if observed is None:
        if wait is not None:
            yield holds(ConditionType.WARNING, wait.reason, f"{topic.name}: {wait.message}")
        return
    problem = _problem(situation, observed, counts.get(topic.name), topic)
    if problem is not None:
        yield holds(ConditionType.WARNING, *problem)
    current = observed.spec.current
    damaged = damage_by_topic(situation.world).get(current, ()) if current is not None else ()
    if damaged:
        found = damage_verdict(damaged)
        message = f"{topic.name}: {found.message}"
        yield holds(ConditionType.REPLICAS_DAMAGED, found.reason, message)


def _problem(
    situation: Situation, observed: PartitionMap, counts: TopicCounts | None, topic: InternalTopic
) -> tuple[str, str] | None:
    """Reason and message of the Warning condition; None if the topic serves as the spec says."""
    disturbed = disturbance(situation, observed.spec, counts)
    if disturbed is not None:
        reason, message = disturbed
        where = f"{topic.name} (set annotations on PartitionMap {observed.metadata.name})"
        return reason, f"{where}: {message}"
    differences = "; ".join(_differences(situation.settings, observed.spec, topic))
    return ("NotSupported", differences) if differences else None


def _differences(settings: Settings, spec: PartitionMapSpec, topic: InternalTopic) -> Iterator[str]:
    """Messages about a number of partitions that differs from the cluster's spec."""
    cluster, partitions = settings.valid_cluster, spec.current_partitions
    if cluster is None or settings.config is None or not partitions:
        return
    wanted = topic.size(settings.config, cluster.spec.replicas)
    if wanted.partitions != len(partitions):
        yield (
            f"spec.config[{topic.num_partitions.name}] is {wanted.partitions}, but "
            f"{topic.name} was created with {len(partitions)} partitions. Their number "
            f"determines each {topic.coordinated}'s coordinator and cannot change: set it back"
        )


def _status_of(status: BrokerClusterStatus, topic: InternalTopic) -> InternalTopicStatus | None:
    """What the BrokerCluster's status says of the topic."""
    found = {
        CONSUMER_OFFSETS: status.consumer_offsets,
        TRANSACTION_STATE: status.transaction_state,
    }
    return found[topic.name]
