"""Writes of Topics for admin clients, and the API server's last word on each."""

from chiplog_core.model.actions import WriteTopic
from chiplog_core.naming import labels
from chiplog_core.observed.world import WriteResult
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, Forbidden, Invalid, KubeApi, Manifest
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import ClusterKey, cluster_of
from chiplog_operator.writes import same_version


async def write_topic(
    cached_api: CachedApi, cluster: ClusterKey, action: WriteTopic
) -> WriteResult | None:
    """Write a Topic for an admin client. Returns whether the API server accepted it.

    None if the Topic to create already exists in this cluster: the next plan answers the client.
    """
    try:
        written = await _sent(cached_api.api, action)
    except AlreadyExists:
        meta = action.metadata
        written = await cached_api.read(kinds.TOPICS, meta.namespace, meta.name)
        if cluster_of(kinds.TOPICS, written) == cluster:
            return None
        message = f"the Topic object {meta.namespace}/{meta.name} belongs to another cluster"
        return WriteResult(accepted=False, message=message)
    except (Invalid, Forbidden) as error:
        return WriteResult(accepted=False, message=str(error))
    if written is not None and not action.dry_run:
        cached_api.take(kinds.TOPICS, written)
    return WriteResult(accepted=True)


async def _sent(api: KubeApi, action: WriteTopic) -> Manifest | None:
    """Send the write: a create, patch or delete. Returns the object; None for a deletion. A dry run
    of a deletion sends nothing."""
    meta = action.metadata
    if action.create is not None:
        return await api.create(
            kinds.TOPICS,
            dict(action.create),
            field_manager=labels.KAFKA_ADMIN,
            dry_run=action.dry_run,
        )
    if action.patch is not None:
        patch = dict(action.patch)
        patched = patch.get("metadata")
        patched_metadata = patched if isinstance(patched, dict) else {}
        return await api.patch(
            kinds.TOPICS,
            meta.namespace,
            meta.name,
            {**patch, "metadata": {**patched_metadata, **same_version(meta)}},
            field_manager=labels.KAFKA_ADMIN,
            dry_run=action.dry_run,
        )
    assert action.delete, "an action creates, patches or deletes"
    if not action.dry_run:
        await api.delete(
            kinds.TOPICS,
            meta.namespace,
            meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
    return None
