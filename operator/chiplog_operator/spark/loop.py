"""One loop reconciles all objects that run Spark jobs, each when it changed or is due.

Level-triggered: a pass begins with what is written and what the API server says of the
application, and what it leaves undone the next one does.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from chiplog_core.model.actions import Report
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import merge
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState, RebalanceStatus
from chiplog_core.model.verdicts import refused
from chiplog_core.model.verification import Repair, Verification, VerificationStatus
from chiplog_core.naming.api import REBALANCE, VERIFICATION, ResourceKind
from chiplog_core.problems import Problem
from chiplog_core.spark import rebalance_steps, verification_steps
from chiplog_core.spark.rebalance_view import RebalanceView
from chiplog_core.spark.runs import START_LIMIT, as_timedelta
from chiplog_core.spark.verification_steps import VerificationView
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, condition_of, key_of, uid_of
from chiplog_operator.caches import JOB_KINDS, Caches, ClusterKey, cluster_of
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.observe import Observer
from chiplog_operator.parsed import Parsed, metadata_of
from chiplog_operator.spark.auto_rebalancing import AutoRebalancing
from chiplog_operator.spark.carrying_out import CarryingOut, SparkResource, Tools
from chiplog_operator.spark.facts import Facts
from chiplog_operator.spark.loads import Loads
from chiplog_operator.spark.measuring import Measuring
from chiplog_operator.targets import KIND_OF
from chiplog_operator.waking import Wake
from chiplog_operator.writes import NotActive

logger = logging.getLogger(__name__)

R = TypeVar("R", VerificationView, RebalanceView)

MAX_CONCURRENT: Final = 4
COALESCE_S: Final = 0.1
RESYNC_S: Final = 15.0
"""How often an object is reconciled even if nothing changed: what it waits for may exist now."""
AFTER_FAILURE_S: Final = 3.0
AFTER_FAULT_S: Final = 10.0


class FiguresListener(Protocol):
    """Publishes figures for Prometheus."""

    def show(self, found: Mapping[ObjectKey, Verification]) -> None:
        """Take over the figures of all Verifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkParts:
    """What the loop works with."""

    caches: Caches
    observer: Observer
    tools: Tools
    loads: Loads
    clock: Clock
    figures_listener: FiguresListener
    woken: Wake
    """Set when a spec changed."""


@dataclass(slots=True)
class _Due:
    manifest: Manifest
    """The object as it was reconciled last."""
    at_s: float
    """When it is to be reconciled again, in monotonic seconds."""


