"""Feeds the judges of liveness, one for each cluster, and asks again before one is believed.

The judges (`chiplog_core.observed.liveness`) decide, without clock or I/O. Here is what they decide
from: renewals as they are seen, breaks of the watch, and a consistent list of Leases before a Lease
counts as expired.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.naming import labels
from chiplog_core.observed.liveness import CHECK_MS, STALL_MS, LivenessJudge
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest
from chiplog_operator import views
from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import Clock

logger = logging.getLogger(__name__)

TICK_S = CHECK_MS / 1000
STALL_S = STALL_MS / 1000
"""A sleep of `TICK_S` that takes longer is logged: the event loop was blocked."""


@dataclass(slots=True)
class _Judged:
    """One cluster's judge, and its last confirmed results."""

    judge: LivenessJudge = field(default_factory=LivenessJudge)
    ended: Mapping[Incarnation, str] = field(default_factory=dict)
    alive: frozenset[Incarnation] = frozenset()
    failed_disks: frozenset[Incarnation] = frozenset()


@dataclass(frozen=True, slots=True)
class LeasesListener:
    """Receives what one reflector of Leases reports about its watch."""

    liveness: "Liveness"
    namespace: str

    def listed(self) -> None:
        self.liveness.listed(self.namespace)

    def interrupted(self) -> None:
        self.liveness.interrupted(self.namespace)


class Listener(Protocol):
    """Is notified when the results change."""

    def cluster_changed(self, cluster: ClusterKey, *, urgent: bool = False) -> None:
        """The result for this cluster changed."""


