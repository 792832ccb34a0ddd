"""The metrics of compaction: Kafka's LogCleaner and LogCleanerManager, and totals."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.partitions.replicas import Replicas


class CleanerCollector(Collector):
    """Collects the metrics of compaction at each scrape."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
        stats = self._replicas.cleaner_stats
        kafka_prefix, own_prefix = "kafka_log_logcleaner", "chiplog_broker_compaction"
        for name, text, value in (
            (
                f"{kafka_prefix}_cleaner_recopy_percent",
                "Share of the bytes read by the last compaction that it wrote back.",
                100 * stats.last_recopied,
            ),
            (
                f"{kafka_prefix}_max_buffer_utilization_percent",
                "How full the key map of the last compaction was.",
                100 * stats.last_map_filled,
            ),
            (
                f"{kafka_prefix}_max_clean_time_secs",
                "Duration of the last compaction in seconds.",
                stats.last_pass_s,
            ),
            (
                f"{kafka_prefix}_max_compaction_delay_secs",
                "Largest time by which a log exceeds its max.compaction.lag.ms.",
                stats.max_delay_ms / 1000,
            ),
            (
                f"{kafka_prefix}manager_max_dirty_percent",
                "Uncompacted share of the dirtiest log.",
                100 * stats.max_dirty_ratio,
            ),
            (
                f"{kafka_prefix}manager_uncleanable_partitions_count",
                (
                    "Logs that cannot be compacted because they are damaged or there is no space "
                    "for the copy."
                ),
                stats.uncleanable,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        for name, text, count in (
            (f"{own_prefix}_passes", "Number of compactions.", stats.passes),
            (f"{own_prefix}_read_bytes", "Bytes read by compaction.", stats.read_bytes),
            (f"{own_prefix}_written_bytes", "Bytes written by compaction.", stats.written_bytes),
            (f"{own_prefix}_removed_records", "Records compacted away.", stats.removed_records),
            (f"{own_prefix}_seconds", "Total duration of compactions.", stats.busy_s),
        ):
            yield CounterMetricFamily(name, text, count)
