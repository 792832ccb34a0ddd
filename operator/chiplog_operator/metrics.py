"""What Prometheus can ask the operator, under the names that users of other operators know."""

import asyncio
from collections.abc import Mapping
from datetime import datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from chiplog_core.model.actions import Action, Replace
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.observed.settings import paused
from chiplog_core.observed.world import World
from chiplog_core.telemetry.build_info import BUILD_INFO, BUILD_INFO_ABOUT, BUILD_LABELS
from chiplog_kube.request_meter import About
from chiplog_operator.caches import ClusterKey
from chiplog_operator.groups.collector import GroupsCollector
from chiplog_operator.objects_collector import ObjectsCollector
from chiplog_operator.spark.collector import VerificationsCollector
from chiplog_operator.unclean_elections import UncleanElections

LABELS = ("kind", "namespace", "name")
PLAN_LABELS = ("namespace", "name")
CLUSTER_LABELS = ("namespace", "cluster")
KIND = "BrokerCluster"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts what the loops do."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """All metrics except those of consumer groups, which have a collector of their own."""
        ProcessCollector(registry=self.registry)
        build = Gauge(BUILD_INFO, BUILD_INFO_ABOUT, tuple(BUILD_LABELS), registry=self.registry)
        build.labels(**BUILD_LABELS).set(1)
        self.groups = GroupsCollector()
        self.verifications = VerificationsCollector()
        self.objects = ObjectsCollector()
        for collector in (self.verifications, self.objects):
            self.registry.register(collector)
        self.requests = ApiRequests(self.registry)
        self._reconciliations = _Reconciliations(self.registry)
        self._queue = _Queue(self.registry)
        self._clusters = _Clusters(self.registry)
        self._leader = Gauge(
            "chiplog_operator_leader",
            "1 in the process that holds the Lease, else 0.",
            registry=self.registry,
        )

    async def text(self) -> bytes:
        """The text for Prometheus. It is made in slices, so that other tasks run in between."""
        body = bytearray(generate_latest(self.registry))
        for piece in self.groups.slices():
            await asyncio.sleep(0)
            body += piece.encode()
        return bytes(body)

    def set_active(self, *, is_leader: bool) -> None:
        self._leader.set(int(is_leader))

    # -- Meter

    def queued(self, cluster: ClusterKey) -> None:
        self._queue.queued(cluster)

    def begun(self, cluster: ClusterKey, waited_s: float) -> None:
        self._queue.begun(cluster, waited_s)

    def planned(self, cluster: ClusterKey, seconds: float, *, is_ok: bool) -> None:
        self._reconciliations.ended(cluster, seconds, is_ok=is_ok)

    def resynced(self, cluster: ClusterKey) -> None:
        self._reconciliations.resynced(cluster)

    def observed(self, cluster: ClusterKey, world: World) -> None:
        self._clusters.observed(cluster, world)

    def decided(self, cluster: ClusterKey, actions: int) -> None:
        self._clusters.decided(cluster, actions)

    def acted(self, cluster: ClusterKey, action: Action) -> None:
        self._clusters.acted(cluster, action)

    def map_refused(self, cluster: ClusterKey) -> None:
        self._clusters.map_refused(cluster)

    def forgotten(self, cluster: ClusterKey) -> None:
        """Remove the cluster's series, which would otherwise show a cluster that does not exist."""
        self._reconciliations.forgotten(cluster)
        self._queue.forgotten(cluster)
        self._clusters.forgotten(cluster)


