"""Rolling restarts: for a changed pod template or on request, when `roll_gate` allows them.

One broker at a time is restarted, or a few of one rack if the policy says so; brokers of two racks
never are, nor are two that have replicas of the same partition. A restart never takes a partition
below min.insync.replicas, unless the partition has fewer in-sync replicas anyway. It waits until
every other broker is ready and all its replicas are in sync, so that the previous restart is
complete before the next one.

A broker that is not ready is restarted first: the change may be what repairs it. But one that is
still starting is left alone, because it may be recovering its logs, and would only begin again.
One that cannot start at all (`unable_to_start`) is not, and waits for no window: nobody uses it.

Brokers under maintenance are neither restarted nor waited for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.volume_losses import losing_volumes, retired_brokers
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.rolls.restart_limits import RestartLimits, find_limits
from chiplog_core.planner.rolls.restart_requests import is_requested_for_all, restart_requests
from chiplog_core.planner.rolls.roll_gate import OUTSIDE_WINDOW, UNKNOWN_CAUSE, RollGate, Wait

CONFIG_CHANGE = "ConfigChangeRequiresRestart"


@dataclass(frozen=True, slots=True)
class Rollout:
    """Which brokers are to be restarted, and what is done about it now."""

    is_planned: bool = False
    """Whether the brokers and the spec are known; if not, nothing else here says anything."""
    gate: RollGate = field(default_factory=RollGate)
    outdated: tuple[BrokerId, ...] = ()
    """Brokers whose pods have an older revision than their StatefulSets."""
    requested: tuple[BrokerId, ...] = ()
    """Brokers whose restart an annotation requests (`restart_requests`)."""
    unable: frozenset[BrokerId] = frozenset()
    """Brokers that cannot start (`unable_to_start`)."""
    held: frozenset[BrokerId] = frozenset()
    """Brokers under maintenance: they are restarted when that has ended."""
    restarts: tuple[RestartPod, ...] = ()
    waits_for: tuple[BrokerId, ...] = ()
    """Brokers that must be ready and in sync before the next restart."""
    starting: tuple[BrokerId, ...] = ()
    """Those of them that are starting, or recovering their logs."""
    needed: tuple[BrokerId, ...] = ()
    """Brokers without which some partition would have fewer than min.insync.replicas in sync."""
    losing: tuple[BrokerId, ...] = ()
    """Brokers that would lose their volumes with their pods (`volume_losses`)."""
    unreadable_maps: tuple[str, ...] = ()
    """PartitionMaps that cannot be parsed: which brokers they need is not known."""

    @property
    def pending(self) -> tuple[BrokerId, ...]:
        """All brokers that must be restarted, and may be as soon as it is safe."""
        return tuple(
            broker_id
            for broker_id in sorted({*self.outdated, *self.requested})
            if broker_id not in self.held and self.wait_of(broker_id) is None
        )

    @property
    def concerned(self) -> frozenset[BrokerId]:
        """All brokers that must be restarted, and those that the restarts wait for."""
        return frozenset((*self.outdated, *self.requested, *self.waits_for))

    @property
    def is_waiting(self) -> bool:
        """Whether the next restart waits for brokers, or for what is to be corrected."""
        return bool(self.waits_for or self.needed or self.losing or self.unreadable_maps)

    def wait_of(self, broker_id: BrokerId) -> Wait | None:
        """What a broker that must be restarted waits for at the gate; None for nothing."""
        is_requested = broker_id in self.requested
        wait = self.gate.of_requests if is_requested else self.gate.of_changes
        is_for_window = wait is not None and wait.reason == OUTSIDE_WINDOW
        return None if is_for_window and broker_id in self.unable else wait


@dataclass(frozen=True, slots=True, kw_only=True)
class RollScene:
    """The brokers, as a rolling restart sees them."""

    world: World
    brokers: BrokerStates
    broker_ids: Sequence[BrokerId]
    counts: Counts
    gate: RollGate
    unable: frozenset[BrokerId] = frozenset()
    """Brokers that cannot start (`unable_to_start`)."""
    held: frozenset[BrokerId] = frozenset()
    max_parallel: int = 1
    """How many brokers of one rack may be down at the same time."""

    @property
    def going(self) -> frozenset[BrokerId]:
        """Brokers whose pods are being deleted, but for those under maintenance."""
        deleting = frozenset(one for one, pod in self.world.pods.items() if pod.deleting)
        return deleting - self.held - retired_brokers(self.world) if deleting else deleting

    @property
    def down(self) -> frozenset[BrokerId]:
        """Brokers that do not serve, also those under maintenance."""
        return frozenset(
            one for one in self.broker_ids if not is_serving(self.world, self.brokers, one)
        )

    @property
    def unhealthy(self) -> frozenset[BrokerId]:
        """Brokers that do not serve or lag behind, but for those under maintenance."""
        lagging = self.counts.lagging.intersection(self.broker_ids)
        return (self.down | lagging) - self.held

    def down_with(self, broker_id: BrokerId) -> frozenset[BrokerId]:
        """Brokers that are or may soon be down, and this one. Its restart may repair a broker that
        is not ready; others that are not ready either, but whose processes live, are not down
        then: otherwise two such brokers would keep each other from being repaired."""
        pods = self.world.pods
        deleting = self.going | {one for one in self.held if one in pods and pods[one].deleting}
        return frozenset(deleting | {broker_id}) | (
            self.down if pods[broker_id].ready else frozenset()
        )

    def are_in_one_rack(self, brokers: frozenset[BrokerId]) -> bool:
        """Whether these brokers are known to be in the same rack; a single one always is."""
        racks = {self.brokers.rack_of(one) for one in brokers}
        return len(brokers) == 1 or (len(racks) == 1 and None not in racks)

    def is_starting(self, broker_id: BrokerId) -> bool:
        """Whether the broker's process runs, has not started up completely, and still may."""
        pod = self.world.pods.get(broker_id)
        may_start = pod is not None and pod.starting and not pod.deleting
        return may_start and broker_id not in self.unable


