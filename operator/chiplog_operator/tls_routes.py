"""Keeps the TLSRoutes of clusters that have such listeners.

TLSRoute is a definition of the Gateway API, which a Kubernetes cluster may lack: so it is not
watched like the other kinds. What others change by hand is applied again every ten minutes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels
from chiplog_core.validate.outside import NO_TLS_ROUTES
from chiplog_kube import kinds
from chiplog_kube.api import (
    ApiError,
    Conflict,
    Forbidden,
    KubeApi,
    Manifest,
    NotFound,
    Unavailable,
    get_or_none,
)
from chiplog_kube.manifests import annotations_of, key_of, labels_of, metadata, uid_of
from chiplog_operator import views
from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.taken import Taken, check_ours
from chiplog_operator.writes import Authority, NotActive

AGAIN_S = 600.0
KIND = kinds.TLS_ROUTES


@dataclass(frozen=True, slots=True)
class _Done:
    """What was applied, by name and hash, and when."""

    wanted: Mapping[str, str]
    at_s: float


class TlsRoutes:
    """The TLSRoutes of all clusters of one operator process."""

    def __init__(self, api: KubeApi, clock: Clock, authority: Authority) -> None:
        self._api = api
        self._clock = clock
        self._authority = authority
        self._done: dict[ClusterKey, _Done] = {}

    async def update(self, cluster: BrokerCluster, wanted: Sequence[Manifest]) -> list[str | None]:
        """Create and change these TLSRoutes, and delete others of the cluster. Returns for each
        None, a problem in words, or an empty text if only another attempt is needed. Raises
        `NotActive`."""
        key = ClusterKey(cluster.metadata.namespace, cluster.metadata.name)
        hashes = {key_of(one).name: _hash(one) for one in wanted}
        done, now_s = self._done.get(key), self._clock.monotonic_s()
        is_old = done is not None and bool(wanted) and now_s - done.at_s >= AGAIN_S
        if done is not None and done.wanted == hashes and not is_old:
            return []
        try:
            listed = await self._api.list_(
                KIND, key.namespace, labels=f"{labels.CLUSTER}={key.name}"
            )
        except Unavailable:
            return [""]
        except NotFound:
            results: list[str | None] = [NO_TLS_ROUTES] if wanted else []
        except Forbidden as error:
            results = [f"TLSRoutes cannot be listed: {error}"] if wanted else []
        else:
            live = {key_of(one).name: one for one in listed.items}
            results = [await self._apply(one, live.get(key_of(one).name)) for one in wanted]
            for name, found in live.items():
                if name not in hashes and _is_ours(found, cluster):
                    results.append(await self._delete(found))
        if all(result is None for result in results):
            self._done[key] = _Done(hashes, now_s)
        return results

    async def _apply(self, wanted: Manifest, live: Manifest | None) -> str | None:
        """Apply one TLSRoute. Returns as `update`."""
        if not self._authority.is_held():
            raise NotActive
        try:
            live = live or await get_or_none(self._api, KIND, *key_of(wanted))
            if live is None:
                await self._api.apply_new(KIND, wanted, field_manager=labels.OPERATOR)
                return None
            check_ours(KIND, live, wanted)
            with_uid = {**wanted, "metadata": {**wanted["metadata"], "uid": uid_of(live)}}
            await self._api.apply(KIND, with_uid, field_manager=labels.OPERATOR)
        except Taken as taken:
            return str(taken)
        except (Conflict, NotFound, Unavailable):
            return ""
        except ApiError as error:
            return f"{KIND.kind} {key_of(wanted).name} is refused: {error}"
        return None

    async def _delete(self, live: Manifest) -> str | None:
        """Delete one TLSRoute. Returns as `update`."""
        if not self._authority.is_held():
            raise NotActive
        if "deletionTimestamp" in metadata(live):
            return None
        try:
            await self._api.delete(KIND, *key_of(live), uid=uid_of(live))
        except (Conflict, NotFound, Unavailable):
            return ""
        except ApiError as error:
            return f"{KIND.kind} {key_of(live).name} cannot be deleted: {error}"
        return None


def _hash(manifest: Manifest) -> str:
    return annotations_of(manifest)[labels.MANIFEST_HASH]


def _is_ours(live: Manifest, cluster: BrokerCluster) -> bool:
    """Whether the operator created it for this BrokerCluster."""
    is_managed = labels_of(live).get(labels.MANAGED_BY) == labels.OPERATOR
    return is_managed and cluster.metadata.uid in views.owners_of(live)
