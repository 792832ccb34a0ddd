"""The metrics of each topic: traffic since the broker started, size, partitions.

Traffic is that of the replicas that are here now; a topic that was deleted or moved away has no
series.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from chiplog_broker.metadata.view import NO_LEADER, ClusterView, TopicView
from chiplog_broker.partitions.counters import PartitionCounters
from chiplog_broker.partitions.partition import Partition
from chiplog_core.telemetry.series import Rows, Series, labels


class TopicTotals(PartitionCounters):
    """The sums over this broker's replicas of one topic."""

    __slots__ = ("partitions", "size_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes: int | None = None
        """None if there is no replica here."""
        self.partitions: int | None = None
        """Partitions of the whole topic; None if another broker exposes this number."""

    def count(self, partition: Partition) -> None:
        """Add the counters and the size of one replica."""
        self.add(partition.counters)
        self.size_bytes = (self.size_bytes or 0) + partition.log.size_bytes


def topic_rows(cluster: ClusterView, replicas: Iterable[Partition]) -> Rows[TopicTotals]:
    """The topics for which this broker exposes metrics, with their labels: those with a replica
    here, and those that it exposes as a whole."""
    totals: dict[str, TopicTotals] = {}
    for partition in replicas:
        topic = partition.name.topic
        if (of_topic := totals.get(topic)) is None:
            of_topic = totals[topic] = TopicTotals()
        of_topic.count(partition)
    for view in cluster:
        if exposing_broker(view) == cluster.broker_id:
            totals.setdefault(view.name, TopicTotals()).partitions = len(view.partitions)
    return [(labels(topic=topic), total) for topic, total in totals.items()]


def exposing_broker(topic: TopicView) -> int:
    """The id of the one broker that exposes metrics of a topic as a whole: the leader of its first
    partition that has one. Only one does, so that the values of all brokers can be added."""
    return next(
        (partition.leader_id for partition in topic.partitions if partition.leader_id != NO_LEADER),
        NO_LEADER,
    )


LOG_SIZE: Final = "kafka_log_log_size"
_KAFKAS, _OURS = "kafka_server_brokertopicmetrics", "chiplog_broker"
TOPIC_SERIES: Final[tuple[Series[TopicTotals], ...]] = (
    *(
        Series(f"{name}_total", text, attrgetter(counted), is_counter=True)
        for name, counted, text in (
            (f"{_KAFKAS}_messagesin", "records_in", "Records appended."),
            (f"{_KAFKAS}_bytesin", "bytes_in", "Bytes appended."),
            (f"{_KAFKAS}_bytesout", "bytes_out", "Bytes fetched by consumers."),
            (
                f"{_KAFKAS}_totalproducerequests",
                "produces",
                "Produce batches for partitions that this broker leads.",
            ),
            (
                f"{_KAFKAS}_failedproducerequests",
                "failed_produces",
                "Produce batches that were refused, without those for another broker.",
            ),
            (
                f"{_KAFKAS}_totalfetchrequests",
                "fetches",
                "Partitions read for Fetch requests, including those of followers.",
            ),
            (
                f"{_KAFKAS}_failedfetchrequests",
                "failed_fetches",
                (
                    "Partitions that a Fetch request could not read, without those for another "
                    "broker or offset."
                ),
            ),
            (
                f"{_OURS}_follower_bytesout",
                "follower_bytes_out",
                "Bytes fetched by consumers from replicas that this broker follows.",
            ),
            (
                f"{_OURS}_sent_to_followers",
                "sent_to_followers",
                "Answers that redirected a consumer to a follower in its rack.",
            ),
        )
    ),
    Series(
        "kafka_topic_partitions",
        "Number of partitions of the topic, reported by the leader of the first one.",
        attrgetter("partitions"),
    ),
)
SIZE_SERIES: Final[Series[TopicTotals]] = Series(
    LOG_SIZE,
    "Size of the logs of all replicas on this broker.",
    attrgetter("size_bytes"),
)
