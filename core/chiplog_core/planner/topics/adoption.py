"""Creates Topic objects for topics whose objects were deleted without their records.

If a Topic is deleted while its BrokerCluster does not exist, or together with its namespace, the
records are kept: the user may only have removed the cluster for a while, and a cluster that is
created again continues with its records. Its topics then exist again, and each gets a Topic object,
so that users see it and can delete the records by deleting the object. A topic that was kept with
`deletionPolicy: Retain` has no owner in its PartitionMap and gets no object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from chiplog_core.model.actions import Action, Create
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.topic import Topic, TopicSpec
from chiplog_core.naming import labels
from chiplog_core.naming.names import object_name
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.topic_name import is_internal

ADOPTED = "TopicAdopted"
PATIENCE = timedelta(minutes=2)
"""How long after the creation of the BrokerCluster users have time to apply their own Topics."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """Topics to create now, and when to plan again for those that may be created later."""

    actions: tuple[Action, ...] = ()
    requeue_after_ms: int | None = None


def find_orphans(world: World, settings: Settings, now: datetime) -> Adoption:
    """Topics to create for orphaned maps, or when they may be created.

    Decided only if all objects are listed and the operator watches every namespace that may have
    Topics of the cluster: otherwise a Topic may exist that it does not see.
    """
    is_ending = world.metadata.deletion_timestamp is not None
    created_at = world.metadata.creation_timestamp
    if settings.cluster is None or is_ending or created_at is None:
        return Adoption()
    if not (world.is_complete and world.sees_all_topics):
        return Adoption()
    if not (orphans := list(_orphans(world))):
        return Adoption()
    remaining = created_at + PATIENCE - now
    if remaining > timedelta():
        return Adoption(requeue_after_ms=remaining // timedelta(milliseconds=1) + 1)
    return Adoption(tuple(_adopted(partition_map, world) for partition_map in orphans))


def _orphans(world: World) -> Iterator[PartitionMap]:
    """Maps whose owner does not exist any more, if no other Topic has their topic name or the
    `metadata.name` that the new Topic needs."""
    metas = [topic.metadata for topic in world.topics] + [
        topic.metadata for topic in world.unreadable
    ]
    uids = {meta.uid for meta in metas}
    object_keys = {(meta.namespace, meta.name) for meta in metas}
    names_of_topics = {topic.topic_name for topic in world.topics}
    for name, partition_map in sorted(world.maps.items()):
        is_taken = (
            name in names_of_topics or (world.metadata.namespace, object_name(name)) in object_keys
        )
        is_orphan = (
            partition_map.spec.owner_uid is not None and partition_map.spec.owner_uid not in uids
        )
        if (
            is_orphan
            and partition_map.spec.current is not None
            and not is_taken
            and not is_internal(name)
        ):
            yield partition_map


def _adopted(orphan: PartitionMap, world: World) -> Create:
    """The Topic to create for an orphaned map."""
    topic = _topic(orphan, world.metadata)
    return Create(
        resource=topic,
        reason=ADOPTED,
        message=(
            f"Topic {topic.topic_name} still has records, but its Topic object was deleted while "
            "the BrokerCluster did not exist. The operator created this object for it; delete it "
            "to delete the records"
        ),
    )


def _topic(orphan: PartitionMap, cluster: Metadata) -> Topic:
    """A Topic, in the cluster's namespace, whose spec matches the map."""
    spec = orphan.spec
    generation = spec.current_generation
    partitions = () if generation is None else generation.partitions
    name = object_name(spec.topic_name)
    counts = {len(state.target) for state in partitions}
    return Topic(
        metadata=Metadata(
            name=name, namespace=cluster.namespace, labels={labels.CLUSTER: cluster.name}
        ),
        spec=TopicSpec(
            cluster_ref=ClusterRef(name=cluster.name),
            topic_name=None if name == spec.topic_name else spec.topic_name,
            partitions=len(partitions) or None,
            replicas=counts.pop() if len(counts) == 1 else None,
            config=dict(spec.config),
        ),
    )
