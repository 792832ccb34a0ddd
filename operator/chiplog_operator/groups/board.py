"""Exact figures of groups for Prometheus, under the names of the exporter that people know.

Made when they are asked for. A group that was not heard of in the last look has none.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_core.group_watch.watch import GroupFigures
from chiplog_core.model.group_status import PartitionLag
from chiplog_operator.caches import ClusterKey

GROUP: Final = ("namespace", "cluster", "consumergroup")
TOPIC: Final = (*GROUP, "topic")
PARTITION: Final = (*TOPIC, "partition")


class GroupBoard(Collector):
    """What the last look at each cluster found."""

    def __init__(self) -> None:
        self._figures: dict[ClusterKey, Sequence[GroupFigures]] = {}

    def show(self, cluster: ClusterKey, figures: Sequence[GroupFigures]) -> None:
        self._figures[cluster] = figures

    def forget(self, cluster: ClusterKey) -> None:
        self._figures.pop(cluster, None)

    def describe(self) -> Iterator[Metric]:
        """Registering must not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        members = _gauge("members", "Members of the group.", GROUP)
        offset = _gauge("current_offset", "Committed offset; -1 where there is none.", PARTITION)
        lag = _gauge("lag", "Records not consumed; -1 where nothing was committed.", PARTITION)
        seconds = _gauge(
            "lag_seconds",
            "Age of the first record not consumed; 0 where there is none, -1 if not known.",
            PARTITION,
        )
        offset_sum = _gauge("current_offset_sum", "Sum of the committed offsets.", TOPIC)
        lag_sum = _gauge("lag_sum", "Sum of the lag where something was committed.", TOPIC)
        for cluster, figures in sorted(self._figures.items()):
            for group in figures:
                labels = [cluster.namespace, cluster.name, group.group_id]
                members.add_metric(labels, group.members)
                by_topic: dict[str, list[PartitionLag]] = defaultdict(list)
                for one in group.lags.partitions:
                    by_topic[one.topic].append(one)
                    of_partition = [*labels, one.topic, str(one.partition)]
                    offset.add_metric(of_partition, one.committed_offset)
                    lag.add_metric(of_partition, one.lag)
                    seconds.add_metric(of_partition, one.lag_seconds)
                for topic, partitions in sorted(by_topic.items()):
                    known = [one for one in partitions if one.lag >= 0]
                    total = sum(one.committed_offset for one in known)
                    offset_sum.add_metric([*labels, topic], total)
                    lag_sum.add_metric([*labels, topic], sum(one.lag for one in known))
        yield from (members, offset, offset_sum, lag, lag_sum, seconds)


def _gauge(name: str, what: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kafka_consumergroup_{name}", what, labels=labels)
