"""The metrics of the volume, and of damage that was found on it."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.partitions.replicas import Replicas


class DiskCollector(Collector):
    """Collects the metrics of the volume and of damaged replicas at each scrape."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
        damaged = GaugeMetricFamily(
            "chiplog_broker_damaged_replica",
            "A damaged replica on this broker: file, offset, and whether it is being fetched "
            "again.",
            labels=["topic", "partition", "file", "offset", "refetching"],
        )
        for replica in self._replicas.damaged():
            offset = "" if replica.offset is None else str(replica.offset)
            refetching = str(replica.is_refetching).lower()
            damaged.add_metric(
                [replica.topic, str(replica.partition), replica.file, offset, refetching], 1
            )
        yield damaged
        space = self._replicas.free_space
        unknown, usage = float("nan"), space.usage
        free_bytes = unknown if usage is None else usage.free_bytes
        total_bytes = unknown if usage is None else usage.total_bytes
        for name, text, value in (
            (
                "disk_full",
                "1 if writes are refused because the volume is full.",
                int(space.is_short),
            ),
            ("disk_free_bytes", "Free bytes on the volume.", free_bytes),
            ("disk_size_bytes", "Size of the volume in bytes.", total_bytes),
            ("disk_reserve_bytes", "Bytes that are kept free on the volume.", space.reserve_bytes),
        ):
            yield GaugeMetricFamily(f"chiplog_broker_{name}", text, value)
        yield CounterMetricFamily(
            "chiplog_broker_scrubbed_bytes",
            "Bytes of logs that were read to check that they are unchanged.",
            self._replicas.scrubbed_bytes,
        )
