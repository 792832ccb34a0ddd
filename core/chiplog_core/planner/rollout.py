"""Rolling restarts: one broker at a time, for a changed pod template or on request.

A broker that is not ready is restarted first: the change may be what repairs it. A restart never
takes a partition below min.insync.replicas, unless the partition has fewer in-sync replicas anyway.
It waits until every broker that needs no restart is ready and all its replicas are in sync, so that
the previous restart is complete before the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.restart_requests import RestartRequest, restart_requests

CONFIG_CHANGE = "ConfigChangeRequiresRestart"


@dataclass(frozen=True, slots=True)
class Rollout:
    """Which brokers are to be restarted, and what is done about it now."""

    outdated: tuple[BrokerId, ...] = ()
    """Brokers whose pods have an older revision than their StatefulSets."""
    restart: RestartPod | None = None
    waits_for: tuple[BrokerId, ...] = ()
    """Brokers that must be ready and in sync before the next restart."""
    needed: tuple[BrokerId, ...] = ()
    """Brokers without which some partition would have fewer than min.insync.replicas in sync."""
    requested: tuple[BrokerId, ...] = ()
    """Brokers whose restart an annotation requests (`restart_requests`)."""

    @property
    def pending(self) -> tuple[BrokerId, ...]:
        """All brokers that must be restarted."""
        return tuple(sorted({*self.outdated, *self.requested}))


def plan_rollout(
    world: World, brokers: BrokerStates, broker_ids: Sequence[BrokerId], counts: Counts
) -> Rollout:
    """The next restart if one is due and safe, else what it waits for."""
    requested = restart_requests(world)
    found = Rollout(
        outdated=tuple(broker_id for broker_id in broker_ids if _is_outdated(world, broker_id)),
        requested=tuple(broker_id for broker_id in broker_ids if broker_id in requested),
    )
    if not found.pending:
        return found
    being_deleted = tuple(
        broker_id for broker_id, pod in sorted(world.pods.items()) if pod.deleting
    )
    if being_deleted:
        return replace(found, waits_for=being_deleted)
    unhealthy = tuple(
        broker_id for broker_id in broker_ids if not is_healthy(world, brokers, broker_id, counts)
    )
    not_needed = tuple(broker_id for broker_id in found.pending if broker_id not in counts.needed)
    for broker_id in not_needed:  # first a pod that is not ready: the restart may repair it
        if not world.pods[broker_id].ready:
            return replace(found, restart=_restart(world, broker_id, requested))
    # An unhealthy broker that needs no restart may be the one that was restarted last: wait for it.
    if not_needed and set(unhealthy) <= set(found.pending):
        return replace(found, restart=_restart(world, not_needed[0], requested))
    return replace(found, waits_for=unhealthy, needed=tuple(sorted(counts.needed)))


def is_serving(world: World, brokers: BrokerStates, broker_id: BrokerId) -> bool:
    """Whether the broker's pod is ready and its process alive in its session."""
    pod, broker = world.pods.get(broker_id), brokers.by_id.get(broker_id)
    is_ready = pod is not None and pod.ready and not pod.deleting
    return is_ready and broker is not None and broker.process_state is ProcessState.ALIVE


def _is_outdated(world: World, broker_id: BrokerId) -> bool:
    """Whether the pod has another revision of the pod template than its StatefulSet."""
    pod, wanted = world.pods.get(broker_id), world.revisions.get(broker_id)
    return pod is not None and wanted is not None and not pod.deleting and pod.revision != wanted


def is_healthy(world: World, brokers: BrokerStates, broker_id: BrokerId, counts: Counts) -> bool:
    """Whether the broker serves and all its replicas are in sync."""
    return is_serving(world, brokers, broker_id) and broker_id not in counts.lagging


def _restart(
    world: World, broker_id: BrokerId, requested: Mapping[BrokerId, RestartRequest]
) -> RestartPod:
    """The restart of the broker's pod. Its Event names the request, else the configuration."""
    pod, request = world.pods[broker_id], requested.get(broker_id)
    return RestartPod(
        broker_id=broker_id,
        pod_name=pod.name,
        pod_uid=pod.uid,
        reason=CONFIG_CHANGE if request is None else request.reason,
        message=_for_configuration(world, broker_id) if request is None else request.message,
        requested_by="" if request is None else request.stateful_set,
    )


def _for_configuration(world: World, broker_id: BrokerId) -> str:
    """The Event's message for a restart because of a changed configuration."""
    why = ", ".join(world.restart_reasons) or "a changed configuration"
    return f"The operator restarts broker {broker_id} for {why}"
