"""What is told of the replicas here as a whole, and of this broker among others."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.metadata.view import NO_LEADER, ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.server.exposition.requests import histogram
from chiplog_broker.server.metrics import RequestMetrics


class ReplicaCollector(Collector):
    """Makes the families when they are asked for."""

    def __init__(self, cluster: ClusterView, replicas: Replicas, requests: RequestMetrics) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        yield from self._replica_families()
        yield from self._isr_families()
        yield self._info()

    def _replica_families(self) -> Iterator[Metric]:
        replicas = list(self._replicas)
        views = [(topic, view) for topic in self._cluster for view in topic.partitions]
        led = [(topic, view) for topic, view in views if view.leader_id == self._cluster.broker_id]
        following = [one.following for one in replicas if one.following is not None]
        leaderless = sum(view.leader_id == NO_LEADER for _, view in views)
        unreadable = len(replicas) if self._replicas.is_offline else self._replicas.quarantined
        prefix = "kafka_server_replicamanager"
        for name, text, value in (
            (f"{prefix}_leadercount", "Partitions led here.", sum(p.is_leader for p in replicas)),
            (f"{prefix}_partitioncount", "Replicas on this broker.", len(replicas)),
            (
                f"{prefix}_underreplicatedpartitions",
                "Partitions led here of which a replica is not in sync.",
                sum(len(view.isr) < len(view.replicas) for _, view in led),
            ),
            (
                f"{prefix}_underminisrpartitioncount",
                "Partitions led here that refuse acks=all: too few replicas are in sync.",
                sum(len(view.isr) < topic.min_isr for topic, view in led),
            ),
            (
                f"{prefix}_atminisrpartitioncount",
                "Partitions led here that refuse acks=all as soon as one more replica fails.",
                sum(len(view.isr) == topic.min_isr for topic, view in led),
            ),
            (
                "kafka_controller_kafkacontroller_offlinepartitionscount",
                "Partitions that nobody can read or write.",
                leaderless + unreadable,
            ),
            (
                "kafka_log_logmanager_offlinelogdirectorycount",
                "Log directories that have failed.",
                int(self._replicas.is_offline),
            ),
            (
                "kafka_server_replicafetchermanager_maxlag",
                "Records that the replica here that is the furthest behind its leader lacks.",
                max((one.lag for one in following), default=0),
            ),
            (
                "kafka_server_replicafetchermanager_failedpartitionscount",
                "Replicas here that cannot follow their leader without losing records.",
                sum(one.is_halted for one in replicas),
            ),
            (
                "chiplog_broker_damaged_replicas",
                "Replicas here that were found damaged and are not whole again.",
                len(self._replicas.damaged()),
            ),
            (
                "chiplog_broker_isolated_partitions",
                "Partitions led here that take no records, as too long nobody was heard.",
                sum(one.is_isolated for one in replicas),
            ),
            ("kafka_brokers", "Brokers of the cluster.", len(self._cluster.brokers)),
            (
                "chiplog_broker_waiting_produces",
                "Batches whose producers wait for their safety.",
                sum(p.waiting_produces for p in replicas),
            ),
            (
                "chiplog_broker_waiting_fetches",
                "Fetches that wait for records.",
                self._requests.waiting_fetches,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        yield histogram(
            "chiplog_broker_sync_seconds",
            "Time until appended records were durable.",
            self._replicas.sync_latency,
        )

    def _isr_families(self) -> Iterator[Metric]:
        changes, prefix = self._replicas.isr_changes, "kafka_server_replicamanager"
        for name, text, count in (
            ("isrshrinks", "How often partitions led here lost replicas in sync.", changes.shrinks),
            ("isrexpands", "How often partitions led here won replicas in sync.", changes.expands),
        ):
            yield CounterMetricFamily(f"{prefix}_{name}", text, count)

    def _info(self) -> Metric:
        """Where clients find this broker; nothing while it is no member of its cluster."""
        family = GaugeMetricFamily(
            "kafka_broker_info",
            "1 for this broker, with the address of its first listener.",
            labels=["id", "address"],
        )
        own = self._cluster.brokers.get(self._cluster.broker_id)
        if own is not None and own.endpoints:
            host, port = next(iter(own.endpoints.values()))
            family.add_metric([str(own.broker_id), f"{host}:{port}"], 1)
        return family
