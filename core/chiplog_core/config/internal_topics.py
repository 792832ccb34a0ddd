"""Size and configuration of the internal topics, which a cluster creates itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.config.broker_keys import (
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
)
from chiplog_core.config.effective import broker_value
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    MIN_INSYNC_REPLICAS,
    SEGMENT_BYTES,
)
from chiplog_core.config.transaction_keys import (
    TRANSACTION_LOG_MIN_ISR,
    TRANSACTION_LOG_NUM_PARTITIONS,
    TRANSACTION_LOG_REPLICATION_FACTOR,
    TRANSACTION_LOG_SEGMENT_BYTES,
)
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE

DEFAULT_MIN_ISR: Final = 2


@dataclass(frozen=True, slots=True)
class TopicSize:
    """Size of an internal topic."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """An internal topic, and the broker keys that say how it is created."""

    name: str
    num_partitions: ConfigKey[int]
    replication_factor: ConfigKey[int]
    segment_bytes: ConfigKey[int]
    min_isr: ConfigKey[int] | None
    """None: Kafka has no such key, and the value is `DEFAULT_MIN_ISR`."""
    coordinated: str
    """Whose coordinator the number of partitions determines, for messages."""

    def size(self, broker_config: Mapping[str, str], brokers: int) -> TopicSize:
        """The number of partitions and replicas in a cluster with this many brokers."""
        # The keys have a default, so `or 1` is only for the type checker.
        replicas = broker_value(broker_config, self.replication_factor) or 1
        return TopicSize(
            partitions=broker_value(broker_config, self.num_partitions) or 1,
            replicas=min(replicas, brokers),
        )

    def config(self, broker_config: Mapping[str, str], replicas: int) -> dict[str, str]:
        """The configuration of the topic itself, if it has this many replicas.

        The cluster's own `min.insync.replicas` is for users' records. With 1, one broker could lose
        what coordinators have acknowledged; with as many as there are replicas, the restart of one
        broker would stop all coordinators. So the value is 2, or what `min_isr` says, but less than
        the number of replicas, and at least 1.
        """
        min_isr = DEFAULT_MIN_ISR
        if self.min_isr is not None:
            min_isr = broker_value(broker_config, self.min_isr) or DEFAULT_MIN_ISR
        return {
            CLEANUP_POLICY.name: "compact",
            COMPRESSION_TYPE.name: "producer",
            MIN_INSYNC_REPLICAS.name: str(max(min(min_isr, replicas - 1), 1)),
            SEGMENT_BYTES.name: str(broker_value(broker_config, self.segment_bytes)),
        }


CREATED_TOPICS: Final[Mapping[str, InternalTopic]] = {
    topic.name: topic
    for topic in (
        InternalTopic(
            name=CONSUMER_OFFSETS,
            num_partitions=OFFSETS_TOPIC_NUM_PARTITIONS,
            replication_factor=OFFSETS_TOPIC_REPLICATION_FACTOR,
            segment_bytes=OFFSETS_TOPIC_SEGMENT_BYTES,
            min_isr=None,
            coordinated="group",
        ),
        InternalTopic(
            name=TRANSACTION_STATE,
            num_partitions=TRANSACTION_LOG_NUM_PARTITIONS,
            replication_factor=TRANSACTION_LOG_REPLICATION_FACTOR,
            segment_bytes=TRANSACTION_LOG_SEGMENT_BYTES,
            min_isr=TRANSACTION_LOG_MIN_ISR,
            coordinated="transactional id",
        ),
    )
}
"""By name: the internal topics that every cluster has."""
