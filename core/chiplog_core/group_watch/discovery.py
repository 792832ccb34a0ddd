"""ConsumerGroup objects for groups without one, so that kubectl shows these groups.

If `BrokerCluster.spec.consumerGroups.discover` is true, an object is created in the cluster's
namespace for every group that a coordinator reports, with a label that marks it as discovered. It
is deleted when its group has not existed for `GONE_MS`, or when a user creates an object for the
group. An object that a user has written to is never deleted.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from chiplog_core.group_watch.claims import GroupOwners, is_ours, not_deleted
from chiplog_core.group_watch.scene import Scene
from chiplog_core.model.actions import Create, DeleteGroup
from chiplog_core.model.consumer_group import ConsumerGroup, ConsumerGroupSpec
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.naming import labels, names

MAX_DISCOVERED: Final = 1_000
"""How many discovered objects a cluster has at most. Other groups get one when some of these have
been deleted."""
MADE_AT_ONCE: Final = 50
"""How many objects one pass creates at most."""
GONE_MS: Final = 60_000
"""How long a group must not exist before its object is deleted. A consumer that restarts may delete
and create its group in a shorter time."""


def new_objects(
    scene: Scene, group_owners: GroupOwners, existing_ids: Collection[str]
) -> Iterator[Create]:
    """New ConsumerGroups for existing groups that have none. An object whose name is taken is not
    created.

    `existing_ids` are the group ids that the coordinators reported.
    """
    if not scene.discovers:
        return
    count = sum(group.metadata.labels.get(labels.DISCOVERED) == "true" for group in scene.groups)
    with_object = {group.group_id for group in scene.groups}
    remaining = min(MADE_AT_ONCE, MAX_DISCOVERED - count)
    for group_id in sorted(set(existing_ids) - with_object - set(group_owners.owners)):
        name = names.object_name(group_id)
        if remaining > 0 and name not in scene.names_taken:
            remaining -= 1
            yield Create(resource=_object(scene, name, group_id))


def needless_objects(
    scene: Scene, group_owners: GroupOwners, gone_ms: Mapping[str, int]
) -> Iterator[DeleteGroup]:
    """Deletes discovered objects whose group does not exist any more, or has another owner now.

    `gone_ms`: group id -> for how many milliseconds, without a break, its coordinator has reported
    that the group does not exist.
    """
    if not scene.exists or scene.is_paused:
        return
    for group in not_deleted(scene.groups):
        if not is_ours(group, scene):
            continue
        owner = group_owners.owners.get(group.group_id)
        has_other_owner = owner is not None and owner.metadata.uid != group.metadata.uid
        if has_other_owner or gone_ms.get(group.group_id, 0) >= GONE_MS:
            yield DeleteGroup(metadata=group.metadata)


def _object(scene: Scene, name: str, group_id: str) -> ConsumerGroup:
    """The object for a discovered group."""
    cluster = scene.metadata.name
    return ConsumerGroup(
        metadata=Metadata(
            name=name,
            namespace=scene.metadata.namespace,
            labels={**labels.of_cluster(cluster), labels.DISCOVERED: "true"},
        ),
        spec=ConsumerGroupSpec(cluster_ref=ClusterRef(name=cluster), group_id=group_id),
    )
