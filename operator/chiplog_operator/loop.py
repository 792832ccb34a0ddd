"""Observe, plan, act, report: one loop for each cluster, for as long as anybody names it.

Level-triggered: an event only says that a cluster may need reconciling. What was asked for is asked
for again until it is seen to be so, and killing this process between any two writes is harmless.

Independent of Kopf, of HTTP and of the machine's clock: the same loops run in a simulator.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeAlias

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Announce, EventType, Plan
from chiplog_core.naming.api import API_VERSION, BROKER_CLUSTER
from chiplog_core.observed.world import World
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Unavailable
from chiplog_operator.apply import Applied, Applier
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.execute import ActionMeter, Executor, Outcome
from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.observe import Observer
from chiplog_operator.orphans import plan_without_cluster
from chiplog_operator.waking import Wake
from chiplog_operator.writes import NotActive

logger = logging.getLogger(__name__)

COALESCE_S = 0.02
"""Changes within this time are reconciled together."""
RESYNC_S = 60.0
"""Every cluster is reconciled at least this often."""
AFTER_CONFLICT_S = 0.05
AFTER_REFUSAL_S = 10.0
FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 5.0

Planner: TypeAlias = Callable[[World, datetime, Callable[[], TopicId]], Plan]


class Meter(ActionMeter, Protocol):
    """Counts what the loops do."""

    def queued(self, cluster: ClusterKey) -> None:
        """Something about the cluster changed, and it waits to be reconciled."""

    def begun(self, cluster: ClusterKey, waited_s: float) -> None:
        """The cluster's reconciliation began, `waited_s` after the change."""

    def planned(self, cluster: ClusterKey, seconds: float, *, is_ok: bool) -> None:
        """A reconciliation ended."""

    def resynced(self, cluster: ClusterKey) -> None:
        """A reconciliation began only because time passed."""

    def observed(self, cluster: ClusterKey, world: World) -> None:
        """The cluster was observed."""

    def decided(self, cluster: ClusterKey, actions: int) -> None:
        """A plan with this many actions was made."""

    def forgotten(self, cluster: ClusterKey) -> None:
        """No object names the cluster any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the loops of one operator process work with."""

    caches: Caches
    observer: Observer
    executor: Executor
    applier: Applier
    clock: Clock
    meter: Meter
    planner: Planner
    new_topic_id: Callable[[], TopicId]


