"""Restarting brokers, for what cannot change while they run or because somebody asks for it: one at
a time, never at a price.

A broker that is not ready goes first: the change may be what heals it. A restart never takes a
partition below the replicas that acks=all asks for, as far as it has that many at all, and it
waits until those that run with the new configuration already are ready and in sync with
everything they hold: what the previous restart touched is whole again before the next one.
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
    """They run with what was before."""
    restart: RestartPod | None = None
    waits_for: tuple[BrokerId, ...] = ()
    """Brokers that have to be well again first."""
    is_needed: tuple[BrokerId, ...] = ()
    """Brokers without which some partition would have too few replicas in sync."""
    requested: tuple[BrokerId, ...] = ()
    """Somebody asked for their restart (`restart_requests`)."""

    @property
    def pending(self) -> tuple[BrokerId, ...]:
        """All brokers that must be restarted."""
        return tuple(sorted({*self.outdated, *self.requested}))


def plan_rollout(
    world: World, brokers: BrokerStates, broker_ids: Sequence[BrokerId], counts: Counts
) -> Rollout:
    """The next restart, if one is due and safe."""
    requested = restart_requests(world)
    found = Rollout(
        outdated=tuple(broker_id for broker_id in broker_ids if _is_outdated(world, broker_id)),
        requested=tuple(broker_id for broker_id in broker_ids if broker_id in requested),
    )
    if not found.pending:
        return found
    going = tuple(broker_id for broker_id, pod in sorted(world.pods.items()) if pod.deleting)
    if going:
        return replace(found, waits_for=going)
    unwell = tuple(
        broker_id for broker_id in broker_ids if not _is_well(world, brokers, broker_id, counts)
    )
    spared = tuple(broker_id for broker_id in found.pending if broker_id not in counts.needed)
    for broker_id in spared:
        if not world.pods[broker_id].ready:
            return replace(found, restart=_restart(world, broker_id, requested))
    if spared and set(unwell) <= set(found.pending):
        return replace(found, restart=_restart(world, spared[0], requested))
    return replace(found, waits_for=unwell, is_needed=tuple(sorted(counts.needed)))


def is_serving(world: World, brokers: BrokerStates, broker_id: BrokerId) -> bool:
    """Whether the broker's pod is ready and its process alive in its session."""
    pod, broker = world.pods.get(broker_id), brokers.by_id.get(broker_id)
    is_ready = pod is not None and pod.ready and not pod.deleting
    return is_ready and broker is not None and broker.process_state is ProcessState.ALIVE


def _is_outdated(world: World, broker_id: BrokerId) -> bool:
    """Whether the pod has an older revision than its StatefulSet."""
    pod, wanted = world.pods.get(broker_id), world.revisions.get(broker_id)
    return pod is not None and wanted is not None and not pod.deleting and pod.revision != wanted


def _is_well(world: World, brokers: BrokerStates, broker_id: BrokerId, counts: Counts) -> bool:
    """Whether the broker serves and all its replicas are in sync."""
    return is_serving(world, brokers, broker_id) and broker_id not in counts.lagging


def _restart(
    world: World, broker_id: BrokerId, requested: Mapping[BrokerId, RestartRequest]
) -> RestartPod:
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
    why = ", ".join(world.restart_reasons) or "a changed configuration"
    return f"The operator restarts broker {broker_id} for {why}"
