"""Requests for new, empty volumes, and for what the present volumes are still needed.

`chiplog.dev/delete-pod-and-pvc: "true"` on a broker's pod requests one, as Strimzi has it. Requests
are judged once in a plan: the next one in turn has its broker drained (`brokers`) and is then
carried out (`volume_rebuilds`). That happens only when other replicas certainly have everything
(`survivors`), to one broker at a time, and while all others are ready and in sync. A broker whose
turn has not come is not drained: it may wait for long.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.annotations import DELETE_POD_AND_PVC
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.verdicts import brokers_named
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.maintenance import under_maintenance
from chiplog_core.planner.brokers.volume_losses import losing_volumes, retired_brokers
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.moves.data_holders import named_by_newer_reports
from chiplog_core.planner.rolls.rollout import is_healthy
from chiplog_core.planner.volumes.survivors import Needs, find_needs

LAST_REPLICA = "LastInSyncReplica"
WAITING_FOR_REPLICAS = "WaitingForReplicas"
WAITING_FOR_BROKERS = "WaitingForBrokers"
WAITING_FOR_METADATA = "WaitingForMetadata"
WAITING_FOR_LEADERS = "WaitingForLeaders"
WAITING_FOR_POD = "WaitingForPod"
WAITING_FOR_SPEC = "WaitingForSpec"
UNDER_MAINTENANCE = "UnderMaintenance"

MAX_SHOWN = 5
"""How many partitions a message names."""


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """A requested rebuild, and for what the volume is still needed."""

    broker_id: BrokerId
    needs: Needs
    why: tuple[str, str] | None
    """Reason and message if the volume is still needed; else None."""


@dataclass(frozen=True, slots=True)
class RebuildRequests:
    """All requests for new volumes."""

    brokers: tuple[BrokerId, ...] = ()
    """The brokers for which one is requested."""
    waits: tuple[str, str] | None = None
    """Reason and message if no volume can be deleted now, whichever it is; else None."""
    judged: tuple[JudgedRequest, ...] = ()
    """The requests in the order in which they are carried out; empty if all of them wait."""

    @property
    def chosen(self) -> JudgedRequest | None:
        """The first request that can be carried out; None if none can."""
        return next((one for one in self.judged if one.why is None), None)


def judge_requests(
    world: World, settings: Settings, brokers: BrokerStates, counts: Counts
) -> RebuildRequests:
    """All requests for new volumes, judged by what is known now."""
    requested = tuple(one for one in sorted(world.pods) if _is_requested(world, one))
    if not requested:
        return RebuildRequests()
    waits = _why_all_wait(world, brokers, requested, counts)
    if waits is not None:
        return RebuildRequests(requested, waits)
    held = under_maintenance(settings.cluster)
    return RebuildRequests(requested, judged=_judged(world, brokers, requested, held))


def next_to_rebuild(
    requests: RebuildRequests, world: World, brokers: BrokerStates
) -> frozenset[BrokerId]:
    """The broker that is rebuilt next, and should give up its leaderships; empty if there is none.
    It stays the same while brokers compare their disks with the maps."""
    if brokers.unchecked_alive:
        return frozenset(
            broker_id
            for broker_id in requests.brokers
            if world.brokers[broker_id].spec.intent is BrokerIntent.DRAIN
        )
    chosen = requests.chosen
    return frozenset() if chosen is None else frozenset({chosen.broker_id})


def _judged(
    world: World,
    brokers: BrokerStates,
    requested: Sequence[BrokerId],
    held: frozenset[BrokerId],
) -> tuple[JudgedRequest, ...]:
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
        judged.append(JudgedRequest(broker_id, needs, why))
    return tuple(judged)


def _is_requested(world: World, broker_id: BrokerId) -> bool:
    """Whether a new volume is requested for the broker, and its pod is not being stopped."""
    pod, broker = world.pods.get(broker_id), world.brokers.get(broker_id)
    if pod is None or pod.deleting or broker is None or broker.spec.retired:
        return False
    return is_annotated(world, broker_id)


def is_annotated(world: World, broker_id: BrokerId) -> bool:
    """Whether an annotation of the broker's pod requests a new volume. One that comes from the
    StatefulSet's template does not: every new pod would have it, too."""
    owner = world.stateful_sets.get(broker_id)
    is_from_template = owner is not None and labels.DELETE_POD_AND_PVC in owner.template_annotations
    return not is_from_template and DELETE_POD_AND_PVC.is_set(world.pods[broker_id].annotations)


def _why_all_wait(
    world: World,
    brokers: BrokerStates,
    requested: Sequence[BrokerId],
    counts: Counts,
) -> tuple[str, str] | None:
    """Reason and message if no volume can be deleted now, whichever it is; else None."""
    if not world.is_complete or world.unreadable_brokers or world.unreadable_maps:
        return WAITING_FOR_METADATA, "not all Broker and PartitionMap objects are known"
    if brokers.unchecked_alive:
        waiting = brokers_named(sorted(brokers.unchecked_alive))
        return WAITING_FOR_METADATA, f"waiting for {waiting} to compare disks and PartitionMaps"
    retired = retired_brokers(world)
    busy = [
        broker_id
        for broker_id in sorted(world.brokers.keys() - retired)
        if broker_id not in requested and not is_healthy(world, brokers, broker_id, counts)
    ]
    stopping = {broker_id for broker_id, pod in world.pods.items() if pod.deleting}
    if waits_for := sorted(stopping.difference(retired).union(busy)):
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
            f"{shown(needs.last)}"
        )
        return LAST_REPLICA, message
    if needs.low:
        message = (
            f"without it, {shown(needs.low)} would have fewer in-sync replicas than "
            "min.insync.replicas"
        )
        return WAITING_FOR_REPLICAS, message
    return None


def shown(partitions: Sequence[str]) -> str:
    """The first of the partitions, with the count of the others."""
    shown = ", ".join(partitions[:MAX_SHOWN])
    more = len(partitions) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
