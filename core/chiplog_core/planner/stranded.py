"""Pods that were given a node while their volume claim waits for a pod to be scheduled.

With `volumeBindingMode: WaitForFirstConsumer` the scheduler chooses the node for the volume, writes
it into the claim (`volume.kubernetes.io/selected-node`), waits for the volume, and only then binds
the pod. Where claim and pod of a broker are deleted together, the next pod may be bound by the old
claim, which the scheduler still has in its cache. Its new claim then waits for a pod that is not
scheduled yet, and the pod, which is, waits for the claim: for ever. The next pod is scheduled
with the claim that there is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import ClaimState, PodState, World

VOLUME_NOT_BOUND = "VolumeNotBound"
PATIENCE = timedelta(seconds=5)
"""So old are pod and claim at least: the watches of the two kinds do not run in step."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """Pods to delete now, and when to plan again for one that is not old enough."""

    restarts: tuple[RestartPod, ...] = ()
    requeue_after_ms: int | None = None


def find_stranded(world: World, settings: Settings, now: datetime) -> Stranded:
    """Pods to delete, because each waits for its volume and the volume for the pod.

    Decided only if all objects are listed, and never for a paused cluster.
    """
    if settings.cluster is None or not world.is_complete:
        return Stranded()
    due = dict(_due(world))
    waits = [at - now for at in due.values() if at > now]
    return Stranded(
        restarts=tuple(_restart(world, broker_id) for broker_id, at in due.items() if at <= now),
        requeue_after_ms=min(waits) // timedelta(milliseconds=1) + 1 if waits else None,
    )


def _due(world: World) -> Iterator[tuple[BrokerId, datetime]]:
    """The brokers whose pods are stranded, and from when on that is certain."""
    for broker_id, pod in sorted(world.pods.items()):
        claim = world.claims.get(broker_id)
        if claim is None or pod.bound_at is None or claim.created_at is None:
            continue
        if _waits_for_volume(pod) and _waits_for_pod(claim):
            yield broker_id, max(pod.bound_at, claim.created_at) + PATIENCE


def _waits_for_volume(pod: PodState) -> bool:
    """Whether the pod has a node but no address, which it gets after its volumes."""
    return bool(pod.node) and not (pod.address or pod.ready or pod.deleting)


def _waits_for_pod(claim: ClaimState) -> bool:
    """Whether the claim waits for a pod to be scheduled."""
    return claim.is_pending and not (claim.has_node or claim.has_volume or claim.deleting)


def _restart(world: World, broker_id: BrokerId) -> RestartPod:
    pod = world.pods[broker_id]
    return RestartPod(
        broker_id=broker_id,
        pod_name=pod.name,
        pod_uid=pod.uid,
        reason=VOLUME_NOT_BOUND,
        message=(
            f"The pod is on node {pod.node}, but its claim {world.claims[broker_id].name} waits "
            "for a pod to be scheduled, so each waits for the other. The operator deletes the "
            "pod, and its StatefulSet creates it again"
        ),
    )