class ClusterLoop:
    """Reconciles one cluster."""

    def __init__(self, key: ClusterKey, parts: Parts) -> None:
        self.key = key
        self._parts = parts
        self._wake = Wake(parts.clock)
        self._changed_s = 0.0
        self._failures = 0
        self._announced: tuple[str, ...] = ()
        self._refused_maps: tuple[str, ...] = ()
        self._announce_again_s = 0.0

    def wake(self, *, urgent: bool = False) -> None:
        """Reconcile soon, because something about the cluster changed. If it is urgent, the plan in
        progress may be given up."""
        if not self._wake.is_set:
            self._changed_s = self._parts.clock.monotonic_s()
            self._parts.meter.queued(self.key)
        self._wake.set(urgent=urgent)

    async def run(self) -> None:
        """Reconcile until cancelled, or until no object names the cluster any more."""
        clock = self._parts.clock
        while True:
            if self._wake.is_set:
                self._parts.meter.begun(self.key, clock.monotonic_s() - self._changed_s)
            self._wake.clear()
            wait_s = await self._pass()
            if not self._wake.is_set:
                if self.key not in self._parts.caches.clusters():
                    break
                if not await self._wake.within(wait_s):
                    self._parts.meter.resynced(self.key)
            await clock.sleep(COALESCE_S)
        self._parts.meter.forgotten(self.key)

    async def _pass(self) -> float:
        """Reconcile once. Returns the seconds to the next pass if nothing happens."""
        began_s = self._parts.clock.monotonic_s()
        is_ok = False
        try:
            wait_s, is_ok = await self._observe_plan_act()
        except Unavailable as error:
            wait_s = self._backoff_s()
            self._log_failure("unavailable", error, wait_s)
        except ApiError as error:
            wait_s = AFTER_REFUSAL_S
            self._log_failure("cannot_observe", error, wait_s)
        except NotActive:
            raise
        except Exception:
            # An exception in one cluster's reconciliation must not stop others.
            wait_s = AFTER_REFUSAL_S
            logger.exception("round_failed", extra={"cluster": str(self.key)})
        self._parts.meter.planned(self.key, self._parts.clock.monotonic_s() - began_s, is_ok=is_ok)
        return wait_s

    async def _observe_plan_act(self) -> tuple[float, bool]:
        """One reconciliation. Returns the seconds to the next, and whether everything was done."""
        parts = self._parts
        cluster = parts.observer.cluster(self.key)
        known = [BrokerId(number) for number in self._broker_numbers(cluster_size(cluster))]
        world = await parts.observer.observe(self.key, parts.applier.revisions(cluster, known))
        reasons = parts.applier.restart_reasons(self.key)
        certified = parts.applier.certified(self.key)
        world = replace(
            world,
            apply_problems=self._announced,
            refused_maps=self._refused_maps,
            restart_reasons=reasons,
            ca_certificates=certified.authorities,
            certificate_expiries=certified.expiries,
            ca_replacements=certified.replacements,
            certified_hosts=certified.hosts_shown(world.pods, parts.clock.now()),
        )
        parts.meter.observed(self.key, world)
        plan = self._plan(world)
        parts.meter.decided(self.key, len(plan.actions))
        outcome = await parts.executor.execute(self.key, plan.actions, self._wake)
        if outcome.without_event:
            self.wake()  # clients wait for the next plan
        self._note_refused(outcome)
        applied = await self._apply(world, plan, outcome.problems)
        now = parts.applier.certified(self.key)
        if now.planned_from != certified.planned_from:
            self.wake()  # the next plan reports it, and may advertise what is now certified
        return self._requeue_after_s(plan, outcome, applied), outcome.is_complete

    def _note_refused(self, outcome: Outcome) -> None:
        """Keep which PartitionMaps were not written because they break a rule. The next plan
        reports them in a condition.

        That plan is due immediately only when the first map is refused or none is any more: a bug
        may break another rule in each plan, and must not keep this loop busy.
        """
        if outcome.given_up or outcome.unavailable:
            return
        before, self._refused_maps = self._refused_maps, tuple(sorted(outcome.refused_maps))
        if bool(before) is not bool(self._refused_maps):
            self.wake()

    def _plan(self, world: World) -> Plan:
        """The plan for the cluster. Without a BrokerCluster, it only handles users' objects that
        name it."""
        now = self._parts.clock.now()
        if not world.metadata.uid:
            return plan_without_cluster(world, now)
        return self._parts.planner(world, now, self._parts.new_topic_id)

    async def _apply(self, world: World, plan: Plan, problems: Sequence[str]) -> Applied:
        """Apply the cluster's Kubernetes objects, like StatefulSets, if the plan allows it. Events
        report its problems and the given ones, which come from the plan's execution."""
        is_ending = world.metadata.deletion_timestamp is not None
        if world.cluster is None or is_ending:
            self._announced = ()
            return Applied()
        if not plan.may_apply:
            await self._parts.applier.release_claims(world.cluster)
            return Applied()
        applied = await self._parts.applier.apply(world.cluster, plan.brokers, world.brokers)
        applied = replace(applied, problems=(*problems, *applied.problems))
        if applied.problems != self._announced and await self._announce(world, applied.problems):
            self._announced = applied.problems
            self.wake()  # the next plan reports it in the BrokerCluster's conditions
        return applied

    async def _announce(self, world: World, problems: tuple[str, ...]) -> bool:
        """Create an Event for the problems. Returns False if that must wait.

        A refusal may have another message each time, and each announcement causes another pass. So
        there is at most one Event within `AFTER_REFUSAL_S`.
        """
        if not problems:
            return True
        now_s = self._parts.clock.monotonic_s()
        if now_s < self._announce_again_s:
            return False  # the next pass will report it
        self._announce_again_s = now_s + AFTER_REFUSAL_S
        logger.error("not_applied", extra={"cluster": str(self.key), "problems": problems})
        await self._parts.executor.announce(
            Announce(
                kind=BROKER_CLUSTER.kind,
                api_version=API_VERSION,
                metadata=world.metadata,
                type=EventType.WARNING,
                reason="FailedApply",
                message="; ".join(problems),
            )
        )
        return True

    def _broker_numbers(self, replicas: int) -> set[int]:
        """The ids of the existing and the wanted brokers, whose pod templates are compared with
        those that run (by their revision, a hash)."""
        listed = (
            (manifest.get("spec") or {}).get("brokerId")
            for manifest in self._parts.caches.members(kinds.BROKERS, self.key)
        )
        known = {number for number in listed if isinstance(number, int) and number > 0}
        return known | set(range(1, replicas + 1))

    def _requeue_after_s(self, plan: Plan, outcome: Outcome, applied: Applied) -> float:
        """The seconds to the next pass, after what was done and what failed."""
        waits = [RESYNC_S, applied.requeue_after_s]
        if plan.requeue_after_ms is not None:
            waits.append(plan.requeue_after_ms / 1000)
        if outcome.unavailable or (applied.is_unfinished and not applied.problems):
            waits.append(self._backoff_s())
        else:
            self._failures = 0
        if outcome.conflicts or outcome.given_up:
            waits.append(AFTER_CONFLICT_S)
        if outcome.failed or applied.problems:
            waits.append(AFTER_REFUSAL_S)
        return max(min(waits), 0.0)

    def _backoff_s(self) -> float:
        """The pause after a failure. It doubles with each failure in a row, up to a limit."""
        delay_s = min(FIRST_BACKOFF_S * 2.0**self._failures, LAST_BACKOFF_S)
        self._failures = min(self._failures + 1, 10)
        return delay_s

    def _log_failure(self, event: str, error: Exception, wait_s: float) -> None:
        """Log a warning that a pass failed, and when the next one is due."""
        facts = {"cluster": str(self.key), "error": str(error), "retry_in_s": round(wait_s, 3)}
        logger.warning(event, extra=facts)


def cluster_size(cluster: object) -> int:
    """The number of brokers in the spec of a BrokerCluster; 0 without one (None)."""
    return int(getattr(getattr(cluster, "spec", None), "replicas", 0))


class Loops:
    """A loop for every cluster that somebody names."""

    def __init__(self, parts: Parts, loops: KeyedLoops[ClusterKey, ClusterLoop]) -> None:
        self._parts = parts
        self._loops = loops

    async def run(self) -> None:
        """Run the loops until cancelled, or until one fails."""
        async with self._loops.running(lambda key: ClusterLoop(key, self._parts)):
            # Changes before now woke nobody, because no loop could run.
            for key in sorted(self._parts.caches.clusters()):
                if (loop := self._loops.of(key)) is not None:
                    loop.wake()
            await asyncio.Event().wait()
