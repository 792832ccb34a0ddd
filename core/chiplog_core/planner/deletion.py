"""The end of a topic: tombstones, what becomes of the name, and the finalizers of Topics.

Nothing goes because something is missing. Data goes by a tombstone that names its topic id; the
tombstone is written because a user deleted the Topic that owns the map, with `deletionPolicy:
Delete`; and the map goes when every broker of the tombstone has confirmed it or is retired. As
soon as the tombstone is written it is the tombstone that counts, so the Topic may go at once.
"""

from collections.abc import Iterator
from dataclasses import replace

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import SetMetadata
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, Tombstone
from chiplog_core.model.topic import DeletionPolicy, Topic
from chiplog_core.naming import api, labels
from chiplog_core.observed.settings import Settings, paused, unmanaged
from chiplog_core.observed.world import World


def is_deleted_with_parent(world: World, metadata: Metadata) -> bool:
    """Whether the object is deleted with its cluster, namespace or CRD: then nobody asked to
    delete its data."""
    return (
        world.metadata.deletion_timestamp is not None
        or world.topics_definition_deleting
        or metadata.namespace in world.namespaces_deleting
    )


def map_of_deleted_topic(spec: PartitionMapSpec, topic: Topic, world: World) -> PartitionMapSpec:
    """The map of a Topic that is being deleted, as its deletionPolicy says."""
    if is_deleted_with_parent(world, topic.metadata):
        return spec
    is_wanted = topic.spec.deletion_policy is DeletionPolicy.DELETE
    if not is_wanted or unmanaged(topic.metadata):
        return replace(spec, owner_uid=None)
    return replace(
        spec,
        owner_uid=None,
        current=None,
        unflushed=(),
        generations=(),
        tombstones=(*spec.tombstones, *map(_tombstone, spec.generations)),
    )


def confirmed(spec: PartitionMapSpec, world: World) -> PartitionMapSpec:
    """The map with the brokers' confirmations of its tombstones."""
    if not spec.tombstones:
        return spec
    tombstones = tuple(_confirmed(tombstone, world) for tombstone in spec.tombstones)
    return spec if tombstones == spec.tombstones else replace(spec, tombstones=tombstones)


def unconfirmed(spec: PartitionMapSpec) -> tuple[BrokerId, ...]:
    """The brokers that may still hold data of a deleted topic of this name."""
    missing: set[BrokerId] = set()
    for tombstone in spec.tombstones:
        missing.update(set(tombstone.brokers) - set(tombstone.confirmed))
    return tuple(sorted(missing))


def finalizer_changes(world: World, settings: Settings) -> Iterator[SetMetadata]:
    """The finalizers to add to Topics, and to remove from those that may be deleted."""
    owned = {partition_map.spec.owner_uid for partition_map in world.maps.values()}
    for topic in world.topics:
        meta = topic.metadata
        has_it = labels.TOPIC_FINALIZER in meta.finalizers
        if meta.deletion_timestamp is None:
            if not has_it and _needs_finalizer(meta, world, settings):
                yield _with_finalizers(meta, (*meta.finalizers, labels.TOPIC_FINALIZER))
        elif has_it and _may_remove_finalizer(meta, world, settings, is_owner=meta.uid in owned):
            yield _without_ours(meta)
    for unreadable in world.unreadable:
        meta = unreadable.metadata
        is_held = unreadable.is_held and not is_deleted_with_parent(world, meta)
        has_it = labels.TOPIC_FINALIZER in meta.finalizers
        if meta.deletion_timestamp is not None and has_it and not is_held:
            yield _without_ours(meta)  # its deletionPolicy cannot be read, so the data stays


def _needs_finalizer(meta: Metadata, world: World, settings: Settings) -> bool:
    """Whether the operator manages the Topic, so that it needs the finalizer."""
    is_left_alone = settings.cluster is None or paused(meta) or unmanaged(meta)
    return not is_left_alone and not is_deleted_with_parent(world, meta)


def _may_remove_finalizer(
    meta: Metadata, world: World, settings: Settings, *, is_owner: bool
) -> bool:
    """Whether the finalizer may be removed from a Topic that is being deleted."""
    if is_deleted_with_parent(world, meta):
        return True  # must not block the deletion of a namespace
    is_left_alone = settings.cluster is None or paused(meta)
    return world.is_complete and not is_left_alone and not is_owner


def _with_finalizers(meta: Metadata, finalizers: tuple[str, ...]) -> SetMetadata:
    return SetMetadata(kind=api.TOPIC, metadata=meta, finalizers=finalizers)


def _without_ours(meta: Metadata) -> SetMetadata:
    """The change that removes our finalizer."""
    rest = tuple(name for name in meta.finalizers if name != labels.TOPIC_FINALIZER)
    return _with_finalizers(meta, rest)


def _tombstone(generation: Generation) -> Tombstone:
    """The order to delete the data of a generation, for every broker that may hold it."""
    brokers: set[BrokerId] = set()
    for state in generation.partitions:
        brokers.update(state.replicas, state.adding, state.removing)
        brokers.update(ref.broker_id for ref in state.isr)
    return Tombstone(topic_id=generation.topic_id, brokers=tuple(sorted(brokers)))


def _confirmed(tombstone: Tombstone, world: World) -> Tombstone:
    """The tombstone with the confirmations that brokers have given."""
    done = tuple(
        broker_id
        for broker_id in tombstone.brokers
        if broker_id in tombstone.confirmed or _holds_nothing(world, broker_id, tombstone.topic_id)
    )
    return tombstone if done == tombstone.confirmed else replace(tombstone, confirmed=done)


def _holds_nothing(world: World, broker_id: BrokerId, topic_id: TopicId) -> bool:
    """Whether the broker has no data of the topic: it confirmed the deletion, or is retired."""
    broker = world.brokers.get(broker_id)
    if broker is None:
        return False
    return broker.spec.retired or topic_id in broker.status.confirmed_tombstones
