"""Gives brokers new, empty volumes, as users request by an annotation.

The operator deletes the broker's pod and its PersistentVolumeClaim, and the StatefulSet creates
both again. The broker then has an empty disk, and copies its replicas from the others. That cannot
be undone: `rebuild_requests` says when other replicas certainly have everything. The broker first
gets `intent: Drain`, and its pod is deleted when it leads nothing any more: the other leaders then
have everything whatever becomes of their ISRs. The condition RebuildRefused says what a request
waits for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RebuildVolume
from chiplog_core.model.annotations import DELETE_POD_AND_PVC, field_of
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.naming import labels
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.basis import basis_of
from chiplog_core.planner.brokers.volume_losses import losing_volumes, retired_brokers
from chiplog_core.planner.volumes.rebuild_requests import (
    WAITING_FOR_LEADERS,
    WAITING_FOR_METADATA,
    WAITING_FOR_POD,
    WAITING_FOR_SPEC,
    RebuildRequests,
    is_annotated,
    shown,
)
from chiplog_core.problems import Problem

REBUILD_REMEDY = (
    f"annotate the pod with {labels.DELETE_POD_AND_PVC}=true, and it is deleted when other brokers "
    "have everything"
)


@dataclass(frozen=True, slots=True)
class RebuildRefusal:
    """Why a requested rebuild cannot be done now."""

    broker_id: BrokerId
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class VolumeRebuilds:
    """What is done about requested rebuilds."""

    rebuild: RebuildVolume | None = None
    refusals: tuple[RebuildRefusal, ...] = ()


def find_rebuilds(
    world: World,
    settings: Settings,
    requests: RebuildRequests,
    broker_ids: Sequence[BrokerId],
) -> VolumeRebuilds:
    """The rebuild to begin now, if one of the `requests` is safe, and why others must wait."""
    too_late = tuple(_too_late(world, broker_ids))
    # `settings.cluster` is None for a paused cluster and for one whose spec cannot be parsed.
    if not requests.brokers or settings.cluster is None:
        return VolumeRebuilds(refusals=() if settings.cluster is None else too_late)
    if requests.waits is not None:
        reason, message = requests.waits
        waiting = tuple(_refusal(world, one, reason, message) for one in requests.brokers)
        return VolumeRebuilds(refusals=(*waiting, *too_late))
    refusals = [*too_late]
    refusals += [
        _refusal(world, one.broker_id, *one.why) for one in requests.judged if one.why is not None
    ]
    chosen = requests.chosen
    if chosen is None:
        return VolumeRebuilds(refusals=tuple(refusals))
    if settings.valid_cluster is None:
        # Then no broker gets another intent, and so none gives up its leaderships.
        message = "spec is refused, as the condition Ready says: correct it"
        refusals.append(_refusal(world, chosen.broker_id, WAITING_FOR_SPEC, message))
    if stuck := chosen.needs.stuck:
        message = f"all brokers that could lead {shown(stuck)} are leaving or drained, too"
        refusals.append(_refusal(world, chosen.broker_id, WAITING_FOR_LEADERS, message))
    # An earlier plan has written the intent, so this plan's own writes do not stop the deletion.
    is_drained = world.brokers[chosen.broker_id].spec.intent is not BrokerIntent.SERVE
    is_ready = is_drained and not chosen.needs.led
    return VolumeRebuilds(_rebuild(world, chosen.broker_id) if is_ready else None, tuple(refusals))


def while_maps_change(rebuilds: VolumeRebuilds, world: World) -> VolumeRebuilds:
    """The same without the rebuild, which waits: it was decided from maps and brokers that this
    plan itself changes."""
    if rebuilds.rebuild is None:
        return rebuilds
    waiting = _refusal(
        world,
        rebuilds.rebuild.broker_id,
        WAITING_FOR_METADATA,
        "PartitionMaps or Brokers are changing",
    )
    return VolumeRebuilds(refusals=(*rebuilds.refusals, waiting))


def rebuild_request_problems(world: World) -> Iterator[Problem]:
    """Problems with the annotation: an unknown value, or a place where it has no effect."""
    for broker_id, pod in sorted(world.pods.items()):
        problem = DELETE_POD_AND_PVC.problem(pod.annotations, f"Pod {pod.name}")
        if problem is not None:
            yield problem
        owner = world.stateful_sets.get(broker_id)
        if owner is None:
            continue
        places = (
            (owner.annotations, ""),
            (owner.template_annotations, "spec.template."),
        )
        for annotations, path in places:
            if labels.DELETE_POD_AND_PVC in annotations:
                yield Problem(
                    f"StatefulSet {owner.name} {path}{field_of(labels.DELETE_POD_AND_PVC)}",
                    "deletes nothing on this object",
                    "remove it, and annotate the pod itself",
                )


def _too_late(world: World, broker_ids: Sequence[BrokerId]) -> Iterator[RebuildRefusal]:
    """The refusals of requests on pods that are being stopped: the next pod starts with the same
    volume."""
    for broker_id in broker_ids:
        pod, claim = world.pods.get(broker_id), world.claims.get(broker_id)
        is_kept = claim is not None and not claim.deleting
        if pod is not None and pod.deleting and is_kept and is_annotated(world, broker_id):
            message = (
                f"broker {broker_id} keeps its volume: pod {pod.name} is being stopped already. If "
                "its node is gone for good, delete the Node; then annotate the next pod"
            )
            yield RebuildRefusal(broker_id, WAITING_FOR_POD, message)


def _refusal(world: World, broker_id: BrokerId, reason: str, message: str) -> RebuildRefusal:
    """The refusal, with what the user can do."""
    pod = world.pods[broker_id].name
    text = (
        f"broker {broker_id} keeps its volume for now: {message}. Wait, or remove the annotation "
        f"{labels.DELETE_POD_AND_PVC} from pod {pod}"
    )
    if broker_id in losing_volumes(world):
        text = (
            f"the volume claim of broker {broker_id} is being deleted, but pod {pod} has to stay "
            f"for now: {message}"
        )
    return RebuildRefusal(broker_id, reason, text)


def _rebuild(world: World, broker_id: BrokerId) -> RebuildVolume:
    """The deletion of the broker's pod and claim."""
    pod, claim = world.pods[broker_id], world.claims.get(broker_id)
    losing, retired = losing_volumes(world), retired_brokers(world)
    return RebuildVolume(
        broker_id=broker_id,
        pod_name=pod.name,
        pod_uid=pod.uid,
        claim_uid="" if claim is None else claim.uid,
        serving={
            other.name: other.uid
            for other_id, other in world.pods.items()
            if other_id != broker_id and other_id not in losing and other.ready
        },
        retired_pods=frozenset(
            other.name for other_id, other in world.pods.items() if other_id in retired
        ),
        basis=basis_of(world),
    )
