"""Brokers that are to start again with an empty volume, as users request by an annotation.

`chiplog.dev/delete-pod-and-pvc: "true"` on a broker's pod, as Strimzi has it: the operator deletes
the pod and its PersistentVolumeClaim, and the StatefulSet creates both again. The broker then has
an empty disk, and copies its replicas from the others.

That cannot be undone, so it happens only when other replicas certainly have everything
(`survivors`), to one broker at a time, and while all others are ready and in sync. The broker first
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
from chiplog_core.model.verdicts import brokers_named
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.basis import basis_of
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.data_holders import named_by_newer_reports
from chiplog_core.planner.maintenance import under_maintenance
from chiplog_core.planner.rollout import is_healthy
from chiplog_core.planner.survivors import Needs, find_needs
from chiplog_core.planner.volume_losses import losing_volumes, retired_brokers
from chiplog_core.problems import Problem

LAST_REPLICA = "LastInSyncReplica"
WAITING_FOR_REPLICAS = "WaitingForReplicas"
WAITING_FOR_BROKERS = "WaitingForBrokers"
WAITING_FOR_METADATA = "WaitingForMetadata"
WAITING_FOR_LEADERS = "WaitingForLeaders"
WAITING_FOR_POD = "WaitingForPod"
WAITING_FOR_SPEC = "WaitingForSpec"
UNDER_MAINTENANCE = "UnderMaintenance"

REBUILD_REMEDY = (
    f"annotate the pod with {labels.DELETE_POD_AND_PVC}=true, and it is deleted when other brokers "
    "have everything"
)

MAX_SHOWN = 5
"""How many partitions a message names."""


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
    brokers: BrokerStates,
    broker_ids: Sequence[BrokerId],
    counts: Counts,
) -> VolumeRebuilds:
    """The rebuild to begin now, if one is requested and safe, and why others must wait."""
    requested = [broker_id for broker_id in broker_ids if _is_requested(world, broker_id)]
    too_late = tuple(_too_late(world, broker_ids))
    # `settings.cluster` is None for a paused cluster and for one whose spec cannot be parsed.
    if not requested or settings.cluster is None:
        return VolumeRebuilds(refusals=() if settings.cluster is None else too_late)
    waits = _why_all_wait(world, brokers, broker_ids, requested, counts)
    if waits is not None:
        reason, message = waits
        waiting = tuple(_refusal(world, one, reason, message) for one in requested)
        return VolumeRebuilds(refusals=(*waiting, *too_late))
    judged = _judged(world, brokers, requested, under_maintenance(settings.cluster))
    refusals = [*too_late]
    refusals += [_refusal(world, one.broker_id, *one.why) for one in judged if one.why is not None]
    chosen = _chosen(judged)
    if chosen is None:
        return VolumeRebuilds(refusals=tuple(refusals))
    if settings.valid_cluster is None:
        # Then no broker gets another intent, and so none gives up its leaderships.
        message = "spec is refused, as the condition Ready says: correct it"
        refusals.append(_refusal(world, chosen.broker_id, WAITING_FOR_SPEC, message))
    if stuck := chosen.needs.stuck:
        message = f"all brokers that could lead {_shown(stuck)} are leaving or drained, too"
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


def next_to_rebuild(
    world: World, brokers: BrokerStates, held: frozenset[BrokerId]
) -> frozenset[BrokerId]:
    """The broker that is rebuilt next, and should give up its leaderships; empty if there is none.
    It stays the same while brokers compare their disks with the maps. `held` are the brokers under
    maintenance."""
    requested = [broker_id for broker_id in world.pods if _is_requested(world, broker_id)]
    if not requested:
        return frozenset()
    if brokers.unchecked_alive:
        return frozenset(
            broker_id
            for broker_id in requested
            if world.brokers[broker_id].spec.intent is BrokerIntent.DRAIN
        )
    chosen = _chosen(_judged(world, brokers, requested, held))
    return frozenset() if chosen is None else frozenset({chosen.broker_id})


@dataclass(frozen=True, slots=True)
class _Judged:
    """A requested rebuild, and for what the volume is still needed."""

    broker_id: BrokerId
    needs: Needs
    why: tuple[str, str] | None
    """Reason and message if the volume is still needed; else None."""


def _judged(
    world: World,
    brokers: BrokerStates,
    requested: Sequence[BrokerId],
    held: frozenset[BrokerId],
) -> tuple[_Judged, ...]:
    """The requests in the order in which they are carried out: first one that has begun, then those
    of pods that are not ready, whose replicas are missing anyway."""
    named, begun = named_by_newer_reports(world), losing_volumes(world)
    judged = []
    for broker_id in sorted(
        requested, key=lambda one: (one not in begun, world.pods[one].ready, one)
    ):
        needs = find_needs(broker_id, world, brokers)
        why = _why_needed(needs, is_named=broker_id in named)
        if broker_id in held:
            why = UNDER_MAINTENANCE, "spec.maintenance lists the broker"
        judged.append(_Judged(broker_id, needs, why))
    return tuple(judged)


def _chosen(judged: Sequence[_Judged]) -> _Judged | None:
    """The first request that can be carried out; None if none can."""
    return next((one for one in judged if one.why is None), None)


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


def _is_requested(world: World, broker_id: BrokerId) -> bool:
    """Whether a new volume is requested for the broker, and its pod is not being stopped."""
    pod, broker = world.pods.get(broker_id), world.brokers.get(broker_id)
    if pod is None or pod.deleting or broker is None or broker.spec.retired:
        return False
    return _is_annotated(world, broker_id)


def _is_annotated(world: World, broker_id: BrokerId) -> bool:
    """Whether an annotation of the broker's pod requests a new volume. One that comes from the
    StatefulSet's template does not: every new pod would have it, too."""
    owner = world.stateful_sets.get(broker_id)
    is_from_template = owner is not None and labels.DELETE_POD_AND_PVC in owner.template_annotations
    return not is_from_template and DELETE_POD_AND_PVC.is_set(world.pods[broker_id].annotations)


