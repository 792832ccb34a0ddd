"""The operator's changes of users' metadata: the finalizer of Topics, and the label of the cluster.

`kubectl get ct -l chiplog.dev/cluster=orders` finds the Topics and ConsumerGroups of a cluster by
the label that all objects of a cluster have. The operator adds the label if it is missing and never
overwrites a value: if a manifest sets another value, the operator and the client that applies it
would change it back for ever.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from chiplog_core.model.actions import SetMetadata
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import api, labels
from chiplog_core.observed.settings import Settings, paused
from chiplog_core.observed.world import World
from chiplog_core.planner.topics.deletion import finalizer_changes, is_deleted_with_parent


def metadata_changes(world: World, settings: Settings) -> Iterator[SetMetadata]:
    """The changes of objects' metadata, one write per object: finalizer and label of a Topic are
    written together."""
    changes = {change.metadata.uid: change for change in finalizer_changes(world, settings)}
    for change in _label_changes(world, settings):
        before = changes.get(change.metadata.uid, change)
        changes[change.metadata.uid] = replace(before, labels=change.labels)
    yield from changes.values()


def _label_changes(world: World, settings: Settings) -> Iterator[SetMetadata]:
    """The label of the cluster for Topics and ConsumerGroups that lack it."""
    if settings.cluster is None:
        return
    cluster_label = {labels.CLUSTER: world.metadata.name}
    topics = ((api.TOPIC, topic.metadata) for topic in world.topics)
    groups = ((api.CONSUMER_GROUP, group.metadata) for group in world.groups)
    for kind, meta in chain(topics, groups):
        if _lacks_label(meta, world):
            yield SetMetadata(kind=kind, metadata=meta, labels=cluster_label)


def _lacks_label(meta: Metadata, world: World) -> bool:
    """Whether the operator should add the label: not to objects that are paused or being
    deleted."""
    is_ignored = meta.deletion_timestamp is not None or paused(meta)
    is_labelled = labels.CLUSTER in meta.labels
    return not (is_ignored or is_labelled or is_deleted_with_parent(world, meta))
