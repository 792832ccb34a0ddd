"""Writes of Topics for admin clients, and the API server's last word on each."""

from chiplog_core.model.actions import WriteTopic
from chiplog_core.naming import labels
from chiplog_core.observed.world import WriteResult
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, Forbidden, Invalid, KubeApi, Manifest
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import ClusterKey, cluster_of
from chiplog_operator.writes import as_it_was


async def write_topic(
    there: CachedApi, cluster: ClusterKey, action: WriteTopic
) -> WriteResult | None:
    """Write a Topic. Returns whether the API server accepted it; None if that is not final yet."""
    try:
        made = await _sent(there.api, action)
    except AlreadyExists:
        about = action.metadata
        made = await there.read(kinds.TOPICS, about.namespace, about.name)
        if cluster_of(kinds.TOPICS, made) == cluster:
            return None
        message = f"the Topic object {about.namespace}/{about.name} belongs to another cluster"
        return WriteResult(accepted=False, message=message)
    except (Invalid, Forbidden) as error:
        return WriteResult(accepted=False, message=str(error))
    if made is not None and not action.dry_run:
        there.take(kinds.TOPICS, made)
    return WriteResult(accepted=True)


async def _sent(api: KubeApi, action: WriteTopic) -> Manifest | None:
    about = action.metadata
    if action.create is not None:
        return await api.create(
            kinds.TOPICS,
            dict(action.create),
            field_manager=labels.KAFKA_ADMIN,
            dry_run=action.dry_run,
        )
    if action.patch is not None:
        given = dict(action.patch)
        patched = given.get("metadata")
        mine = patched if isinstance(patched, dict) else {}
        return await api.patch(
            kinds.TOPICS,
            about.namespace,
            about.name,
            {**given, "metadata": {**mine, **as_it_was(about)}},
            field_manager=labels.KAFKA_ADMIN,
            dry_run=action.dry_run,
        )
    assert action.delete, "a write of nothing"
    if not action.dry_run:
        await api.delete(
            kinds.TOPICS,
            about.namespace,
            about.name,
            uid=about.uid,
            resource_version=about.resource_version,
        )
    return None
