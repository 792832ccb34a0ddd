"""What is told of compaction: Kafka's LogCleaner and LogCleanerManager, and totals beside them."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.partitions.replicas import Replicas


class CleanerCollector(Collector):
    """Makes the families when they are asked for."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
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
                "Logs that cannot be compacted: damaged, or without room for their copy.",
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
