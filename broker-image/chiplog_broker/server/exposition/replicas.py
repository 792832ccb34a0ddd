"""The metrics of all replicas here together, and of this broker in its cluster."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.metadata.view import NO_LEADER, ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.server.exposition.requests import histogram
from chiplog_broker.server.metrics import RequestMetrics


class ReplicaCollector(Collector):
    """Collects the metrics of all replicas, and of this broker as a member, at each scrape."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        requests: RequestMetrics,
        throttle: ReplicationThrottle,
    ) -> None:
        self._throttle = throttle
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
        following = [
            partition.following for partition in replicas if partition.following is not None
        ]
        # Partitions without a leader, and replicas here that cannot be read, are all offline.
        leaderless = sum(view.leader_id == NO_LEADER for _, view in views)
        unreadable = len(replicas) if self._replicas.is_offline else self._replicas.quarantined
        prefix = "kafka_server_replicamanager"
        for name, text, value in (
            (
                f"{prefix}_leadercount",
                "Partitions that this broker leads.",
                sum(p.is_leader for p in replicas),
            ),
            (f"{prefix}_partitioncount", "Replicas on this broker.", len(replicas)),
            (
                f"{prefix}_underreplicatedpartitions",
                (
                    "Partitions that this broker leads and that have a replica out of sync. "
                    "Replicas that a reassignment is adding do not count."
                ),
                sum(view.is_under_replicated for _, view in led),
            ),
            (
                f"{prefix}_reassigningpartitions",
                "Partitions that this broker leads and that are being reassigned.",
                sum(view.is_reassigning for _, view in led),
            ),
            (
                "chiplog_broker_reassignment_bytes_left",
                (
                    "Bytes that added replicas still have to fetch from this broker before they "
                    "are in sync, estimated within a segment."
                ),
                sum(partition.reassignment_bytes_left for partition in replicas),
            ),
            (
                f"{prefix}_underminisrpartitioncount",
                (
                    "Partitions that this broker leads and that refuse acks=all because too few "
                    "replicas are in sync."
                ),
                sum(len(view.isr) < topic.min_isr for topic, view in led),
            ),
            (
                f"{prefix}_atminisrpartitioncount",
                (
                    "Partitions that this broker leads and that refuse acks=all when one more "
                    "replica fails."
                ),
                sum(len(view.isr) == topic.min_isr for topic, view in led),
            ),
            (
                "kafka_controller_kafkacontroller_offlinepartitionscount",
                "Partitions without a leader, and replicas on this broker that cannot be read.",
                leaderless + unreadable,
            ),
            (
                "kafka_log_logmanager_offlinelogdirectorycount",
                "Failed log directories.",
                int(self._replicas.is_offline),
            ),
            (
                "kafka_server_replicafetchermanager_maxlag",
                "Largest lag of a replica on this broker behind its leader, in records.",
                max((partition.lag for partition in following), default=0),
            ),
            (
                "kafka_server_replicafetchermanager_failedpartitionscount",
                (
                    "Replicas on this broker that refuse to follow their leader because they would "
                    "lose records."
                ),
                sum(partition.is_halted for partition in replicas),
            ),
            (
                "chiplog_broker_damaged_replicas",
                "Damaged replicas on this broker that are not repaired yet.",
                len(self._replicas.damaged()),
            ),
            (
                "chiplog_broker_isolated_partitions",
                (
                    "Partitions that this broker leads and that refuse writes because the broker "
                    "is isolated."
                ),
                sum(partition.is_isolated for partition in replicas),
            ),
            (
                "kafka_server_leaderreplication_byte_rate",
                "Bytes per second that leaders on this broker send for throttled copies.",
                self._throttle.leader_byte_rate,
            ),
            (
                "kafka_server_followerreplication_byte_rate",
                "Bytes per second that this broker fetches for throttled copies.",
                self._throttle.follower_byte_rate,
            ),
            ("kafka_brokers", "Brokers of the cluster.", len(self._cluster.brokers)),
            (
                "chiplog_broker_waiting_produces",
                "Produce batches that wait until enough replicas have them.",
                sum(p.waiting_produces for p in replicas),
            ),
            (
                "chiplog_broker_waiting_fetches",
                "Fetch requests that wait for records.",
                self._requests.waiting_fetches,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        yield histogram(
            "chiplog_broker_sync_seconds",
            "Time until appended records were synced to disk.",
            self._replicas.sync_latency,
        )

    def _isr_families(self) -> Iterator[Metric]:
        changes, prefix = self._replicas.isr_changes, "kafka_server_replicamanager"
        for name, text, count in (
            ("isrshrinks", "ISR shrinks of partitions that this broker leads.", changes.shrinks),
            ("isrexpands", "ISR expansions of partitions that this broker leads.", changes.expands),
        ):
            yield CounterMetricFamily(f"{prefix}_{name}", text, count)

    def _info(self) -> Metric:
        """The address of this broker's first listener; no series before it is a member of its
        cluster."""
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