class Liveness:
    """Which brokers' processes have ended, for every cluster."""

    def __init__(self, api: KubeApi, clock: Clock, listener: Listener) -> None:
        self._api = api
        self._clock = clock
        self._listener = listener
        self._clusters: dict[ClusterKey, _Judged] = {}
        self._silent: set[str] = set()

    def ended(self, cluster: ClusterKey) -> Mapping[Incarnation, str]:
        """The processes that have ended, and how, in words: those that the kubelet reports, those
        that refuse connections, and those whose Lease is still expired after it was read again."""
        return self._of(cluster).ended

    def failed_disks(self, cluster: ClusterKey) -> frozenset[Incarnation]:
        """The processes that ended because their disk had failed."""
        return self._of(cluster).failed_disks

    def alive(self, cluster: ClusterKey) -> frozenset[Incarnation]:
        """Processes that renew their Leases."""
        return self._of(cluster).alive

    def running(self, cluster: ClusterKey) -> frozenset[BrokerId]:
        """Brokers whose Lease is held by a process that may be alive."""
        return self._of(cluster).judge.running(self._now_ms())

    def silent_ms(self, cluster: ClusterKey, brokers: Iterable[BrokerId]) -> Mapping[BrokerId, int]:
        """For how many milliseconds nobody has renewed the Leases of these brokers."""
        return self._of(cluster).judge.silent_ms(brokers, self._now_ms())

    # ---- what happens ----

    def lease_changed(self, cluster: ClusterKey, lease: Manifest) -> None:
        """A broker's Lease has this state now: count the renewal in it, if any."""
        renewal = views.renewal(lease)
        if renewal is None:
            return
        judge = self._of(cluster).judge
        judge.renewed(renewal.broker_id, renewal.incarnation, renewal.renew_time, self._now_ms())
        # If Leases have expired, `run` reads them again before the results may change.
        if not judge.suspects(self._now_ms()):
            self._judge(cluster)

    def pod_changed(self, cluster: ClusterKey, pod: Manifest) -> None:
        """A broker's pod has this state now: record the processes in it that have ended."""
        judged = self._of(cluster)
        for ended in views.ended_processes(pod):
            if ended.has_failed_disk:
                judged.failed_disks |= {ended.incarnation}
            if judged.ended.get(ended.incarnation) != ended.how:
                judged.judge.terminated(ended.incarnation, ended.how)
                self._end(cluster, ended.incarnation, ended.how)

    def refused(self, cluster: ClusterKey, incarnation: Incarnation, how: str) -> None:
        """Record that a process has ended, because it refuses connections (`refusals`). If it
        renews its Lease later, it counts as alive again. `how` is the reason in words."""
        if incarnation not in self._of(cluster).ended:
            self._of(cluster).judge.refused(incarnation, how)
            self._end(cluster, incarnation, how)

    def listener_for(self, namespace: str) -> "LeasesListener":
        """The listener for the reflector of this namespace's Leases; empty for all namespaces.

        Until it reports a list, no Lease of the namespace counts as expired.
        """
        self._silent.add(namespace)
        return LeasesListener(self, namespace)

    def listed(self, namespace: str) -> None:
        """All Leases of a namespace were listed and are watched: their full duration is counted
        from now on. An empty name means all namespaces."""
        self._silent.discard(namespace)
        for cluster, judged in self._clusters.items():
            if namespace in {"", cluster.namespace} and not self._is_silent(cluster):
                judged.judge.watching(self._now_ms())

    def interrupted(self, namespace: str) -> None:
        """The watch on a namespace's Leases broke, so renewals may be missed and no Lease counts as
        expired. An empty name means all namespaces."""
        self._silent.add(namespace)
        for cluster, judged in self._clusters.items():
            if namespace in {"", cluster.namespace}:
                judged.judge.interrupted(self._now_ms())

    # ---- what time makes of it ----

    async def run(self) -> None:
        """Check for expired Leases until cancelled."""
        while True:
            before_s = self._clock.monotonic_s()
            await self._clock.sleep(TICK_S)
            slept_s = self._clock.monotonic_s() - before_s
            if slept_s > STALL_S:
                logger.warning("stalled", extra={"seconds": round(slept_s, 3)})
            for cluster, judged in list(self._clusters.items()):
                if suspects := judged.judge.suspects(self._now_ms()):
                    await self._confirm(cluster, suspects)

    async def _confirm(self, cluster: ClusterKey, suspects: frozenset[BrokerId]) -> None:
        """List the cluster's Leases consistently, because the watch may have missed renewals. Only
        those that are still expired count. If the list fails, nothing changes."""
        try:
            leases = await self._api.list_(
                kinds.LEASES, cluster.namespace, labels=f"{labels.CLUSTER}={cluster.name}"
            )
        except ApiError as error:
            facts = {"cluster": str(cluster), "error": str(error)}
            logger.warning("leases_not_listed", extra=facts)
            return
        judge, found_ids = self._of(cluster).judge, set()
        for lease in leases.items:
            renewal = views.renewal(lease)
            if renewal is not None:
                found_ids.add(renewal.broker_id)
                judge.renewed(
                    renewal.broker_id, renewal.incarnation, renewal.renew_time, self._now_ms()
                )
        for broker_id in suspects - found_ids:
            # A deleted Lease says nothing about its process.
            judge.forgotten(broker_id, self._now_ms())
        self._judge(cluster)

    def _judge(self, cluster: ClusterKey) -> None:
        """Take over the judge's results, and notify the listener if they changed."""
        judged, now_ms = self._of(cluster), self._now_ms()
        ended, alive = judged.judge.ended(now_ms), judged.judge.alive(now_ms)
        if ended != judged.ended or alive != judged.alive:
            judged.ended, judged.alive = dict(ended), alive
            self._listener.cluster_changed(cluster, urgent=True)

    def _end(self, cluster: ClusterKey, incarnation: Incarnation, how: str) -> None:
        """Record immediately that a process has ended, before the judge's next results. `how` is
        the reason in words."""
        judged = self._of(cluster)
        judged.ended = {**judged.ended, incarnation: how}
        judged.alive -= {incarnation}
        self._listener.cluster_changed(cluster, urgent=True)

    def _of(self, cluster: ClusterKey) -> _Judged:
        """The cluster's judge and results, created when they are first needed."""
        judged = self._clusters.get(cluster)
        if judged is None:
            judged = self._clusters[cluster] = _Judged()
            if not self._is_silent(cluster):
                judged.judge.watching(self._now_ms())
        return judged

    def _is_silent(self, cluster: ClusterKey) -> bool:
        """Whether renewals by the cluster's brokers may not be received now."""
        return not self._silent.isdisjoint({"", cluster.namespace})

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