def plan_rollout(scene: RollScene) -> Rollout:
    """The next restarts if some are due and safe, else what they wait for."""
    world, broker_ids = scene.world, scene.broker_ids
    requests = restart_requests(world)
    found = Rollout(
        is_planned=True,
        gate=scene.gate,
        outdated=tuple(one for one in broker_ids if _is_outdated(world, one)),
        requested=tuple(one for one in broker_ids if one in requests),
        unable=scene.unable,
        held=scene.held,
    )
    pending = found.pending
    if not pending or not scene.gate.is_announced or is_requested_for_all(world):
        return found
    if world.unreadable_maps:
        return replace(found, unreadable_maps=tuple(sorted(world.unreadable_maps)))
    limits, losing = find_limits(world.maps, scene.brokers), losing_volumes(world)
    chosen = _choose(scene, [one for one in pending if one not in losing], limits)
    if chosen:
        return replace(found, restarts=tuple(_restarts(scene, chosen)))
    waits_for = scene.going or scene.unhealthy
    return replace(
        found,
        waits_for=tuple(sorted(waits_for)),
        starting=tuple(one for one in sorted(waits_for) if scene.is_starting(one)),
        needed=tuple(one for one in pending if not limits.allow(scene.down_with(one))),
        losing=tuple(one for one in pending if one in losing),
    )


def is_serving(world: World, brokers: BrokerStates, broker_id: BrokerId) -> bool:
    """Whether the broker's pod is ready and its process alive in its session."""
    pod, broker = world.pods.get(broker_id), brokers.by_id.get(broker_id)
    is_ready = pod is not None and pod.ready and not pod.deleting
    return is_ready and broker is not None and broker.process_state is ProcessState.ALIVE


def _choose(scene: RollScene, pending: Sequence[BrokerId], limits: RestartLimits) -> list[BrokerId]:
    """The brokers to restart now. First those that are not ready, which the restart may repair,
    then those that lag, then the others."""
    pods, unhealthy = scene.world.pods, scene.unhealthy
    stopping = set(scene.going)
    """Brokers that are down because of a restart, those that are chosen here included."""
    chosen: list[BrokerId] = []
    candidates = [one for one in pending if not pods[one].deleting and not scene.is_starting(one)]
    candidates.sort(key=lambda one: (pods[one].ready, one not in unhealthy, one))
    for one in candidates:
        others = stopping if not pods[one].ready else stopping | unhealthy
        together = frozenset(others | {one})
        is_within = (
            len(together) <= scene.max_parallel
            and scene.are_in_one_rack(together)
            and limits.are_apart(together)
        )
        if is_within and limits.allow(scene.down_with(one) | stopping):
            chosen.append(one)
            stopping.add(one)
    return chosen


def _is_outdated(world: World, broker_id: BrokerId) -> bool:
    """Whether the pod has another revision of the pod template than its StatefulSet."""
    pod, wanted = world.pods.get(broker_id), world.revisions.get(broker_id)
    return pod is not None and wanted is not None and not pod.deleting and pod.revision != wanted


def is_healthy(world: World, brokers: BrokerStates, broker_id: BrokerId, counts: Counts) -> bool:
    """Whether the broker serves and all its replicas are in sync."""
    return is_serving(world, brokers, broker_id) and broker_id not in counts.lagging


def _restarts(scene: RollScene, chosen: Sequence[BrokerId]) -> Iterator[RestartPod]:
    """The restarts of these brokers. Their Events name the request, else the configuration."""
    requests = restart_requests(scene.world)
    may_be_down = scene.down | scene.going | frozenset(chosen)
    must_be_ready = tuple(one for one in scene.broker_ids if one not in may_be_down)
    for one in chosen:
        pod, request = scene.world.pods[one], requests.get(one)
        yield RestartPod(
            broker_id=one,
            pod_name=pod.name,
            pod_uid=pod.uid,
            reason=CONFIG_CHANGE if request is None else request.reason,
            message=_for_configuration(scene, one) if request is None else request.message,
            requested_by="" if request is None else request.stateful_set,
            must_be_ready=must_be_ready,
        )


def _for_configuration(scene: RollScene, broker_id: BrokerId) -> str:
    """The Event's message for a restart because of a changed configuration."""
    return f"The operator restarts broker {broker_id} for {scene.gate.cause or UNKNOWN_CAUSE}"
