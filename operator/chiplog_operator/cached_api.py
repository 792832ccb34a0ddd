"""The API server and the caches beside it: what it answers is known from then on."""

from dataclasses import dataclass

from chiplog_kube import kinds
from chiplog_kube.api import KubeApi, Manifest, NotFound
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import metadata
from chiplog_operator.caches import Caches, cluster_of
from chiplog_operator.maps_checks import MapsChecks


@dataclass(frozen=True, slots=True)
class CachedApi:
    """Writes and reads at the API server, whose answers are put into the caches at once."""

    api: KubeApi
    caches: Caches
    checks: MapsChecks
    """They are notified if a map turns out to be older than the cached one."""

    def take(self, kind: Kind, returned: Manifest, *, since: int | None = None) -> None:
        """Put an object that the API server returned into the cache. One that is being deleted and
        has no finalizers is gone, so it is removed.

        `since` is given for a read: the cache's moment (`ObjectCache.now`) before it began.
        """
        meta = metadata(returned)
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self.caches[kind].remove(returned)
        else:
            self.caches[kind].put(returned, since=since)

    async def read(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Read the object from the API server, and store it in the cache. Raises `ApiError`s; an
        object that is not found is removed from the cache first."""
        cache = self.caches[kind]
        since = cache.now()
        try:
            found = await self.api.get(kind, namespace, name)
        except NotFound:
            known = cache.get(namespace, name)
            if known is not None:
                cache.remove(known)
                self._check_map(kind, known, None)
            raise
        before = cache.get(namespace, name)
        self.take(kind, found, since=since)
        self._check_map(kind, before, found)
        return found

    def _check_map(self, kind: Kind, before: Manifest | None, found: Manifest | None) -> None:
        """Notify the checks if an object is a PartitionMap that was read: `before` is the cached
        one, `found` the one that exists. None stands for no object."""
        cluster = cluster_of(kind, before) if before is not None else None
        if kind is kinds.PARTITION_MAPS and cluster is not None:
            self.checks.read(cluster, before, found)