def _too_late(world: World, broker_ids: Sequence[BrokerId]) -> Iterator[RebuildRefusal]:
    """The refusals of requests on pods that are being stopped: the next pod starts with the same
    volume."""
    for broker_id in broker_ids:
        pod, claim = world.pods.get(broker_id), world.claims.get(broker_id)
        is_kept = claim is not None and not claim.deleting
        if pod is not None and pod.deleting and is_kept and _is_annotated(world, broker_id):
            message = (
                f"broker {broker_id} keeps its volume: pod {pod.name} is being stopped already. If "
                "its node is gone for good, delete the Node; then annotate the next pod"
            )
            yield RebuildRefusal(broker_id, WAITING_FOR_POD, message)


def _why_all_wait(
    world: World,
    brokers: BrokerStates,
    broker_ids: Sequence[BrokerId],
    requested: Sequence[BrokerId],
    counts: Counts,
) -> tuple[str, str] | None:
    """Reason and message if no volume can be deleted now, whichever it is; else None."""
    if not world.is_complete or world.unreadable_brokers or world.unreadable_maps:
        return WAITING_FOR_METADATA, "not all Broker and PartitionMap objects are known"
    if brokers.unchecked_alive:
        waiting = brokers_named(sorted(brokers.unchecked_alive))
        return WAITING_FOR_METADATA, f"waiting for {waiting} to compare disks and PartitionMaps"
    busy = [
        broker_id
        for broker_id in broker_ids
        if broker_id not in requested and not is_healthy(world, brokers, broker_id, counts)
    ]
    stopping = {broker_id for broker_id, pod in world.pods.items() if pod.deleting}
    if waits_for := sorted(stopping.difference(retired_brokers(world)).union(busy)):
        return (
            WAITING_FOR_BROKERS,
            f"waiting for {brokers_named(waits_for)} to be ready and in sync",
        )
    return None


def _why_needed(needs: Needs, *, is_named: bool) -> tuple[str, str] | None:
    """Reason and message if the broker's volume is still needed; else None. `is_named`: a report
    that is newer than its map names the broker."""
    if is_named:
        return WAITING_FOR_METADATA, "a broker knows newer metadata about it than the PartitionMaps"
    if needs.last:
        message = (
            f"no other replica that is alive and in sync certainly has everything of "
            f"{_shown(needs.last)}"
        )
        return LAST_REPLICA, message
    if needs.low:
        message = (
            f"without it, {_shown(needs.low)} would have fewer in-sync replicas than "
            "min.insync.replicas"
        )
        return WAITING_FOR_REPLICAS, message
    return None


def _shown(partitions: Sequence[str]) -> str:
    """The first of the partitions, with the count of the others."""
    shown = ", ".join(partitions[:MAX_SHOWN])
    more = len(partitions) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


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
