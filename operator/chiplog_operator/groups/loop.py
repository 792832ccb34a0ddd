"""A reconciliation loop for each cluster that has ConsumerGroups, or discovers groups.

Level-triggered: each pass asks everything, and writes what is not as it should be. What a
pass finds out is gone with the process; the next one begins with what is published.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from chiplog_core.group_watch.pace import NOTHING_TO_ASK_MS
from chiplog_core.group_watch.scene import Scene
from chiplog_core.group_watch.watch import GroupFigures, GroupWatch
from chiplog_core.ids import BrokerId
from chiplog_core.observed.processes import Identity
from chiplog_kube.api import KubeApi
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.execute import Executor
from chiplog_operator.groups.client import GroupsClient, ReachableBrokers
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import GroupsPort
from chiplog_operator.groups.resetting import Resetting
from chiplog_operator.groups.scaling import Scaling
from chiplog_operator.groups.scenes import scene_of
from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.observe import Observer
from chiplog_operator.waking import Wake
from chiplog_operator.writes import Authority, NotActive

logger = logging.getLogger(__name__)

AFTER_FAULT_MS: Final = 10_000
COALESCE_S: Final = 0.02


class FiguresListener(Protocol):
    """Publishes exact figures for Prometheus."""

    def show(self, cluster: ClusterKey, figures: Sequence[GroupFigures]) -> None:
        """Take over the figures of the groups from the last pass."""

    def forget(self, cluster: ClusterKey) -> None:
        """Remove the cluster's figures, because no object names it or there are no groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPorts:
    """How loops reach brokers, and where they publish figures."""

    port: GroupsPort
    figures_listener: FiguresListener


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLoopParts:
    """What the loops of one operator process work with."""

    caches: Caches
    observer: Observer
    executor: Executor
    passwords: Passwords
    api: KubeApi
    authority: Authority
    clock: Clock
    ports: GroupPorts


class GroupsLoop:
    """Reconciles the consumer groups of one cluster."""

    def __init__(self, key: ClusterKey, parts: GroupsLoopParts) -> None:
        self._key = key
        self._parts = parts
        self._watch = GroupWatch()
        self._client = GroupsClient(key, parts.ports.port, parts.passwords, parts.clock)
        self._resetting = Resetting(
            clock=parts.clock, authority=parts.authority, events=parts.executor
        )
        self._scaling = Scaling(
            parts.api, clock=parts.clock, authority=parts.authority, events=parts.executor
        )
        self._woken = Wake(parts.clock)

    def wake(self) -> None:
        """A spec changed: reconcile soon."""
        self._woken.set()

    async def run(self) -> None:
        """Reconcile until cancelled, or until no object names the cluster any more."""
        clock = self._parts.clock
        while self._key in self._parts.caches.clusters():
            self._woken.clear()
            began_s = clock.monotonic_s()
            requeue_after_ms = await self._pass()
            spent_s = clock.monotonic_s() - began_s
            await self._woken.within(max(requeue_after_ms / 1000 - spent_s, COALESCE_S))
            await clock.sleep(COALESCE_S)
        self._parts.ports.figures_listener.forget(self._key)

    async def _pass(self) -> int:
        """Reconcile once. Returns the milliseconds from the start of this pass to the next."""
        try:
            return await self._reconcile()
        except NotActive:
            raise
        except Exception:
            # An exception in the handling of groups must not stop the handling of partitions.
            logger.exception("look_failed", extra={"cluster": str(self._key)})
            return AFTER_FAULT_MS

    async def _reconcile(self) -> int:
        """Request facts from coordinators and offsets from leaders, carry out resets and scaling
        that are due, and write statuses. Returns the milliseconds to the next pass."""
        parts, watch, client = self._parts, self._watch, self._client
        if not parts.observer.is_known(self._key.namespace):
            return AFTER_FAULT_MS
        began_ms = self._now_ms()
        scene = scene_of(self._key, parts.caches, parts.observer)
        if not scene.groups and not scene.discovers:
            parts.ports.figures_listener.forget(self._key)
            return NOTHING_TO_ASK_MS
        brokers = client.not_in_backoff(parts.observer.processes(self._key))
        answers = await client.facts(brokers, watch.facts_requests(scene))
        watch.take_facts(scene, answers, self._now_ms())
        for request, stored in await client.retention(brokers, watch.retention_requests()):
            watch.take_retention(request, stored)
        positions = await client.positions(brokers, watch.position_requests(scene))
        watch.take_positions(positions, parts.clock.now(), self._now_ms())
        if scene.exists and not scene.is_ending and not scene.is_paused:
            scene = await self._carry_out(scene, brokers)
        plan = watch.finish(scene, parts.clock.now(), began_ms, self._now_ms())
        parts.ports.figures_listener.show(self._key, plan.figures)
        if plan.actions:
            await parts.executor.execute(self._key, plan.actions)
        return plan.requeue_after_ms

    async def _carry_out(self, scene: Scene, brokers: Mapping[BrokerId, Identity]) -> Scene:
        """Carry out resets and scaling that are due. Returns the scene with their outcome."""
        observed = self._watch.observed()
        resets = await self._resetting.reconcile(
            observed, ReachableBrokers(self._client, brokers), scene.find_topic
        )
        scaled = await self._scaling.reconcile(observed, scene.find_topic)
        return replace(scene, resets=resets, scaled=scaled)

    def _now_ms(self) -> int:
        return int(self._parts.clock.monotonic_s() * 1000)


class GroupsLoops:
    """A loop for every cluster that somebody names."""

    def __init__(self, parts: GroupsLoopParts, loops: KeyedLoops[ClusterKey, GroupsLoop]) -> None:
        self._parts = parts
        self._loops = loops

    async def run(self) -> None:
        """Run the loops until cancelled."""
        async with self._loops.running(lambda key: GroupsLoop(key, self._parts)):
            # Changes before now woke nobody, because no loop could run.
            for key in sorted(self._parts.caches.clusters()):
                if (loop := self._loops.of(key)) is not None:
                    loop.wake()
            await asyncio.Event().wait()
