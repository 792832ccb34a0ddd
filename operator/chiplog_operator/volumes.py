"""Deletes volume claims: the only step of the operator after which data is gone.

Whether one may be deleted was decided by the planner, from caches. So everything it was decided
from is read again, consistently, before the deletion: the BrokerCluster, all PartitionMaps and
Brokers, the pods, the StatefulSet, and the claim itself. If anything differs, nothing is deleted:
`Conflict` is raised, and the next plan decides again. The deletion names the claim by uid and
resource version.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Announce, Basis, DeleteClaim, EventType, RebuildVolume
from chiplog_core.model.annotations import DELETE_POD_AND_PVC, PAUSE
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels, names
from chiplog_kube import kinds
from chiplog_kube.api import Conflict, Manifest, NotFound
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import (
    annotations_of,
    key_of,
    labels_of,
    metadata,
    uid_of,
    version_of,
)
from chiplog_operator import views
from chiplog_operator.cached_api import CachedApi
from chiplog_operator.caches import ClusterKey, cluster_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Volumes:
    """Deletes volume claims of brokers."""

    cached_api: CachedApi

    async def rebuild(self, cluster: ClusterKey, action: RebuildVolume) -> Announce:
        """Delete the claim of a broker, and then its pod, so that both are created again. Returns
        the Event about it.

        The claim goes first. Kubernetes keeps it until its pod is gone (`pvc-protection`), and the
        StatefulSet creates no pod for a claim that is being deleted. If the operator ends in
        between, the next plan finds the claim being deleted, and decides about the pod again.
        """
        broker_id = action.broker_id
        await self._confirm_cluster(cluster, action.basis)
        await self._confirm_basis(cluster, action.basis)
        await self._confirm_pods(cluster, action, await self._stateful_set(cluster, action))
        name = names.volume_claim(cluster.name, broker_id)
        claim = await self._read_or_none(kinds.VOLUME_CLAIMS, cluster, name)
        if (uid_of(claim) if claim is not None else "") != action.claim_uid:
            raise Conflict(f"PersistentVolumeClaim {name} is not the one that was seen")
        if claim is not None:
            _check_labels(claim, cluster, broker_id)
            if "deletionTimestamp" not in metadata(claim):
                await self._delete_claim(cluster, claim, why="rebuild")
        await self.cached_api.api.delete(
            kinds.PODS, cluster.namespace, action.pod_name, uid=action.pod_uid
        )
        pod = Metadata(name=action.pod_name, namespace=cluster.namespace, uid=action.pod_uid)
        return Announce(
            kind=kinds.PODS.kind,
            api_version=kinds.PODS.api_version,
            metadata=pod,
            type=EventType.NORMAL,
            reason="VolumeRebuilt",
            message=f"Requested by the annotation {labels.DELETE_POD_AND_PVC} of the pod: broker "
            f"{broker_id} starts again with an empty volume",
        )

    async def delete_of_retired(self, cluster: ClusterKey, action: DeleteClaim) -> Announce:
        """Delete the claim of a broker that is gone for good, as its Broker object records. Returns
        the Event about it."""
        broker_id = action.broker_id
        owner = await self._confirm_cluster(cluster, action.basis)
        if _storage(owner).get("deleteClaim") is not True:
            raise Conflict("spec.storage.deleteClaim is not true any more")
        await self._confirm_basis(cluster, action.basis)
        broker = await self.cached_api.read(
            kinds.BROKERS, cluster.namespace, names.broker(cluster.name, broker_id)
        )
        spec = broker.get("spec") or {}
        removal = spec.get("claimRemoval") or {}
        if spec.get("retired") is not True or removal.get("claimUID") != action.claim_uid:
            raise Conflict(f"broker {broker_id} is not recorded as removed with this claim")
        for kind, name in (
            (kinds.STATEFUL_SETS, names.stateful_set(cluster.name, broker_id)),
            (kinds.PODS, names.pod(cluster.name, broker_id)),
        ):
            if await self._read_or_none(kind, cluster, name) is not None:
                raise Conflict(f"{kind.kind} {name} exists")
        claim = await self.cached_api.read(
            kinds.VOLUME_CLAIMS, cluster.namespace, action.claim_name
        )
        _check_labels(claim, cluster, broker_id)
        if uid_of(claim) != action.claim_uid or uid_of(owner) not in views.owner_uids(claim):
            raise Conflict(f"PersistentVolumeClaim {action.claim_name} is not the cluster's own")
        await self._delete_claim(cluster, claim, why="retired")
        return Announce(
            kind=kinds.BROKERS.kind,
            api_version=kinds.BROKERS.api_version,
            metadata=action.broker,
            type=EventType.NORMAL,
            reason="VolumeDeleted",
            message=f"PersistentVolumeClaim {action.claim_name} is deleted, because the broker was "
            "removed and spec.storage.deleteClaim is true",
        )

    async def _confirm_cluster(self, cluster: ClusterKey, basis: Basis) -> Manifest:
        """Read the BrokerCluster. Raises `Conflict` if it is another one, is being deleted, or is
        paused."""
        owner = await self.cached_api.read(kinds.BROKER_CLUSTERS, cluster.namespace, cluster.name)
        if uid_of(owner) != basis.cluster_uid or "deletionTimestamp" in metadata(owner):
            raise Conflict(f"BrokerCluster {cluster} is another one, or is being deleted")
        if PAUSE.is_set(annotations_of(owner)):
            raise Conflict(f"BrokerCluster {cluster} is paused")
        return owner

    async def _confirm_basis(self, cluster: ClusterKey, basis: Basis) -> None:
        """List PartitionMaps and Brokers. Raises `Conflict` if one differs from those from which
        the plan was made."""
        for kind, versions in (
            (kinds.PARTITION_MAPS, basis.maps),
            (kinds.BROKERS, basis.brokers),
        ):
            if await self._versions(kind, cluster) != versions:
                raise Conflict(f"{kind.kind} objects changed before a volume was deleted")

    async def _versions(self, kind: Kind, cluster: ClusterKey) -> Mapping[str, str]:
        """Name -> resource version of the cluster's objects of a kind, by a consistent read."""
        cache = self.cached_api.caches[kind]
        since, known = cache.now(), self.cached_api.caches.members(kind, cluster)
        listed = await self.cached_api.api.list_(kind, cluster.namespace)
        found = {key_of(one).name: one for one in listed.items if cluster_of(kind, one) == cluster}
        cache.replace(listed, cluster.namespace, since=since)
        if kind is kinds.PARTITION_MAPS:
            # One that went back may come from a restored etcd: then brokers compare their disks.
            for before in known:
                self.cached_api.checks.read(cluster, before, found.get(key_of(before).name))
        return {name: version_of(one) for name, one in found.items()}

    async def _confirm_pods(
        self, cluster: ClusterKey, action: RebuildVolume, owner: Manifest
    ) -> None:
        """List the cluster's pods. Raises `Conflict` unless the annotation is still on the pod,
        `owner` will create that pod again, no pod is being deleted, and those that have the data
        are ready."""
        listed = await self.cached_api.api.list_(
            kinds.PODS, cluster.namespace, labels=f"{labels.CLUSTER}={cluster.name}"
        )
        manifests = {
            key_of(one).name: one for one in listed.items if views.broker_id_of(one) is not None
        }
        own = manifests.get(action.pod_name)
        if own is None or uid_of(own) != action.pod_uid:
            raise Conflict(f"Pod {action.pod_name} is another one")
        if not DELETE_POD_AND_PVC.is_set(annotations_of(own)):
            raise Conflict(f"Pod {action.pod_name} has lost its annotation")
        if uid_of(owner) not in views.owner_uids(own):
            raise Conflict(f"Pod {action.pod_name} is not of StatefulSet {key_of(owner).name}")
        pods = {name: views.pod(one) for name, one in manifests.items()}
        stopping = [pod.name for pod in pods.values() if pod.deleting]
        if stopping := [name for name in stopping if name not in action.retired_pods]:
            raise Conflict(f"Pod {', '.join(stopping)} is being deleted")
        for name, uid in action.serving.items():
            pod = pods.get(name)
            if pod is None or pod.uid != uid or not pod.ready:
                raise Conflict(f"Pod {name} is not ready any more")
        await self._confirm_claims(
            cluster, [one for name, one in manifests.items() if name in action.serving]
        )

    async def _confirm_claims(self, cluster: ClusterKey, pods: Sequence[Manifest]) -> None:
        """List the volume claims. Raises `Conflict` if that of one of these pods is being deleted:
        its data would go with the pod."""
        listed = await self.cached_api.api.list_(
            kinds.VOLUME_CLAIMS, cluster.namespace, labels=f"{labels.CLUSTER}={cluster.name}"
        )
        going = {key_of(one).name for one in listed.items if "deletionTimestamp" in metadata(one)}
        for pod in pods:
            broker_id = views.broker_id_of(pod)
            if broker_id is not None and names.volume_claim(cluster.name, broker_id) in going:
                raise Conflict(f"the volume claim of Pod {key_of(pod).name} is being deleted")

    async def _stateful_set(self, cluster: ClusterKey, action: RebuildVolume) -> Manifest:
        """Read the StatefulSet, which creates pod and claim again. Raises `Conflict` if it is not
        the cluster's, or its template has the annotation."""
        name = names.stateful_set(cluster.name, action.broker_id)
        found = await self.cached_api.read(kinds.STATEFUL_SETS, cluster.namespace, name)
        is_owned = action.basis.cluster_uid in views.owner_uids(found)
        if not is_owned or "deletionTimestamp" in metadata(found):
            raise Conflict(f"StatefulSet {name} is not the cluster's, or is being deleted")
        if labels.DELETE_POD_AND_PVC in views.stateful_set(found).template_annotations:
            raise Conflict(f"the template of StatefulSet {name} has the annotation")
        return found

    async def _read_or_none(self, kind: Kind, cluster: ClusterKey, name: str) -> Manifest | None:
        """The object by a consistent read; None if there is none."""
        try:
            return await self.cached_api.read(kind, cluster.namespace, name)
        except NotFound:
            return None

    async def _delete_claim(self, cluster: ClusterKey, claim: Manifest, *, why: str) -> None:
        """Delete the claim, if it is still exactly what was read."""
        name = key_of(claim).name
        await self.cached_api.api.delete(
            kinds.VOLUME_CLAIMS,
            cluster.namespace,
            name,
            uid=uid_of(claim),
            resource_version=version_of(claim),
        )
        facts = {"cluster": str(cluster), "claim": name, "uid": uid_of(claim), "why": why}
        logger.warning("volume_claim_deleted", extra=facts)


def _check_labels(claim: Manifest, cluster: ClusterKey, broker_id: BrokerId) -> None:
    """Check by its labels that a claim is the broker's. Raises `Conflict`."""
    wanted = {labels.CLUSTER: cluster.name, labels.BROKER_ID: str(broker_id)}
    if any(labels_of(claim).get(label) != value for label, value in wanted.items()):
        raise Conflict(f"PersistentVolumeClaim {key_of(claim).name} belongs to somebody else")


def _storage(owner: Manifest) -> Mapping[str, object]:
    """The field `spec.storage` of a BrokerCluster."""
    found = (owner.get("spec") or {}).get("storage")
    return found if isinstance(found, Mapping) else {}
