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
    """Both, for those who write."""

    api: KubeApi
    caches: Caches
    checks: MapsChecks
    """Told where a map turns out to be older than what was known."""

    def take(self, kind: Kind, made: Manifest, *, since: int | None = None) -> None:
        """Store the object that a write returned. A deleted object without finalizers is gone."""
        meta = metadata(made)
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self.caches[kind].remove(made)
        else:
            self.caches[kind].put(made, since=since)

    async def read(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Read the object from the API server, and store it in the cache."""
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
        """Notify the checks if a PartitionMap turns out to be older than the cached one."""
        cluster = cluster_of(kind, before) if before is not None else None
        if kind is kinds.PARTITION_MAPS and cluster is not None:
            self.checks.read(cluster, before, found)