@dataclass(slots=True)
class SparkLoop:
    """The loop of one operator process."""

    parts: SparkParts
    _due: dict[tuple[Kind, ObjectKey], _Due] = field(default_factory=dict)
    _verifications: Parsed[Verification] = field(default_factory=lambda: Parsed(Verification))
    _rebalances: Parsed[Rebalance] = field(default_factory=lambda: Parsed(Rebalance))
    _repairing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while repairs of one Verification are decided and ordered, because all of a cluster's
    repairs are limited together."""
    _rebalancing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one Rebalance is reconciled, so that only one of a cluster can begin to move."""
    _carrying_out: CarryingOut = field(init=False)
    _facts: Facts = field(init=False)
    _measuring: Measuring = field(init=False)
    _auto: AutoRebalancing = field(init=False)

    def __post_init__(self) -> None:
        """Create the helpers that need several of the parts."""
        parts, tools = self.parts, self.parts.tools
        self._carrying_out = CarryingOut(tools)
        self._measuring = Measuring(parts.observer, parts.loads)
        self._auto = AutoRebalancing(
            api=tools.api,
            caches=parts.caches,
            observer=parts.observer,
            executor=tools.executor,
            loads=parts.loads,
            authority=tools.authority,
            clock=parts.clock,
        )
        self._facts = Facts(
            caches=parts.caches,
            observer=parts.observer,
            applications=tools.applications,
            spark_image=tools.spark_image,
            allowed=tools.spark_allowed,
        )

    async def run(self) -> None:
        """Reconcile until cancelled, or until another operator is active (`NotActive`)."""
        clock = self.parts.clock
        try:
            while True:
                self.parts.woken.clear()
                await self._auto.reconcile()
                await self._pass()
                await self.parts.woken.within(self._pause_s())
                await clock.sleep(COALESCE_S)
        finally:
            self._measuring.forget_all_but(())

    def _pause_s(self) -> float:
        """The seconds until the first object is due; never negative."""
        now_s = self.parts.clock.monotonic_s()
        return max(min((due.at_s - now_s for due in self._due.values()), default=RESYNC_S), 0.0)

    async def _pass(self) -> None:
        """Reconcile each object that changed or is due."""
        now_s = self.parts.clock.monotonic_s()
        objects = {
            (kind, key): manifest
            for kind in JOB_KINDS
            for key, manifest in self.parts.caches[kind].objects.items()
        }
        self._due = {name: due for name, due in self._due.items() if name in objects}
        verifications = self.parts.caches[kinds.VERIFICATIONS].objects
        rebalances = self.parts.caches[kinds.REBALANCES].objects
        self._verifications.sweep(verifications)
        self._rebalances.sweep(rebalances)
        self._measuring.forget_all_but({uid_of(manifest) for manifest in rebalances.values()})
        parsed = self._verifications.readable(verifications)
        others = self._rebalances.readable(rebalances)
        self._carrying_out.forget_all_but(_named_applications([*parsed.values(), *others.values()]))
        self.parts.figures_listener.show(parsed)
        # A Verification that cannot be parsed may still need its orders.
        if len(parsed) == len(verifications):
            await self.parts.tools.repairing.withdraw(parsed)

        async def reconcile(name: tuple[Kind, ObjectKey]) -> None:
            manifest = objects[name]
            wait_s = await self._reconcile(name[0], manifest)
            at_s = self.parts.clock.monotonic_s() + wait_s
            self._due[name] = _Due(manifest, at_s)

        waiting = [
            name for name in sorted(objects, key=_in_order) if self._is_due(name, objects, now_s)
        ]
        await run_concurrently(reconcile, waiting, max_concurrent=MAX_CONCURRENT)
        caches = self.parts.caches
        if any(caches[kind].objects.get(key) is not objects[kind, key] for kind, key in waiting):
            self.parts.woken.set()  # a status was written, so the object is due again

    def _is_due(
        self,
        name: tuple[Kind, ObjectKey],
        manifests: Mapping[tuple[Kind, ObjectKey], Manifest],
        now_s: float,
    ) -> bool:
        """Whether the object is new, changed since its last reconciliation, or due by time."""
        known = self._due.get(name)
        return known is None or known.manifest is not manifests[name] or known.at_s <= now_s

    async def _reconcile(self, kind: Kind, manifest: Manifest) -> float:
        """Reconcile one object. Returns the seconds until it is due again."""
        if not self.parts.observer.is_known(key_of(manifest).namespace):
            return AFTER_FAILURE_S
        try:
            if kind is kinds.REBALANCES:
                return await self._reconcile_rebalance(manifest)
            return await self._reconcile_verification(manifest)
        except NotActive:
            raise
        except Exception:
            # An exception in one object's reconciliation must not stop others.
            logger.exception("spark_look_failed", extra={"object": str(key_of(manifest))})
            return AFTER_FAULT_S

    async def _reconcile_verification(self, manifest: Manifest) -> float:
        """Reconcile a Verification. Returns the seconds until it is due again."""
        key = cluster_of(kinds.VERIFICATIONS, manifest)
        found = self._verifications.read(manifest)
        if key is None or not isinstance(found, Verification):
            problems = () if isinstance(found, Verification) else found
            await self._refuse(VERIFICATION, manifest, problems, VerificationStatus())
            return RESYNC_S
        cluster = self.parts.observer.cluster(key)
        refusal = self._carrying_out.refusal(found)
        view = await self._facts.of_verification(found, key, cluster, refusal)
        view = self._with_run(view, found, cluster)
        if found.spec.repair is Repair.NONE and not found.status.repairs:
            return await self._step(key, cluster, view)
        # One at a time, because the repairs of all Verifications are limited together.
        async with self._repairing:
            parsed = self._verifications.readable(self.parts.caches[kinds.VERIFICATIONS].objects)
            cluster_state = self.parts.tools.repairing.cluster_state(key, found, parsed.values())
            return await self._step(key, cluster, replace(view, cluster_state=cluster_state))

    async def _step(
        self, key: ClusterKey, cluster: BrokerCluster | None, view: VerificationView
    ) -> float:
        """Carry out the next step of a Verification. Returns the seconds until it is due again."""
        step = verification_steps.next_step(view, self.parts.clock.now())
        is_done = await self._carrying_out.carry_out(key, view.verification, cluster, step)
        return _wait_s(step.requeue_after_ms, is_done=is_done)

    async def _reconcile_rebalance(self, manifest: Manifest) -> float:
        """Reconcile a Rebalance. Returns the seconds until it is due again."""
        key = cluster_of(kinds.REBALANCES, manifest)
        found = self._rebalances.read(manifest)
        if key is None or not isinstance(found, Rebalance):
            problems = () if isinstance(found, Rebalance) else found
            not_ready = RebalanceStatus(state=RebalanceState.NOT_READY)
            await self._refuse(REBALANCE, manifest, problems, not_ready)
            return RESYNC_S
        cluster = self.parts.observer.cluster(key)
        refusal = self._carrying_out.refusal(found)
        measurement = await self._measuring.measure(found, key)
        # One at a time, so that only one Rebalance of a cluster begins to move leaderships.
        async with self._rebalancing:
            view = await self._facts.of_rebalance(found, key, cluster, refusal)
            view = replace(self._with_run(view, found, cluster), measurement=measurement)
            step = rebalance_steps.next_step(view, self.parts.clock.now())
            is_done = await self._carrying_out.carry_out(key, found, cluster, step)
        return _wait_s(step.requeue_after_ms, is_done=is_done)

    def _with_run(self, view: R, resource: SparkResource, cluster: BrokerCluster | None) -> R:
        """Add two facts to a view: why the last attempt to create the Spark application failed
        (`obstacle`), and for how long creating it is tried (`start_limit`)."""
        spark = None if cluster is None else cluster.spec.spark
        limit = START_LIMIT if spark is None else as_timedelta(spark.start_time_limit)
        return replace(view, obstacle=self._carrying_out.obstacle(resource), start_limit=limit)

    async def _refuse(
        self,
        kind: ResourceKind,
        manifest: Manifest,
        problems: tuple[Problem, ...],
        status: VerificationStatus | RebalanceStatus,
    ) -> None:
        """Report in the status that the object cannot be parsed, and why. `status` is written with
        that condition, unless the object reports these problems already."""
        key = cluster_of(KIND_OF[kind.kind], manifest)
        meta = metadata_of(manifest)
        if key is None or not problems or _is_reported(manifest, meta, problems):
            return
        conditions = merge(
            (),
            [refused(problems)],
            observed_generation=meta.generation,
            now=self.parts.clock.now(),
        )
        new_status = replace(status, observed_generation=meta.generation, conditions=conditions)
        report = Report(kind=kind, metadata=meta, status=new_status)
        await self.parts.tools.executor.execute(key, [report])


def _named_applications(resources: Iterable[SparkResource]) -> set[tuple[str, str]]:
    """The applications that statuses name, by namespace and name."""
    return {
        (resource.metadata.namespace, resource.status.application.name)
        for resource in resources
        if resource.status.application is not None
    }


def _wait_s(requeue_after_ms: int | None, *, is_done: bool) -> float:
    """The seconds until an object is due again after a step. `requeue_after_ms` is the time that
    the step returned; None for none."""
    if not is_done:
        return AFTER_FAILURE_S
    return RESYNC_S if requeue_after_ms is None else min(requeue_after_ms / 1000, RESYNC_S)


def _in_order(name: tuple[Kind, ObjectKey]) -> tuple[str, ObjectKey]:
    """Sort key of objects, because kinds themselves cannot be compared."""
    return name[0].kind, name[1]


def _is_reported(manifest: Manifest, meta: Metadata, problems: tuple[Problem, ...]) -> bool:
    """Whether the published condition already reports these problems."""
    ready = condition_of(manifest, "Ready")
    is_newest = ready.get("observedGeneration") == meta.generation
    return is_newest and ready.get("message") == refused(problems).message
