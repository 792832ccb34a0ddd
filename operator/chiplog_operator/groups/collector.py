"""Exact figures of groups for Prometheus, under the names of the exporter that people know.

Made when they are asked for. A group whose coordinator did not answer in the last pass has none.
There are three series for every partition that a group reads, so they are written as `series` does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

from chiplog_core.group_watch.watch import GroupFigures
from chiplog_core.model.group_status import PartitionLag
from chiplog_core.telemetry.series import Series, labels, series_text
from chiplog_operator.caches import ClusterKey


class TopicSums(NamedTuple):
    """Sums over the partitions of a topic that have a committed offset."""

    offset: int
    lag: int


def _of_topic(name: str, what: str, value: Callable[[TopicSums], int]) -> Series[TopicSums]:
    """A metric with a value for each topic of a group; `what` is its help text."""
    return Series(f"kafka_consumergroup_{name}", what, value)


def _of_partition(name: str, what: str, field: str) -> Series[PartitionLag]:
    """A metric with the value of a `PartitionLag`'s field for each partition of a group."""
    return Series(f"kafka_consumergroup_{name}", what, attrgetter(field))


GROUP_LABELS: Final = ("cluster", "consumergroup", "namespace")
GROUP_SERIES: Final[tuple[Series[GroupFigures], ...]] = (
    Series("kafka_consumergroup_members", "Members of the group.", attrgetter("members")),
)
TOPIC_SERIES: Final = (
    _of_topic("current_offset_sum", "Sum of the committed offsets.", attrgetter("offset")),
    _of_topic(
        "lag_sum", "Sum of the lag of all partitions with a committed offset.", attrgetter("lag")
    ),
)
PARTITION_SERIES: Final = (
    _of_partition("current_offset", "Committed offset; -1 if there is none.", "committed_offset"),
    _of_partition("lag", "Records not consumed yet; -1 if no offset was committed.", "lag"),
    _of_partition(
        "lag_seconds",
        "Age of the first record not consumed; 0 if there is none, -1 if unknown.",
        "lag_seconds",
    ),
)


class GroupsCollector:
    """The figures of groups from the last pass over each cluster."""

    def __init__(self) -> None:
        self._figures: dict[ClusterKey, Sequence[GroupFigures]] = {}

    def show(self, cluster: ClusterKey, figures: Sequence[GroupFigures]) -> None:
        self._figures[cluster] = figures

    def forget(self, cluster: ClusterKey) -> None:
        self._figures.pop(cluster, None)

    def slices(self) -> Iterator[str]:
        """The text of all metrics, in slices so that other requests are served in between."""
        groups: list[tuple[str, GroupFigures]] = []
        topics: list[tuple[str, TopicSums]] = []
        partitions: list[tuple[str, PartitionLag]] = []
        for cluster, figures in sorted(self._figures.items()):
            for group in figures:
                own = {
                    "cluster": cluster.name,
                    "consumergroup": group.group_id,
                    "namespace": cluster.namespace,
                }
                groups.append((labels(**own), group))
                by_topic: dict[str, list[PartitionLag]] = defaultdict(list)
                for partition_lag in group.lags.partitions:
                    by_topic[partition_lag.topic].append(partition_lag)
                    name = labels(
                        **own, partition=partition_lag.partition, topic=partition_lag.topic
                    )
                    partitions.append((name, partition_lag))
                for topic, lags in sorted(by_topic.items()):
                    topics.append((labels(**own, topic=topic), _sums(lags)))
        yield from chain.from_iterable(series_text(series, groups) for series in GROUP_SERIES)
        yield from chain.from_iterable(series_text(series, topics) for series in TOPIC_SERIES)
        yield from chain.from_iterable(
            series_text(series, partitions) for series in PARTITION_SERIES
        )


def _sums(partitions: Sequence[PartitionLag]) -> TopicSums:
    """The sums of a topic's partitions that have a committed offset."""
    # A lag of -1 means that nothing was committed.
    committed = [partition_lag for partition_lag in partitions if partition_lag.lag >= 0]
    return TopicSums(
        sum(partition_lag.committed_offset for partition_lag in committed),
        sum(partition_lag.lag for partition_lag in committed),
    )
