"""Who owns the brokers' volume claims: the BrokerCluster, while `storage.deleteClaim` is true.

Kubernetes deletes the claims that a BrokerCluster owns together with it, and leaves others. So the
field decides by an ownerReference, which is set when it becomes true and removed when it becomes
false. A claim whose owner is an earlier BrokerCluster of the same name is released, too.
"""

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_core.naming.api import API_VERSION, BROKER_CLUSTER
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest
from chiplog_kube.manifests import key_of, metadata, uid_of, version_of
from chiplog_operator import views
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.claim_patches import patch_claim
from chiplog_operator.writes import Authority, NotActive


class ClaimOwners:
    """Sets and removes the ownerReferences of claims."""

    def __init__(self, api: KubeApi, caches: Caches, authority: Authority) -> None:
        self._api = api
        self._caches = caches
        self._authority = authority

    async def update(
        self, key: ClusterKey, cluster: BrokerCluster, *, may_own: bool = True
    ) -> list[str]:
        """Make the cluster the owner of its claims, or release them, as its spec says. Returns
        problems in words; an empty text only asks for another attempt. Raises `NotActive`.

        With `may_own` False claims are only released, which deletes nothing.
        """
        is_owner = cluster.spec.storage.delete_claim
        results = []
        for claim in self._caches.members(kinds.VOLUME_CLAIMS, key):
            wanted = _owners(claim, cluster, is_owner=is_owner)
            present = metadata(claim).get("ownerReferences") or []
            is_due = wanted != present and "deletionTimestamp" not in metadata(claim)
            if is_due and _is_data_claim(claim, key) and (may_own or not is_owner):
                result = await self._write(claim, wanted)
                results += [] if result is None else [result]
        return results

    async def _write(self, claim: Manifest, owners: list[Manifest]) -> str | None:
        """Write the owners of one claim, if it is still the version that was read."""
        if not self._authority.is_held():
            raise NotActive
        patch = {
            "metadata": {
                "uid": uid_of(claim),
                "resourceVersion": version_of(claim),
                "ownerReferences": owners,
            }
        }
        failure = await patch_claim(
            self._api, self._caches, claim, patch, "claim_owner_set", owned=bool(owners)
        )
        if isinstance(failure, ApiError):
            name = key_of(claim).name
            return f"the owner of PersistentVolumeClaim {name} cannot be set: {failure}"
        return failure


def _is_data_claim(claim: Manifest, key: ClusterKey) -> bool:
    """Whether this is the claim of a broker's data, by its label and name."""
    broker_id = views.broker_id_of(claim)
    return broker_id is not None and key_of(claim).name == names.volume_claim(key.name, broker_id)


def _owners(claim: Manifest, cluster: BrokerCluster, *, is_owner: bool) -> list[Manifest]:
    """The ownerReferences that the claim should have: those of others as they are, and the
    cluster's if it is to be the owner."""
    present = metadata(claim).get("ownerReferences") or []
    kept = [owner for owner in present if not _is_of_cluster(owner, cluster)]
    own = {
        "apiVersion": API_VERSION,
        "kind": BROKER_CLUSTER.kind,
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
    }
    if not is_owner:
        return kept
    # A reference that is there already stays at its place, with fields that others have added.
    if any(owner.get("uid") == cluster.metadata.uid for owner in present):
        return [
            owner for owner in present if owner in kept or owner.get("uid") == cluster.metadata.uid
        ]
    return [*kept, own]


def _is_of_cluster(owner: Manifest, cluster: BrokerCluster) -> bool:
    """Whether an ownerReference names this BrokerCluster, or an earlier one of its name."""
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return (group, owner.get("kind"), owner.get("name")) == (
        API_VERSION.rpartition("/")[0],
        BROKER_CLUSTER.kind,
        cluster.metadata.name,
    )
