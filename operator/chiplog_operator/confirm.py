"""Checks before steps that cannot be undone: the objects on which a plan is based are read again.

Each check raises `Conflict` if they have changed: the plan is outdated, and made again.
"""

from collections.abc import Collection

from chiplog_core.ids import BrokerId
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import api as chiplog_api
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Conflict
from chiplog_kube.manifests import ObjectKey, key_of, metadata, uid_of, version_of
from chiplog_operator import views
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import ClusterKey


async def confirm_deletion(cached_api: CachedApi, cluster: ClusterKey, topic: Metadata) -> None:
    """Read from the API server whether the topic's data may be deleted. Raises `Conflict` if not.

    The Topic must have a deletion timestamp and be unchanged since the plan was made. Its cluster,
    CRD and namespace must not be in deletion: Kubernetes then deletes Topics that no user chose.
    """
    found = await cached_api.read(kinds.TOPICS, topic.namespace, topic.name)
    if uid_of(found) != topic.uid or "deletionTimestamp" not in metadata(found):
        raise Conflict(f"Topic {topic.namespace}/{topic.name} is not being deleted")
    if version_of(found) != topic.resource_version:
        # Its deletionPolicy may have changed.
        raise Conflict(f"Topic {topic.namespace}/{topic.name} was changed in the meantime")
    owner = await cached_api.read(kinds.BROKER_CLUSTERS, cluster.namespace, cluster.name)
    containers = [
        (kinds.BROKER_CLUSTERS, cluster.name, owner),
        *[
            (kind, name, await cached_api.api.get(kind, "", name))
            for kind, name in (
                (kinds.DEFINITIONS, chiplog_api.TOPIC.definition_name),
                (kinds.NAMESPACES, topic.namespace),
            )
        ],
    ]
    for kind, name, manifest in containers:
        if "deletionTimestamp" in metadata(manifest):
            raise Conflict(f"{kind.kind} {name} is being deleted, and its Topics with it")


async def confirm_maps(cached_api: CachedApi, cluster: ClusterKey) -> None:
    """Make sure that the PartitionMaps are the ones from which a broker's retirement was planned.

    A broker may be retired only if no map names it, and retiring it is final. So the maps are
    listed again; raises `Conflict` if the list differs from the cached maps.
    """
    cache = cached_api.caches[kinds.PARTITION_MAPS]

    def cached_versions() -> dict[ObjectKey, str]:
        members = cached_api.caches.members(kinds.PARTITION_MAPS, cluster)
        return {key_of(manifest): version_of(manifest) for manifest in members}

    planned_from, since = cached_versions(), cache.now()
    listed = await cached_api.api.list_(kinds.PARTITION_MAPS, cluster.namespace)
    cache.replace(listed, cluster.namespace, since=since)
    # Etcd may have been restored to an older copy, so brokers must compare this list with their
    # disks as well.
    cached_api.checks.start_check_of(cluster)
    if cached_versions() != planned_from:
        raise Conflict("PartitionMaps changed before the broker was retired")


async def confirm_pods(
    cached_api: CachedApi, cluster: ClusterKey, must_be_ready: Collection[BrokerId]
) -> None:
    """Read from the API server, in one consistent list, whether the pods of these brokers are
    ready and not being deleted. Raises `Conflict` if one is not.

    A restart was planned because these brokers are up. Since then one may have been restarted, by a
    predecessor of this operator, by a node that is being drained or by a person.
    """
    if not must_be_ready:
        return
    listed = await cached_api.api.list_(
        kinds.PODS, cluster.namespace, labels=f"{labels.CLUSTER}={cluster.name}"
    )
    ready = set()
    for manifest in listed.items:
        broker_id, pod = views.broker_id_of(manifest), views.pod(manifest)
        if broker_id is not None and pod.ready and not pod.deleting:
            ready.add(broker_id)
    if missing := sorted(set(must_be_ready) - ready):
        raise Conflict(f"brokers {missing} of {cluster} are not ready any more")