class ApiRequests:
    """The requests of this process to the API server, but for those that Kopf makes itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Counter(
            "chiplog_operator_api_requests_total",
            "Requests to the Kubernetes API; code is none for requests without an answer.",
            ("verb", "resource", "code"),
            registry=registry,
        )
        self._duration = Histogram(
            "chiplog_operator_api_request_duration_seconds",
            "Time until the first byte of the answer.",
            ("verb",),
            buckets=BUCKETS_S,
            registry=registry,
        )

    def answered(self, about: About, code: str, seconds: float) -> None:
        """See `RequestMeter.answered`."""
        self._total.labels(about.verb, about.resource, code).inc()
        self._duration.labels(about.verb).observe(seconds)


class _Reconciliations:
    """Reconciliations: each observes the cluster, plans and acts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str) -> Counter:
            return Counter(f"chiplog_operator_{name}", what, LABELS, registry=registry)

        self._total = counter(
            "reconciliations_total", "Reconciliations: each observes the cluster, plans and acts."
        )
        self._successful = counter(
            "reconciliations_successful_total", "Reconciliations without an error."
        )
        self._failed = counter("reconciliations_failed_total", "Reconciliations with an error.")
        self._locked = counter(
            "reconciliations_locked_total",
            "Reconciliations that had to wait for another one of the same cluster; always 0.",
        )
        self._periodical = counter(
            "reconciliations_periodical_total", "Reconciliations that were started by a timer."
        )
        self._duration = Histogram(
            "chiplog_operator_reconciliations_duration_seconds",
            "Duration of a reconciliation.",
            LABELS,
            buckets=BUCKETS_S,
            registry=registry,
        )

    def ended(self, cluster: ClusterKey, seconds: float, *, is_ok: bool) -> None:
        """Count a reconciliation, and the seconds that it took."""
        values = (KIND, *cluster)
        self._total.labels(*values).inc()
        self._successful.labels(*values).inc(int(is_ok))
        self._failed.labels(*values).inc(int(not is_ok))
        self._locked.labels(*values).inc(0)
        self._duration.labels(*values).observe(seconds)

    def resynced(self, cluster: ClusterKey) -> None:
        self._periodical.labels(KIND, *cluster).inc()

    def forgotten(self, cluster: ClusterKey) -> None:
        """Remove the cluster's series."""
        for metric in (
            self._total,
            self._successful,
            self._failed,
            self._locked,
            self._periodical,
            self._duration,
        ):
            metric.remove(KIND, *cluster)


