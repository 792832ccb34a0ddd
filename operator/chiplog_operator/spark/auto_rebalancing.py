"""Rebalances clusters automatically, as `chiplog_core.spark.auto_rebalance` decides."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from chiplog_core.model.actions import Announce, EventType, Report
from chiplog_core.model.broker_cluster import BrokerCluster, BrokerClusterStatus
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.naming import api, labels
from chiplog_core.observed.world import World
from chiplog_core.rebalance.brokers_load import Readings, leading, partitions_of
from chiplog_core.rebalance.skew import Skew, skew_of
from chiplog_core.spark.auto_rebalance import (
    AutoStep,
    AutoView,
    measures_skew,
    next_step,
    not_created,
    staying_brokers,
)
from chiplog_kube import kinds
from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    KubeApi,
    Manifest,
    NotFound,
)
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.execute import Executor
from chiplog_operator.observe import Observer
from chiplog_operator.parsed import Parsed
from chiplog_operator.resources.objects import owner_of
from chiplog_operator.spark.loads import Loads
from chiplog_operator.writes import Authority, NotActive

logger = logging.getLogger(__name__)

MEASURED_AGAIN_S: Final = 60.0
"""This often brokers are asked how uneven their load is."""


@dataclass(slots=True, kw_only=True)
class AutoRebalancing:
    """The automatic Rebalances of one operator process."""

    api: KubeApi
    caches: Caches
    observer: Observer
    executor: Executor
    loads: Loads
    authority: Authority
    clock: Clock
    _rebalances: Parsed[Rebalance] = field(default_factory=lambda: Parsed(Rebalance))
    _measured_s: dict[ClusterKey, float] = field(default_factory=dict)
    """When a cluster's brokers were asked last, in monotonic seconds."""
    _readings: dict[ClusterKey, Readings] = field(default_factory=dict)
    """What they answered then. An operator that takes over knows rates after its second reading."""

    async def reconcile(self) -> None:
        """Take the next step for every cluster. Raises `NotActive`."""
        self._rebalances.sweep(self.caches[kinds.REBALANCES].objects)
        for found in list(self.caches[kinds.BROKER_CLUSTERS].objects):
            key = ClusterKey(found.namespace, found.name)
            try:
                await self._reconcile(key)
            except NotActive:
                raise
            except Exception:
                # An exception in one cluster's reconciliation must not stop others.
                logger.exception("auto_rebalance_failed", extra={"cluster": str(key)})

    async def _reconcile(self, key: ClusterKey) -> None:
        """Take the next step for one cluster."""
        cluster = self.observer.cluster(key)
        if cluster is None or not self.observer.is_known(key.namespace):
            return
        if not cluster.spec.auto_rebalance and cluster.status.auto_rebalance is None:
            return
        world = self.observer.from_caches(key)
        found = {
            key_of.name: self._rebalances.read(manifest)
            for key_of, manifest in self.caches[kinds.REBALANCES].objects.items()
            if key_of.namespace == key.namespace
        }
        is_measured = self._is_due(key, cluster)
        view = AutoView(
            cluster=cluster,
            world=world,
            rebalances={name: one for name, one in found.items() if isinstance(one, Rebalance)},
            unreadable=frozenset(name for name, one in found.items() if isinstance(one, tuple)),
            skew=await self._skew(key, world) if is_measured else None,
            is_measured=is_measured,
        )
        await self._carry_out(key, cluster, next_step(view, self.clock.now()))

    def _is_due(self, key: ClusterKey, cluster: BrokerCluster) -> bool:
        """Whether the brokers are to be asked for their load in this pass."""
        if not measures_skew(cluster):
            self._readings.pop(key, None)  # a rate is that of the last minute, not of longer
            return False
        now_s = self.clock.monotonic_s()
        if now_s - self._measured_s.get(key, float("-inf")) < MEASURED_AGAIN_S:
            return False
        self._measured_s[key] = now_s
        return True

    async def _skew(self, key: ClusterKey, world: World) -> Skew | None:
        """How uneven the load is now; None if a broker did not answer."""
        partitions = partitions_of(found.spec for found in world.maps.values())
        led = leading(partitions)
        processes = [one for one in self.observer.processes(key) if one.broker_id in led]
        found = await self.loads.ask(key, processes)
        if found.unanswered:
            facts = {"cluster": str(key), "brokers": sorted(found.unanswered)}
            logger.info("load_not_known", extra=facts)
        earlier, self._readings[key] = self._readings.get(key), found.readings
        return skew_of(staying_brokers(world), partitions, found.readings, earlier)

    async def _carry_out(self, key: ClusterKey, cluster: BrokerCluster, step: AutoStep) -> None:
        """Create and delete Rebalances, then write the status, then create Events."""
        if not self.authority.is_held():
            raise NotActive
        try:
            if step.create is not None:
                await self._create(cluster, step.create)
            if step.delete is not None:
                await self._delete(step.delete)
        except (Forbidden, Invalid) as error:
            if step.create is None:
                _log_failure(key, error)
                return
            step = not_created(step, str(error))
        except ApiError as error:
            _log_failure(key, error)
            return
        if step.status == cluster.status.auto_rebalance:
            return
        report = Report(
            kind=api.BROKER_CLUSTER,
            metadata=cluster.metadata,
            status=_with(cluster, step),
        )
        outcome = await self.executor.execute(key, [report])
        if not outcome.is_complete:
            return  # somebody else has written the cluster: the next pass decides again
        for notice in step.events:
            await self.executor.announce(
                Announce(
                    kind=api.BROKER_CLUSTER.kind,
                    api_version=api.API_VERSION,
                    metadata=cluster.metadata,
                    type=EventType.WARNING if notice.is_warning else EventType.NORMAL,
                    reason=notice.reason,
                    message=notice.message,
                )
            )

    async def _create(self, cluster: BrokerCluster, wanted: Rebalance) -> None:
        """Create a Rebalance, which the cluster owns. Raises `ApiError`s."""
        manifest: Manifest = wanted.to_manifest()
        manifest["metadata"]["ownerReferences"] = [owner_of(cluster)]
        try:
            created = await self.api.create(
                kinds.REBALANCES, manifest, field_manager=labels.OPERATOR
            )
        except AlreadyExists:
            meta = wanted.metadata
            created = await self.api.get(kinds.REBALANCES, meta.namespace, meta.name)
        self.caches[kinds.REBALANCES].put(created)

    async def _delete(self, old: Rebalance) -> None:
        """Delete a Rebalance, if it is still as it was observed. Raises `ApiError`s."""
        meta = old.metadata
        try:
            await self.api.delete(
                kinds.REBALANCES,
                meta.namespace,
                meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        except NotFound:
            return


def _log_failure(key: ClusterKey, error: ApiError) -> None:
    facts = {"cluster": str(key), "error": str(error)}
    logger.warning("auto_rebalance_not_carried_out", extra=facts)


def _with(cluster: BrokerCluster, step: AutoStep) -> BrokerClusterStatus:
    """The cluster's status with the new part; the planner writes everything else."""
    return replace(cluster.status, auto_rebalance=step.status)
