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

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.server.metrics import BUCKETS_S, RequestMetrics


class BrokerCollector(Collector):
    """Makes the metric families of one broker when they are asked for."""

    def __init__(self, cluster: ClusterView, replicas: Replicas, requests: RequestMetrics) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        yield from self._request_families()
        yield from self._replica_families()
        yield from self._connection_families()

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
            if counters.count == 0:
                continue
            name = key.name.title().replace("_", "")
            total, buckets = 0, []
            for bound, count in zip((*BUCKETS_S, "+Inf"), counters.buckets, strict=True):
                total += count
                buckets.append((str(bound), total))
            latency.add_metric([name], buckets, counters.total_s)
            received.add_metric([name], counters.bytes_in)
            sent.add_metric([name], counters.bytes_out)
        yield from (latency, received, sent)

    def _replica_families(self) -> Iterator[Metric]:
        leaders = [partition for partition in self._replicas if partition.is_leader]
        prefix = "kafka_server_replicamanager"
        yield GaugeMetricFamily(f"{prefix}_leadercount", "Partitions led here.", len(leaders))
        yield GaugeMetricFamily(
            f"{prefix}_partitioncount", "Replicas on this broker.", len(self._replicas)
        )
        size_bytes = sum(partition.log.size_bytes for partition in self._replicas)
        yield GaugeMetricFamily("kafka_log_log_size", "Bytes of all logs here.", size_bytes)
        yield GaugeMetricFamily(
            "kafka_brokers", "Brokers of the cluster.", len(self._cluster.brokers)
        )

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
            "chiplog_broker_protocol_violations",
            "Connections closed because their peer broke the protocol.",
            self._requests.violations_total,
        )


def registry(
    cluster: ClusterView, replicas: Replicas, requests: RequestMetrics
) -> CollectorRegistry:
    """The registry that `/metrics` serves."""
    made = CollectorRegistry()
    made.register(BrokerCollector(cluster, replicas, requests))
    return made
