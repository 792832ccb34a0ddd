"""Topics of a cluster: what is written and read, what is stored, and single partitions."""

from typing import Final

from charts.dashboards.board import Board, Line, Row, Variable, lines, number
from charts.dashboards.cluster_board import CHOSEN, VARIABLES

TOPICS: Final = f'{CHOSEN},topic=~"$topic"'
_METRICS: Final = "kafka_server_brokertopicmetrics"
_PARTITION: Final = "{{topic}}-{{partition}}"


def rate_by_topic(metric: str) -> Line:
    """The line of each topic for a counter's growth per second, over all brokers."""
    return Line(f"sum by (topic) (rate({metric}{{{TOPICS}}}[$__rate_interval]))", "{{topic}}")


def by_partition(metric: str) -> Line:
    """The line of each partition for a gauge that only its leader exports."""
    return Line(f"max by (topic, partition) ({metric}{{{TOPICS}}})", _PARTITION)


_STATE: Final = Row(
    "State",
    (
        number("Topics", f"count(count by (topic) (kafka_topic_partitions{{{TOPICS}}}))"),
        number("Partitions", f"sum(max by (topic) (kafka_topic_partitions{{{TOPICS}}}))"),
        number(
            "Topics that do not match their specs",
            f"count(max by (topic) (chiplog_topic_ready{{{TOPICS}}}) == 0) or vector(0)",
            red_from=1,
        ),
        number("Stored, all replicas", f"sum(kafka_log_log_size{{{TOPICS}}})", unit="bytes"),
        number(
            "Written",
            f"sum(rate({_METRICS}_bytesin_total{{{TOPICS}}}[$__rate_interval]))",
            unit="Bps",
        ),
        number(
            "Read",
            f"sum(rate({_METRICS}_bytesout_total{{{TOPICS}}}[$__rate_interval]))",
            unit="Bps",
        ),
    ),
)
_TRAFFIC: Final = Row(
    "Traffic",
    (
        lines("Written", rate_by_topic(f"{_METRICS}_bytesin_total"), unit="Bps"),
        lines("Read", rate_by_topic(f"{_METRICS}_bytesout_total"), unit="Bps"),
        lines("Records", rate_by_topic(f"{_METRICS}_messagesin_total"), unit="wps"),
        lines(
            "Produce requests",
            rate_by_topic(f"{_METRICS}_totalproducerequests_total"),
            unit="reqps",
        ),
        lines(
            "Fetch requests", rate_by_topic(f"{_METRICS}_totalfetchrequests_total"), unit="reqps"
        ),
        lines(
            "Read from followers in the consumer's zone",
            rate_by_topic("chiplog_broker_follower_bytesout_total"),
            unit="Bps",
        ),
        lines(
            "Failed produce requests",
            rate_by_topic(f"{_METRICS}_failedproducerequests_total"),
            unit="reqps",
        ),
        lines(
            "Failed fetch requests",
            rate_by_topic(f"{_METRICS}_failedfetchrequests_total"),
            unit="reqps",
        ),
        lines(
            "Stored, all replicas",
            Line(f"sum by (topic) (kafka_log_log_size{{{TOPICS}}})", "{{topic}}"),
            unit="bytes",
        ),
    ),
)
_PARTITIONS: Final = Row(
    "Partitions: empty without spec.metrics.partitions of the BrokerCluster",
    (
        lines(
            "Records",
            Line(
                "sum by (topic, partition)"
                f" (rate(kafka_topic_partition_current_offset{{{TOPICS}}}[$__rate_interval]))",
                _PARTITION,
            ),
            unit="wps",
        ),
        lines(
            "Stored offsets",
            Line(
                "max by (topic, partition)"
                f" (kafka_topic_partition_current_offset{{{TOPICS}}}"
                f" - kafka_topic_partition_oldest_offset{{{TOPICS}}})",
                _PARTITION,
            ),
        ),
        lines("Replicas in sync", by_partition("kafka_topic_partition_in_sync_replica")),
        lines("Leader", by_partition("kafka_topic_partition_leader"), about="The broker's id."),
        lines(
            "Led by the preferred leader",
            by_partition("kafka_topic_partition_leader_is_preferred"),
        ),
        lines("Under-replicated", by_partition("kafka_topic_partition_under_replicated_partition")),
    ),
)

BOARD: Final = Board(
    name="topics",
    title="Chiplog / Topics",
    about="Topics of a cluster.",
    variables=(
        *VARIABLES,
        Variable(
            name="topic",
            selector=f"kafka_topic_partitions{{{CHOSEN}}}",
            label="topic",
            is_many=True,
        ),
    ),
    rows=(_STATE, _TRAFFIC, _PARTITIONS),
)
