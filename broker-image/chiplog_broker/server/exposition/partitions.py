"""The metrics of each partition, if they are enabled.

Only the leader exposes a partition, so that it is counted once; every replica exposes the size of
its log. The names are those of a widely used exporter.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from chiplog_broker.metadata.view import ClusterView, PartitionView
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.server.exposition.topics import SIZE_SERIES
from chiplog_core.telemetry.series import Rows, Series, of_partition


class Led(NamedTuple):
    """A partition that this broker leads: its entry in the cluster view, and its replica."""

    view: PartitionView
    min_isr: int
    partition: Partition


def led_rows(cluster: ClusterView, replicas: Replicas) -> Rows[Led]:
    """The partitions that this broker leads, with their labels. An isolated leader does not count:
    clients are not sent to it."""
    own, found = cluster.broker_id, []
    for topic in cluster:
        for view in topic.partitions:
            if topic.advertised_leader(view) != own:
                continue
            partition = replicas.get(topic.name, view.index)
            if partition is not None and partition.is_leader:
                name = of_partition(topic.name, view.index)
                found.append((name, Led(view, topic.min_isr, partition)))
    return found


def size_rows(replicas: Iterable[Partition]) -> Rows[Partition]:
    """All replicas on this broker, with their labels."""
    return [
        (of_partition(partition.name.topic, partition.name.partition), partition)
        for partition in replicas
    ]


_OF_TOPIC, _OF_CLUSTER = "kafka_topic_partition", "kafka_cluster_partition"
PARTITION_SERIES: Final[tuple[Series[Led], ...]] = (
    Series(
        f"{_OF_TOPIC}_current_offset",
        "High watermark: the offset after the last record that consumers may read.",
        attrgetter("partition.high_watermark"),
    ),
    Series(
        f"{_OF_TOPIC}_oldest_offset",
        "Log start offset: the offset of the first record.",
        attrgetter("partition.log.log_start_offset"),
    ),
    Series(
        f"{_OF_TOPIC}_in_sync_replica",
        "Number of live in-sync replicas.",
        lambda led: len(led.view.isr),
    ),
    Series(f"{_OF_TOPIC}_leader", "Id of the leader.", attrgetter("view.leader_id")),
    Series(
        f"{_OF_TOPIC}_leader_is_preferred",
        "1 if the leader is the preferred leader, which is the first replica.",
        lambda led: int(led.view.replicas[0] == led.view.leader_id),
    ),
    Series(f"{_OF_TOPIC}_replicas", "Number of replicas.", lambda led: len(led.view.replicas)),
    Series(
        f"{_OF_TOPIC}_under_replicated_partition",
        "1 if a replica is not in sync that the partition had before its present reassignment.",
        lambda led: int(led.view.is_under_replicated),
    ),
    Series(
        f"{_OF_CLUSTER}_underminisr",
        "1 if acks=all is refused because fewer replicas than min.insync.replicas are in sync.",
        lambda led: int(len(led.view.isr) < led.min_isr),
    ),
    Series(
        f"{_OF_CLUSTER}_atminisr",
        "1 if the number of in-sync replicas equals min.insync.replicas: acks=all is refused when "
        "one more fails.",
        lambda led: int(len(led.view.isr) == led.min_isr),
    ),
)
PARTITION_SIZE: Final[Series[Partition]] = Series(
    SIZE_SERIES.name, SIZE_SERIES.text, attrgetter("log.size_bytes")
)
