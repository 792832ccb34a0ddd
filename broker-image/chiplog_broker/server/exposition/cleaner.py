"""The metrics of compaction: Kafka's LogCleaner and LogCleanerManager, and totals."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.partitions.replicas import Replicas


class CleanerCollector(Collector):
    """Collects these families at each scrape."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
        stats = self._replicas.cleaner_stats
        kafkas, ours = "kafka_log_logcleaner", "chiplog_broker_compaction"
        for name, text, value in (
            (
                f"{kafkas}_cleaner_recopy_percent",
                "Share of the bytes read by the last compaction that it wrote back.",
                100 * stats.last_recopied,
            ),
            (
                f"{kafkas}_max_buffer_utilization_percent",
                "How full the key map of the last compaction was.",
                100 * stats.last_map_filled,
            ),
            (
                f"{kafkas}_max_clean_time_secs",
                "Duration of the last compaction in seconds.",
                stats.last_pass_s,
            ),
            (
                f"{kafkas}_max_compaction_delay_secs",
                "Largest time by which a log exceeds its max.compaction.lag.ms.",
                stats.max_delay_ms / 1000,
            ),
            (
                f"{kafkas}manager_max_dirty_percent",
                "Uncompacted share of the dirtiest log.",
                100 * stats.max_dirty_ratio,
            ),
            (
                f"{kafkas}manager_uncleanable_partitions_count",
                (
                    "Logs that cannot be compacted because they are damaged or there is no space "
                    "for the copy."
                ),
                stats.uncleanable,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        for name, text, count in (
            (f"{ours}_passes", "Number of compactions.", stats.passes),
            (f"{ours}_read_bytes", "Bytes read by compaction.", stats.read_bytes),
            (f"{ours}_written_bytes", "Bytes written by compaction.", stats.written_bytes),
            (f"{ours}_removed_records", "Records compacted away.", stats.removed_records),
            (f"{ours}_seconds", "Total duration of compactions.", stats.busy_s),
        ):
            yield CounterMetricFamily(name, text, count)
