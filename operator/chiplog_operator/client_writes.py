"""Writes of Topics and Users for admin clients, and the API server's last word on each."""

from contextlib import suppress
from typing import Protocol

from chiplog_core.model.actions import WriteTopic, WriteUser
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_core.observed.world import WriteResult
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, Forbidden, Invalid, KubeApi, Manifest, NotFound
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import uid_of
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import ClusterKey, cluster_of
from chiplog_operator.writes import same_version


class NotStored(Exception):  # noqa: N818 - named for what it says
    """A credential that is refused. `str()` is for the client."""


class ClientsCredentials(Protocol):
    """Opens and stores the credentials in requests of brokers."""

    async def opened(self, cluster: ClusterKey, action: WriteUser) -> str:
        """What verifies the password in the request, checked; empty without a credential. Raises
        `NotStored` and `ApiError`s."""

    async def store(
        self, cluster: ClusterKey, user: Manifest | None, entry: str, verifier: str
    ) -> None:
        """Put it into this entry of the Secret of a User. Raises `NotStored`, `NotActive` and
        `ApiError`s."""


async def write_topic(
    cached_api: CachedApi, cluster: ClusterKey, action: WriteTopic
) -> WriteResult | None:
    """Write a Topic for an admin client. Returns whether the API server accepted it.

    None if the Topic to create already exists in this cluster: the next plan answers the client.
    """
    try:
        written = await _sent(cached_api.api, kinds.TOPICS, action, dry_run=action.dry_run)
    except AlreadyExists:
        return await _existing(cached_api, kinds.TOPICS, cluster, action)
    except (Invalid, Forbidden) as error:
        return WriteResult(accepted=False, message=str(error))
    if written is not None and not action.dry_run:
        cached_api.take(kinds.TOPICS, written)
    return WriteResult(accepted=True)


async def write_user(
    cached_api: CachedApi, cluster: ClusterKey, action: WriteUser, credentials: ClientsCredentials
) -> WriteResult | None:
    """Write a User for an admin client, and its credential: before the User names it if the user
    has a Secret, so that the last password works until then. Returns as `write_topic`."""
    credential, meta = action.credential, action.metadata
    try:
        verifier = await credentials.opened(cluster, action)
        if credential is not None and credential.before_user:
            known = cached_api.caches[kinds.USERS].get(meta.namespace, meta.name)
            await credentials.store(cluster, known, credential.entry, verifier)
        written = await _sent(cached_api.api, kinds.USERS, action)
        if written is not None:
            cached_api.take(kinds.USERS, written)
        else:
            known = cached_api.caches[kinds.USERS].get(meta.namespace, meta.name)
            if known is not None and uid_of(known) == meta.uid:
                await _read_deleted(cached_api, meta)
        if credential is not None and not credential.before_user:
            await credentials.store(cluster, written, credential.entry, verifier)
    except AlreadyExists:
        return await _existing(cached_api, kinds.USERS, cluster, action)
    except (Invalid, Forbidden, NotStored) as error:
        return WriteResult(accepted=False, message=str(error))
    return WriteResult(accepted=True)


async def _read_deleted(cached_api: CachedApi, meta: Metadata) -> None:
    """Read a User that was deleted: a finalizer of somebody else may keep it."""
    with suppress(NotFound):
        await cached_api.read(kinds.USERS, meta.namespace, meta.name)


async def _existing(
    cached_api: CachedApi, kind: Kind, cluster: ClusterKey, action: WriteTopic | WriteUser
) -> WriteResult | None:
    """The result of a create for an object that exists: None if it is of this cluster."""
    meta = action.metadata
    found = await cached_api.read(kind, meta.namespace, meta.name)
    if cluster_of(kind, found) == cluster:
        return None
    message = f"the {kind.kind} object {meta.namespace}/{meta.name} belongs to another cluster"
    return WriteResult(accepted=False, message=message)


async def _sent(
    api: KubeApi, kind: Kind, action: WriteTopic | WriteUser, *, dry_run: bool = False
) -> Manifest | None:
    """Send the write: a create, patch or delete. Returns the object; None for a deletion. A dry run
    of a deletion sends nothing."""
    meta = action.metadata
    if action.create is not None:
        return await api.create(
            kind, dict(action.create), field_manager=labels.KAFKA_ADMIN, dry_run=dry_run
        )
    if action.patch is not None:
        patch = dict(action.patch)
        patched = patch.get("metadata")
        patched_metadata = patched if isinstance(patched, dict) else {}
        return await api.patch(
            kind,
            meta.namespace,
            meta.name,
            {**patch, "metadata": {**patched_metadata, **same_version(meta)}},
            field_manager=labels.KAFKA_ADMIN,
            dry_run=dry_run,
        )
    assert action.delete, "an action creates, patches or deletes"
    if not dry_run:
        await api.delete(
            kind,
            meta.namespace,
            meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
    return None
