"""What Prometheus is told, under the names that users' dashboards already query."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.view import NO_LEADER, ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.protocol.apis import APIS
from chiplog_broker.server.metrics import RequestMetrics


class BrokerCollector(Collector):
    """Makes the metric families of one broker when they are asked for."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        requests: RequestMetrics,
        fetch_sessions: FetchSessionCache,
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._requests = requests
        self._fetch_sessions = fetch_sessions

    def collect(self) -> Iterator[Metric]:
        yield from self._request_families()
        yield from self._topic_families()
        yield from self._replica_families()
        yield from self._damage_families()
        yield from self._cleaner_families()
        yield from self._connection_families()
        yield from self._session_families()

    def _request_families(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily(
            "kafka_network_requestmetrics_totaltime_seconds",
            "Time from a whole request to its answer.",
            labels=["request"],
        )
        received = CounterMetricFamily(
            "kafka_network_requestmetrics_requestbytes", "Bytes of requests.", labels=["request"]
        )
        sent = CounterMetricFamily(
            "kafka_network_requestmetrics_responsebytes", "Bytes of answers.", labels=["request"]
        )
        for key, counters in self._requests.apis.items():
            if counters.latency.total:
                name = [APIS[key].name]
                latency.add_metric(name, counters.latency.cumulative(), counters.latency.sum_s)
                received.add_metric(name, counters.bytes_in)
                sent.add_metric(name, counters.bytes_out)
        yield from (latency, received, sent)
        yield histogram(
            "chiplog_broker_event_loop_lag_seconds",
            "How late the event loop ran what was due.",
            self._requests.event_loop_lag,
        )

    def _topic_families(self) -> Iterator[Metric]:
        """Since the broker started, as far as its partitions have not been deleted."""
        totals: dict[str, tuple[int, ...]] = {}
        for partition in self._replicas:
            one, topic = partition.counters, partition.name.topic
            counts: tuple[int, ...] = (
                one.records_in,
                one.bytes_in,
                one.bytes_out,
                one.follower_bytes_out,
                one.sent_to_followers,
            )
            before = totals.get(topic, (0,) * len(counts))
            totals[topic] = tuple(map(sum, zip(before, counts, strict=True)))
        kafkas, ours = "kafka_server_brokertopicmetrics", "chiplog_broker"
        families = [
            CounterMetricFamily(name, text, labels=["topic"])
            for name, text in (
                (f"{kafkas}_messagesin", "Records appended."),
                (f"{kafkas}_bytesin", "Bytes appended."),
                (f"{kafkas}_bytesout", "Bytes fetched."),
                (
                    f"{ours}_follower_bytesout",
                    "Bytes fetched by consumers from what this broker follows.",
                ),
                (
                    f"{ours}_sent_to_followers",
                    "Answers that sent a consumer to a follower in its rack.",
                ),
            )
        ]
        for topic, counts in totals.items():
            for family, count in zip(families, counts, strict=True):
                family.add_metric([topic], count)
        yield from families

    def _replica_families(self) -> Iterator[Metric]:
        replicas = list(self._replicas)
        views = [view for topic in self._cluster for view in topic.partitions]
        following = [one.following for one in replicas if one.following is not None]
        leaderless = sum(view.leader_id == NO_LEADER for view in views)
        unreadable = len(replicas) if self._replicas.is_offline else self._replicas.quarantined
        prefix = "kafka_server_replicamanager"
        for name, text, value in (
            (f"{prefix}_leadercount", "Partitions led here.", sum(p.is_leader for p in replicas)),
            (f"{prefix}_partitioncount", "Replicas on this broker.", len(replicas)),
            (
                f"{prefix}_underreplicatedpartitions",
                "Partitions led here of which a replica is not in sync.",
                sum(
                    len(view.isr) < len(view.replicas)
                    for view in views
                    if view.leader_id == self._cluster.broker_id
                ),
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
            (
                "kafka_log_log_size",
                "Bytes of all logs here.",
                sum(p.log.size_bytes for p in replicas),
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

    def _damage_families(self) -> Iterator[Metric]:
        """Few and far between, so each may name its file and offset."""
        damaged = GaugeMetricFamily(
            "chiplog_broker_damaged_replica",
            "A replica here that was found damaged, where, and whether it is fetched anew.",
            labels=["topic", "partition", "file", "offset", "refetching"],
        )
        for one in self._replicas.damaged():
            offset = "" if one.offset is None else str(one.offset)
            refetching = str(one.is_refetching).lower()
            damaged.add_metric([one.topic, str(one.partition), one.file, offset, refetching], 1)
        yield damaged
        room = self._replicas.room
        free_bytes = float("nan") if room.usage is None else room.usage.free_bytes
        for name, text, value in (
            ("disk_full", "Whether producers are refused for want of room.", int(room.is_short)),
            ("disk_free_bytes", "Free on the volume.", free_bytes),
            ("disk_reserve_bytes", "To be kept free of the volume.", room.reserve_bytes),
        ):
            yield GaugeMetricFamily(f"chiplog_broker_{name}", text, value)
        yield CounterMetricFamily(
            "chiplog_broker_scrubbed_bytes",
            "Bytes of logs that were read to see whether they are still what was written.",
            self._replicas.scrubbed_bytes,
        )

    def _cleaner_families(self) -> Iterator[Metric]:
        """Kafka's LogCleaner and LogCleanerManager, and totals beside them."""
        stats = self._replicas.cleaner_stats
        kafkas, ours = "kafka_log_logcleaner", "chiplog_broker_compaction"
        for name, text, value in (
            (
                f"{kafkas}_cleaner_recopy_percent",
                "Of what the last compaction read, how much it wrote again.",
                100 * stats.last_recopied,
            ),
            (
                f"{kafkas}_max_buffer_utilization_percent",
                "How full the last compaction's map of keys was.",
                100 * stats.last_map_filled,
            ),
            (
                f"{kafkas}_max_clean_time_secs",
                "Seconds that the last compaction took.",
                stats.last_pass_s,
            ),
            (
                f"{kafkas}_max_compaction_delay_secs",
                "By how much the log that waits longest is over its max.compaction.lag.ms.",
                stats.max_delay_ms / 1000,
            ),
            (
                f"{kafkas}manager_max_dirty_percent",
                "How much of the dirtiest log is not compacted.",
                100 * stats.max_dirty_ratio,
            ),
            (
                f"{kafkas}manager_uncleanable_partitions_count",
                "Logs that cannot be compacted as they are damaged.",
                stats.uncleanable,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        for name, text, count in (
            (f"{ours}_passes", "Compactions of a log.", stats.passes),
            (f"{ours}_read_bytes", "Bytes read by compaction.", stats.read_bytes),
            (f"{ours}_written_bytes", "Bytes written by compaction.", stats.written_bytes),
            (f"{ours}_removed_records", "Records compacted away.", stats.removed_records),
            (f"{ours}_seconds", "Time that compactions took.", stats.busy_s),
        ):
            yield CounterMetricFamily(name, text, count)

    def _connection_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count",
            "Connections that are open.",
            self._requests.connections,
        )
        yield CounterMetricFamily(
            "chiplog_broker_connections", "Connections accepted.", self._requests.connections_total
        )
        yield CounterMetricFamily(
            "chiplog_broker_connections_refused",
            "Connections refused because there were too many.",
            self._requests.refused_total,
        )
        yield CounterMetricFamily(
            "chiplog_broker_protocol_violations",
            "Connections closed because their peer broke the protocol.",
            self._requests.violations_total,
        )
        yield GaugeMetricFamily(
            "chiplog_broker_unsent_bytes",
            "Bytes of answers that clients do not take.",
            self._requests.unsent_bytes,
        )

    def _session_families(self) -> Iterator[Metric]:
        prefix = "kafka_server_fetchsessioncache"
        sessions = self._fetch_sessions
        yield GaugeMetricFamily(
            f"{prefix}_numincrementalfetchsessions",
            "Incremental fetch sessions that are remembered.",
            len(sessions),
        )
        yield GaugeMetricFamily(
            f"{prefix}_numincrementalfetchpartitionscached",
            "Partitions in all incremental fetch sessions.",
            sessions.partitions,
        )
        yield CounterMetricFamily(
            f"{prefix}_incrementalfetchsessionevictions",
            "Incremental fetch sessions forgotten to make room for others.",
            sessions.evictions,
        )


def histogram(name: str, text: str, counted: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text)
    family.add_metric([], counted.cumulative(), counted.sum_s)
    return family


def registry(
    cluster: ClusterView,
    replicas: Replicas,
    requests: RequestMetrics,
    fetch_sessions: FetchSessionCache,
) -> CollectorRegistry:
    """The registry that `/metrics` serves."""
    made = CollectorRegistry()
    made.register(BrokerCollector(cluster, replicas, requests, fetch_sessions))
    return made
