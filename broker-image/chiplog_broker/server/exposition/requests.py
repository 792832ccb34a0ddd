"""The metrics of requests, connections and fetch sessions."""

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.histogram import Histogram
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_wire.protocol.apis import APIS


class RequestCollector(Collector):
    """Collects the metrics of requests, connections and fetch sessions at each scrape."""

    def __init__(self, requests: RequestMetrics, fetch_sessions: FetchSessionCache) -> None:
        self._requests = requests
        self._fetch_sessions = fetch_sessions

    def collect(self) -> Iterator[Metric]:
        yield from self._request_families()
        yield from self._connection_families()
        yield from self._session_families()
        yield from self._throttle_families()

    def _request_families(self) -> Iterator[Metric]:
        """Latency and bytes of each API that was requested at least once."""
        latency = HistogramMetricFamily(
            "kafka_network_requestmetrics_totaltime_seconds",
            "Time from the complete request to its answer.",
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
            "Delay with which the event loop ran due timers.",
            self._requests.event_loop_lag,
        )

    def _connection_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections.",
            self._requests.connections,
        )
        yield CounterMetricFamily(
            "chiplog_broker_connections", "Accepted connections.", self._requests.connections_total
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
            "Bytes of answers that clients have not read yet.",
            self._requests.unsent_bytes,
        )

        yield GaugeMetricFamily(
            "chiplog_broker_connection_memory_bytes",
            "Memory for incomplete requests and for answers that clients have not read yet.",
            sum(budget.taken_bytes for budget in self._requests.budgets),
        )
        yield CounterMetricFamily(
            "chiplog_broker_connections_evicted",
            "Connections closed to free memory for other connections.",
            sum(budget.evictions for budget in self._requests.budgets),
        )

    def _session_families(self) -> Iterator[Metric]:
        prefix = "kafka_server_fetchsessioncache"
        sessions = self._fetch_sessions
        yield GaugeMetricFamily(
            f"{prefix}_numincrementalfetchsessions",
            "Cached incremental fetch sessions.",
            len(sessions),
        )
        yield GaugeMetricFamily(
            f"{prefix}_numincrementalfetchpartitionscached",
            "Partitions in all incremental fetch sessions.",
            sessions.partitions,
        )
        yield CounterMetricFamily(
            f"{prefix}_incrementalfetchsessionevictions",
            "Incremental fetch sessions evicted to make space for others.",
            sessions.evictions,
        )

    def _throttle_families(self) -> Iterator[Metric]:
        times = CounterMetricFamily(
            "chiplog_broker_throttled_requests",
            "Requests whose client had used up a quota.",
            labels=["quota"],
        )
        seconds = CounterMetricFamily(
            "chiplog_broker_throttle_seconds",
            "Time for which connections were not read because of a quota.",
            labels=["quota"],
        )
        for quota, counters in self._requests.throttled.items():
            times.add_metric([quota.value], counters.times)
            seconds.add_metric([quota.value], counters.total_s)
        yield from (times, seconds)


def histogram(name: str, text: str, counted: Histogram) -> HistogramMetricFamily:
    """A metric family of one histogram without labels."""
    family = HistogramMetricFamily(name, text)
    family.add_metric([], counted.cumulative(), counted.sum_s)
    return family
