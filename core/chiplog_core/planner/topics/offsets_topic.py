"""`__consumer_offsets`: created with the cluster, without a Topic object (replication.md section
5).

Its configuration and its number of replicas follow the BrokerCluster. Its number of partitions
never changes: groups find their coordinator by it (KIP-1268). Its topic id is kept in the status of
the BrokerCluster, so that a PartitionMap that is lost is rebuilt from the brokers' disks. A new,
empty one would lose every group's committed offsets.
"""

from collections.abc import Iterator, Mapping

from chiplog_core.config.broker_keys import (
    OFFSETS_TOPIC_NUM_PARTITIONS,
)
from chiplog_core.config.internal_topics import offsets_config, offsets_topic
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_cluster import OffsetsTopicStatus
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
from chiplog_core.topic_name import CONSUMER_OFFSETS


def desired_offsets_topic(world: World, settings: Settings) -> DesiredTopic | None:
    """The `__consumer_offsets` topic to create; None if it exists or cannot be created yet."""
    cluster, config = settings.valid_cluster, settings.config
    if cluster is None or config is None or not world.is_complete:
        return None
    if CONSUMER_OFFSETS in world.maps or world.metadata.deletion_timestamp is not None:
        return None
    if names.partition_map(world.metadata.name, CONSUMER_OFFSETS) in world.unreadable_maps:
        return None  # its map exists, but cannot be parsed
    wanted = offsets_topic(config, cluster.spec.replicas)
    earlier = cluster.status.consumer_offsets  # set: it existed, its map was lost
    replicas = wanted.replicas if earlier is None else earlier.replicas
    return DesiredTopic(
        name=CONSUMER_OFFSETS,
        owner_uid=None,
        partitions=wanted.partitions,
        replicas=wanted.replicas,
        config=offsets_config(config, replicas),
        lost_topic_id=None if earlier is None else earlier.topic_id,
        partitions_in_status=1 if earlier is None else earlier.partitions,
        ignores_other_topics=True,
    )


def offsets_config_of(
    spec: PartitionMapSpec, settings: Settings, world: World
) -> Mapping[str, str]:
    """The configuration that a PartitionMap without a Topic should have.

    That of `__consumer_offsets` follows the BrokerCluster; any other map keeps its configuration.
    If it will have fewer replicas, its min ISR is lowered first.
    """
    partitions = spec.current_partitions
    if spec.topic_name != CONSUMER_OFFSETS or settings.config is None or not partitions:
        return spec.config
    replicas = fewest_replicas(partitions)
    wanted = wanted_offsets_replicas(spec, settings, world)
    return offsets_config(settings.config, replicas if wanted is None else min(replicas, wanted))


def wanted_offsets_replicas(spec: PartitionMapSpec, settings: Settings, world: World) -> int | None:
    """The number of replicas that a PartitionMap without a Topic should have; None to keep it.

    Brokers that are being removed do not count. Those whose removal is refused do.
    """
    is_offsets = spec.topic_name == CONSUMER_OFFSETS
    if not is_offsets or settings.valid_cluster is None or settings.config is None:
        return None
    if world.unreadable_brokers:
        return None  # they are not in `world.brokers`, and may serve
    staying = sum(
        broker.spec.intent is not BrokerIntent.REMOVE and not broker.spec.retired
        for broker in world.brokers.values()
    )
    return offsets_topic(settings.config, staying).replicas if staying else None


def offsets_status(world: World) -> OffsetsTopicStatus | None:
    """The entry for `__consumer_offsets` in the BrokerCluster's status; None if it has no map."""
    observed = world.maps.get(CONSUMER_OFFSETS)
    if observed is None or observed.spec.current is None:
        return None
    partitions = observed.spec.current_partitions
    return OffsetsTopicStatus(
        topic_id=observed.spec.current,
        partitions=len(partitions),
        replicas=fewest_replicas(partitions),
    )


def offsets_verdicts(
    situation: Situation, plan: MapsPlan, counts: Mapping[str, TopicCounts]
) -> Iterator[Verdict]:
    """Warnings about `__consumer_offsets`, published on the BrokerCluster because there is no Topic
    object."""
    observed, wait = situation.world.maps.get(CONSUMER_OFFSETS), plan.waits.get(CONSUMER_OFFSETS)
    if observed is None:
        if wait is not None:
            yield holds(ConditionType.WARNING, wait.reason, f"{CONSUMER_OFFSETS}: {wait.message}")
        return
    problem = _problem(situation, observed, counts.get(CONSUMER_OFFSETS))
    if problem is not None:
        yield holds(ConditionType.WARNING, *problem)
    current = observed.spec.current
    damaged = damage_by_topic(situation.world).get(current, ()) if current is not None else ()
    if damaged:
        found = damage_verdict(damaged)
        message = f"{CONSUMER_OFFSETS}: {found.message}"
        yield holds(ConditionType.REPLICAS_DAMAGED, found.reason, message)


def _problem(
    situation: Situation, observed: PartitionMap, counts: TopicCounts | None
) -> tuple[str, str] | None:
    """Reason and message of the Warning condition; None if the topic serves as the spec says."""
    disturbed = disturbance(situation, observed.spec, counts)
    if disturbed is not None:
        reason, message = disturbed
        where = f"{CONSUMER_OFFSETS} (set annotations on PartitionMap {observed.metadata.name})"
        return reason, f"{where}: {message}"
    differences = "; ".join(_differences(situation.settings, observed.spec))
    return ("NotSupported", differences) if differences else None


def _differences(settings: Settings, spec: PartitionMapSpec) -> Iterator[str]:
    """Messages about a number of partitions that differs from the cluster's spec."""
    cluster, partitions = settings.valid_cluster, spec.current_partitions
    if cluster is None or settings.config is None or not partitions:
        return
    wanted = offsets_topic(settings.config, cluster.spec.replicas)
    if wanted.partitions != len(partitions):
        yield (
            f"spec.config[{OFFSETS_TOPIC_NUM_PARTITIONS.name}] is {wanted.partitions}, but "
            f"{CONSUMER_OFFSETS} was created with {len(partitions)} partitions. Their number "
            "determines each group's coordinator and cannot change: set it back"
        )
