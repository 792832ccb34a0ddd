"""The input of a pass over a cluster's groups, from the caches."""

from chiplog_core.group_watch.scene import Scene
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import labels_of, metadata, uid_of
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.observe import Observer


def scene_of(key: ClusterKey, caches: Caches, observer: Observer) -> Scene:
    """The cluster, its ConsumerGroups and topics as the caches have them now."""
    manifests = caches.members(kinds.CONSUMER_GROUPS, key)

    def find_topic(topic_name: str) -> PartitionMapSpec | None:
        found = observer.partition_map(key, topic_name)
        return None if found is None else found.spec

    return Scene(
        metadata=observer.metadata(key),
        cluster=observer.cluster(key),
        groups=observer.groups(key),
        find_topic=find_topic,
        edited_by_others=frozenset(
            uid_of(manifest) for manifest in manifests if _is_edited_by_others(manifest)
        ),
        names_taken=frozenset(
            object_key.name
            for object_key in caches[kinds.CONSUMER_GROUPS].objects
            if object_key.namespace == key.namespace
        ),
    )


def _is_edited_by_others(manifest: Manifest) -> bool:
    """Whether a user may have written a ConsumerGroup. The operator deletes discovered ones only if
    not.

    True for all objects that the operator's discovery of groups did not create.
    """
    if labels_of(manifest).get(labels.DISCOVERED) != "true":
        return True
    managers = [entry.get("manager") for entry in metadata(manifest).get("managedFields") or []]
    return not managers or any(manager != labels.OPERATOR for manager in managers)
