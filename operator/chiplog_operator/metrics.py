"""What Prometheus can ask the operator, under the names that users of other operators know."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from chiplog_core.planner.settings import paused
from chiplog_core.planner.world import World
from chiplog_operator.caches import ClusterKey
from chiplog_operator.groups.board import GroupBoard
from chiplog_operator.spark.board import VerificationBoard

LABELS = ("kind", "namespace", "name")
KIND = "BrokerCluster"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts what the loops do."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.groups = GroupBoard()
        self.registry.register(self.groups)
        self.verifications = VerificationBoard()
        self.registry.register(self.verifications)

        def counter(name: str, what: str) -> Counter:
            return Counter(f"chiplog_operator_{name}", what, LABELS, registry=self.registry)

        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"chiplog_operator_{name}", what, LABELS, registry=self.registry)

        self._total = counter("reconciliations_total", "Rounds of observe, plan, act.")
        self._successful = counter("reconciliations_successful_total", "Rounds without an error.")
        self._failed = counter("reconciliations_failed_total", "Rounds with an error.")
        self._locked = counter(
            "reconciliations_locked_total",
            "Rounds that had to wait for another one of their cluster; there is no such wait.",
        )
        self._periodical = counter(
            "reconciliations_periodical_total", "Rounds that began because time had passed."
        )
        self._duration = Histogram(
            "chiplog_operator_reconciliations_duration_seconds",
            "How long a round took.",
            LABELS,
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._resources = gauge("resources", "Objects the operator looks after.")
        self._paused = gauge("resources_paused", "Objects an annotation has paused.")
        self._leader = Gauge(
            "chiplog_operator_leader",
            "1 in the process that holds the Lease.",
            registry=self.registry,
        )

    def in_charge(self, *, is_leader: bool) -> None:
        self._leader.set(int(is_leader))

    def planned(self, cluster: ClusterKey, seconds: float, *, is_ok: bool) -> None:
        values = _labels(cluster)
        self._total.labels(*values).inc()
        (self._successful if is_ok else self._failed).labels(*values).inc()
        self._locked.labels(*values).inc(0)
        self._duration.labels(*values).observe(seconds)

    def resynced(self, cluster: ClusterKey) -> None:
        self._periodical.labels(*_labels(cluster)).inc()

    def observed(self, cluster: ClusterKey, world: World) -> None:
        exists = int(bool(world.metadata.uid))
        for kind, count in (
            (KIND, exists),
            ("Topic", len(world.topics)),
            ("ConsumerGroup", len(world.groups)),
        ):
            self._resources.labels(kind, *cluster).set(count)
        self._paused.labels(KIND, *cluster).set(int(exists and paused(world.metadata)))
        count = sum(paused(topic.metadata) for topic in world.topics)
        self._paused.labels("Topic", *cluster).set(count)

    def forgotten(self, cluster: ClusterKey) -> None:
        for gauge in (self._resources, self._paused):
            for kind in (KIND, "Topic", "ConsumerGroup"):
                gauge.labels(kind, *cluster).set(0)


def _labels(cluster: ClusterKey) -> tuple[str, str, str]:
    return (KIND, cluster.namespace, cluster.name)