class _Queue:
    """Clusters that changed and wait for their reconciliation."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting: set[ClusterKey] = set()
        Gauge(
            "chiplog_operator_queue_length",
            "Clusters that wait for a reconciliation.",
            registry=registry,
        ).set_function(lambda: len(self._waiting))
        self._seconds = Histogram(
            "chiplog_operator_queue_seconds",
            "Time from the first change of a cluster to the reconciliation that handles it.",
            buckets=BUCKETS_S,
            registry=registry,
        )

    def queued(self, cluster: ClusterKey) -> None:
        self._waiting.add(cluster)

    def begun(self, cluster: ClusterKey, waited_s: float) -> None:
        """A reconciliation of the cluster begins, `waited_s` after the first change."""
        self._waiting.discard(cluster)
        self._seconds.observe(waited_s)

    def forgotten(self, cluster: ClusterKey) -> None:
        self._waiting.discard(cluster)


class _Clusters:
    """Figures of each cluster: its objects, its plans and its unclean elections."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._elections: dict[ClusterKey, UncleanElections] = {}
        """The unclean elections counted so far, for each cluster that exists or that an object
        names."""
        self._shown_expiries: dict[ClusterKey, Mapping[str, datetime]] = {}
        self._resources = Gauge(
            "chiplog_operator_resources",
            "Objects that the operator manages.",
            LABELS,
            registry=registry,
        )
        self._paused = Gauge(
            "chiplog_operator_resources_paused",
            "Objects that are paused by an annotation.",
            LABELS,
            registry=registry,
        )
        self._active = Gauge(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 for a cluster that this process manages.",
            CLUSTER_LABELS,
            registry=registry,
        )
        self._unclean = Counter(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Elections of leaders that may lack acknowledged records.",
            CLUSTER_LABELS,
            registry=registry,
        )
        self._plan = Gauge(
            "chiplog_operator_plan_actions",
            "Actions of the last plan; 0 if nothing needs to change.",
            PLAN_LABELS,
            registry=registry,
        )
        self._actions = Counter(
            "chiplog_operator_actions_total",
            "Actions that were carried out.",
            (*PLAN_LABELS, "action"),
            registry=registry,
        )
        self._expiries = Gauge(
            "chiplog_operator_certificate_expiry_timestamp_seconds",
            "When a certificate of a cluster with TLS expires, in Unix time. The name is "
            "cluster-ca, clients-ca, or broker- and the broker's id.",
            (*CLUSTER_LABELS, "name"),
            registry=registry,
        )
        self._refused_maps = Counter(
            "chiplog_operator_map_writes_refused_total",
            "PartitionMaps that were not written because the plan breaks a rule: a bug.",
            PLAN_LABELS,
            registry=registry,
        )

    def observed(self, cluster: ClusterKey, world: World) -> None:
        """Count the cluster's objects, those that are paused, and new unclean elections."""
        exists = bool(world.metadata.uid)
        for kind, count in (
            (KIND, int(exists)),
            ("Topic", len(world.topics)),
            ("ConsumerGroup", len(world.groups)),
        ):
            self._resources.labels(kind, *cluster).set(count)
        self._paused.labels(KIND, *cluster).set(int(exists and paused(world.metadata)))
        count = sum(paused(topic.metadata) for topic in world.topics)
        self._paused.labels("Topic", *cluster).set(count)
        if exists:
            self._active.labels(*cluster).set(1)
        else:
            self._active.remove(*cluster)
        self._show_expiries(cluster, world)
        elections = self._elections.setdefault(cluster, UncleanElections())
        elections.keep(set(world.maps))
        self._unclean.labels(*cluster).inc(sum(map(elections.count_new, world.maps.values())))

    def _show_expiries(self, cluster: ClusterKey, world: World) -> None:
        """Show when certificates expire, and only those that there are."""
        if self._shown_expiries.get(cluster) == world.certificate_expiries:
            return
        self._expiries.remove_by_labels({"namespace": cluster.namespace, "cluster": cluster.name})
        for name, at in world.certificate_expiries.items():
            self._expiries.labels(*cluster, name).set(at.timestamp())
        self._shown_expiries[cluster] = world.certificate_expiries

    def decided(self, cluster: ClusterKey, actions: int) -> None:
        """Show the number of actions in the last plan."""
        self._plan.labels(*cluster).set(actions)
        self._refused_maps.labels(*cluster).inc(0)  # so that the series exists before a refusal

    def map_refused(self, cluster: ClusterKey) -> None:
        self._refused_maps.labels(*cluster).inc()

    def acted(self, cluster: ClusterKey, action: Action) -> None:
        """Count an action, and the unclean elections in a written map."""
        elections = self._elections.get(cluster)
        if elections is None:
            return  # other loops may still work on a cluster that is gone
        self._actions.labels(*cluster, type(action).__name__).inc()
        if isinstance(action, Replace) and isinstance(action.resource, PartitionMap):
            # Counted immediately: the next pass may be a minute away.
            self._unclean.labels(*cluster).inc(elections.count_new(action.resource))

    def forgotten(self, cluster: ClusterKey) -> None:
        """Remove the cluster's series."""
        self._elections.pop(cluster, None)
        self._shown_expiries.pop(cluster, None)
        of_cluster = {"namespace": cluster.namespace, "cluster": cluster.name}
        for metric in (self._active, self._unclean, self._expiries):
            metric.remove_by_labels(of_cluster)
        of_plan = {"namespace": cluster.namespace, "name": cluster.name}
        for metric in (
            self._resources,
            self._paused,
            self._plan,
            self._actions,
            self._refused_maps,
        ):
            metric.remove_by_labels(of_plan)
