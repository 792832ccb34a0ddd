"""The deletion of topics: tombstones in PartitionMaps, and the finalizers of Topics.

Nothing is deleted because something is missing. Brokers delete data only for a tombstone that names
its topic id. The tombstone is written because a user deleted the Topic that owns the map, with
`deletionPolicy: Delete`. The map is deleted when every broker of the tombstone has confirmed it or
is retired. Once the tombstone is written the Topic is not needed any more: its finalizer is
removed.
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
    """Whether the object's cluster, namespace or CustomResourceDefinition is being deleted.

    The object is then deleted along with it: nobody asked to delete its data.
    """
    return (
        world.metadata.deletion_timestamp is not None
        or world.topics_definition_deleting
        or metadata.namespace in world.namespaces_deleting
    )


def map_of_deleted_topic(spec: PartitionMapSpec, topic: Topic, world: World) -> PartitionMapSpec:
    """The map after the deletion of its Topic: with deletionPolicy Delete the data gets tombstones,
    otherwise the map keeps the data and has no owner any more."""
    if is_deleted_with_parent(world, topic.metadata):
        return spec
    deletes_data = topic.spec.deletion_policy is DeletionPolicy.DELETE
    if not deletes_data or unmanaged(topic.metadata):
        return replace(spec, owner_uid=None)
    return replace(
        spec,
        owner_uid=None,
        current=None,
        unflushed=(),
        client_config={},
        generations=(),
        tombstones=(*spec.tombstones, *map(_tombstone, spec.generations)),
    )


def confirmed(spec: PartitionMapSpec, world: World) -> PartitionMapSpec:
    """The map with the brokers' new confirmations of its tombstones; the same object if there are
    none."""
    if not spec.tombstones:
        return spec
    tombstones = tuple(_confirmed(tombstone, world) for tombstone in spec.tombstones)
    return spec if tombstones == spec.tombstones else replace(spec, tombstones=tombstones)


def unconfirmed(spec: PartitionMapSpec) -> tuple[BrokerId, ...]:
    """The brokers that may still hold data of a deleted topic of this name, by id."""
    missing: set[BrokerId] = set()
    for tombstone in spec.tombstones:
        missing.update(set(tombstone.brokers) - set(tombstone.confirmed))
    return tuple(sorted(missing))


def finalizer_changes(world: World, settings: Settings) -> Iterator[SetMetadata]:
    """The finalizers to add to Topics, and to remove from Topics that may be deleted."""
    owned = {partition_map.spec.owner_uid for partition_map in world.maps.values()}
    for topic in world.topics:
        meta = topic.metadata
        has_finalizer = labels.TOPIC_FINALIZER in meta.finalizers
        if meta.deletion_timestamp is None:
            if not has_finalizer and _needs_finalizer(meta, world, settings):
                yield _set_finalizers(meta, (*meta.finalizers, labels.TOPIC_FINALIZER))
        elif has_finalizer and _may_remove_finalizer(
            meta, world, settings, is_owner=meta.uid in owned
        ):
            yield _without_our_finalizer(meta)
    for unreadable in world.unreadable:
        meta = unreadable.metadata
        # `waits_for_map`: its PartitionMap cannot be parsed, so its data cannot be handled yet.
        must_wait = unreadable.waits_for_map and not is_deleted_with_parent(world, meta)
        has_finalizer = labels.TOPIC_FINALIZER in meta.finalizers
        if meta.deletion_timestamp is not None and has_finalizer and not must_wait:
            yield _without_our_finalizer(
                meta
            )  # its deletionPolicy cannot be read, so the data stays


def _needs_finalizer(meta: Metadata, world: World, settings: Settings) -> bool:
    """Whether the operator manages the Topic, so that it needs the finalizer."""
    is_ignored = settings.cluster is None or paused(meta) or unmanaged(meta)
    return not is_ignored and not is_deleted_with_parent(world, meta)


def _may_remove_finalizer(
    meta: Metadata, world: World, settings: Settings, *, is_owner: bool
) -> bool:
    """Whether the finalizer may be removed from a Topic that is being deleted.

    `is_owner`: a PartitionMap still names it as its owner, so its deletion was not handled yet.
    """
    if is_deleted_with_parent(world, meta):
        return True  # must not block the deletion of a namespace
    is_ignored = settings.cluster is None or paused(meta)
    return world.is_complete and not is_ignored and not is_owner


def _set_finalizers(meta: Metadata, finalizers: tuple[str, ...]) -> SetMetadata:
    return SetMetadata(kind=api.TOPIC, metadata=meta, finalizers=finalizers)


def _without_our_finalizer(meta: Metadata) -> SetMetadata:
    """The change that removes our finalizer."""
    rest = tuple(name for name in meta.finalizers if name != labels.TOPIC_FINALIZER)
    return _set_finalizers(meta, rest)


def _tombstone(generation: Generation) -> Tombstone:
    """The order to delete the data of a generation, for every broker that may hold it."""
    brokers: set[BrokerId] = set()
    for state in generation.partitions:
        brokers.update(state.holders)
        brokers.update(ref.broker_id for ref in state.isr)
    return Tombstone(topic_id=generation.topic_id, brokers=tuple(sorted(brokers)))


def _confirmed(tombstone: Tombstone, world: World) -> Tombstone:
    """The tombstone with the confirmations that brokers have given; the same object if there are no
    new ones."""
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
