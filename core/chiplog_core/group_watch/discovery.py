"""Objects for groups that nobody wrote one for, so that kubectl shows them.

Where `BrokerCluster.spec.consumerGroups.discover` is on, every group that its coordinator tells of
gets one in the cluster's namespace, with a label that says so. It goes when its group has been
gone for `GONE_MS`, or a user's object speaks for the group. Whatever a user has written to is a
user's, and stays.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from chiplog_core.group_watch.claims import Claims, is_ours, not_deleted
from chiplog_core.group_watch.scene import Scene
from chiplog_core.model.actions import Create, DeleteGroup
from chiplog_core.model.consumer_group import ConsumerGroup, ConsumerGroupSpec
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.naming import labels, names

MAX_DISCOVERED: Final = 1_000
"""Objects made by discovery; further groups appear when some of these are gone."""
MADE_AT_ONCE: Final = 50
GONE_MS: Final = 60_000
"""For this long a group is not there before its object goes: a consumer that restarts is no new
group."""


def new_objects(scene: Scene, claims: Claims, existing_ids: Collection[str]) -> Iterator[Create]:
    """New ConsumerGroups for existing groups that have none. An object whose name is taken is not
    created.

    `existing_ids` are the group ids that the coordinators reported.
    """
    if not scene.discovers:
        return
    count = sum(group.metadata.labels.get(labels.DISCOVERED) == "true" for group in scene.groups)
    spoken_for = {group.group_id for group in scene.groups}
    room = min(MADE_AT_ONCE, MAX_DISCOVERED - count)
    for group_id in sorted(set(existing_ids) - spoken_for - set(claims.owners)):
        name = names.object_name(group_id)
        if room > 0 and name not in scene.names_taken:
            room -= 1
            yield Create(resource=_object(scene, name, group_id))


def needless_objects(
    scene: Scene, claims: Claims, gone_ms: Mapping[str, int]
) -> Iterator[DeleteGroup]:
    """Discovered objects whose group is gone, or which now has a user's object.

    `gone_ms`: group id -> for how many milliseconds, without a break, its coordinator has reported
    that the group does not exist.
    """
    if not scene.exists or scene.is_paused:
        return
    for group in not_deleted(scene.groups):
        if not is_ours(group, scene):
            continue
        speaker = claims.owners.get(group.group_id)
        is_doubled = speaker is not None and speaker.metadata.uid != group.metadata.uid
        if is_doubled or gone_ms.get(group.group_id, 0) >= GONE_MS:
            yield DeleteGroup(metadata=group.metadata)


def _object(scene: Scene, name: str, group_id: str) -> ConsumerGroup:
    cluster = scene.metadata.name
    return ConsumerGroup(
        metadata=Metadata(
            name=name,
            namespace=scene.metadata.namespace,
            labels={**labels.of_cluster(cluster), labels.DISCOVERED: "true"},
        ),
        spec=ConsumerGroupSpec(cluster_ref=ClusterRef(name=cluster), group_id=group_id),
    )
