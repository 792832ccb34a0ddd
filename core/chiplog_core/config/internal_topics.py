"""Size and configuration of the internal topics, which a cluster creates itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_core.config.broker_keys import (
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
)
from chiplog_core.config.effective import broker_value
from chiplog_core.config.topic_keys import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    MIN_INSYNC_REPLICAS,
    SEGMENT_BYTES,
)


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """Size of `__consumer_offsets`."""

    partitions: int
    replicas: int


def offsets_topic(broker_config: Mapping[str, str], brokers: int) -> OffsetsTopic:
    """The number of partitions and replicas of `__consumer_offsets` in a cluster with this many
    brokers."""
    # Both keys have a default, so `or 1` is only for the type checker.
    replicas = broker_value(broker_config, OFFSETS_TOPIC_REPLICATION_FACTOR) or 1
    return OffsetsTopic(
        partitions=broker_value(broker_config, OFFSETS_TOPIC_NUM_PARTITIONS) or 1,
        replicas=min(replicas, brokers),
    )


def offsets_config(broker_config: Mapping[str, str], replicas: int) -> dict[str, str]:
    """The configuration of `__consumer_offsets` itself, for a topic with this many replicas.

    The cluster's own `min.insync.replicas` is for users' records. With 1, one broker could lose
    committed offsets; with as many as there are replicas, the restart of one broker would stop all
    groups. So the value is 2 for three replicas or more, else 1.
    """
    segment_bytes = broker_value(broker_config, OFFSETS_TOPIC_SEGMENT_BYTES)
    return {
        CLEANUP_POLICY.name: "compact",
        COMPRESSION_TYPE.name: "producer",
        MIN_INSYNC_REPLICAS.name: "2" if replicas >= 3 else "1",
        SEGMENT_BYTES.name: str(segment_bytes),
    }
