"""Pods that have a node while their PersistentVolumeClaim still waits for a pod to be scheduled.

With `volumeBindingMode: WaitForFirstConsumer` the scheduler chooses the node for the volume, writes
it into the claim (`volume.kubernetes.io/selected-node`), waits for the volume, and only then binds
the pod. If claim and pod of a broker are deleted together, the next pod may be bound because of the
old claim, which the scheduler still has in its cache. The new claim then waits for ever for a pod
that is not scheduled yet, and the pod, which is scheduled, waits for the claim. When the operator
deletes the pod, the next pod is scheduled with the new claim.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import ClaimState, PodState, World
from chiplog_core.planner.brokers.maintenance import under_maintenance

VOLUME_NOT_BOUND = "VolumeNotBound"
PATIENCE = timedelta(seconds=5)
"""How old binding and claim must be before the pod is deleted: the watches of pods and of claims
are not synchronized, so a newer pair may be an old pod with a new claim."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """Pods to delete now, and when to plan again for pods that must wait for `PATIENCE` first."""

    restarts: tuple[RestartPod, ...] = ()
    requeue_after_ms: int | None = None


def find_stranded(world: World, settings: Settings, now: datetime) -> Stranded:
    """Pods to delete, because the pod waits for its volume and the volume waits for a pod.

    Decided only if all objects are listed, and never for a paused cluster or for a broker under
    maintenance.
    """
    # `settings.cluster` is None for a paused cluster and for one whose spec cannot be parsed.
    if settings.cluster is None or not world.is_complete:
        return Stranded()
    held = under_maintenance(settings.cluster)
    due_times = {one: due_at for one, due_at in _due(world) if one not in held}
    waits = [due_at - now for due_at in due_times.values() if due_at > now]
    return Stranded(
        restarts=tuple(
            _restart(world, broker_id) for broker_id, due_at in due_times.items() if due_at <= now
        ),
        # Rounded up, so that the next plan does not come too early.
        requeue_after_ms=min(waits) // timedelta(milliseconds=1) + 1 if waits else None,
    )


def _due(world: World) -> Iterator[tuple[BrokerId, datetime]]:
    """Each broker whose pod is stranded, and the time from which the pod may be deleted."""
    for broker_id, pod in sorted(world.pods.items()):
        claim = world.claims.get(broker_id)
        if claim is None or pod.bound_at is None or claim.created_at is None:
            continue
        if _waits_for_volume(pod) and _waits_for_pod(claim):
            yield broker_id, max(pod.bound_at, claim.created_at) + PATIENCE


def _waits_for_volume(pod: PodState) -> bool:
    """Whether the pod has a node but no IP address: it gets one after its volumes are mounted."""
    return bool(pod.node) and not (pod.address or pod.ready or pod.deleting)


def _waits_for_pod(claim: ClaimState) -> bool:
    """Whether the claim waits for a pod to be scheduled."""
    return claim.is_pending and not (claim.has_node or claim.has_volume or claim.deleting)


def _restart(world: World, broker_id: BrokerId) -> RestartPod:
    """The deletion of the broker's stranded pod."""
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
