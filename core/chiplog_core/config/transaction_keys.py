"""The configuration of transactions and of `__transaction_state`, under Kafka's own names.

Types and defaults are Apache Kafka 4.3's (`TransactionLogConfig`, `TransactionStateManagerConfig`).
"""

from typing import Any, Final

from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import MIB
from chiplog_core.config.value_types import INT
from chiplog_core.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC, MAX_REPLICAS

TRANSACTION_MAX_TIMEOUT_MS = ConfigKey(
    name="transaction.max.timeout.ms",
    value_type=INT,
    default=15 * MINUTE_MS,
    minimum=1,
    doc="The longest transaction.timeout.ms that a producer may request.",
)
TRANSACTION_ABORT_INTERVAL_MS = ConfigKey(
    name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    value_type=INT,
    default=10 * SECOND_MS,
    minimum=1,
    doc="How often a coordinator looks for transactions that have timed out, which it aborts.",
)
TRANSACTIONAL_ID_EXPIRATION_MS = ConfigKey(
    name="transactional.id.expiration.ms",
    value_type=INT,
    default=7 * DAY_MS,
    minimum=1,
    doc="How long a coordinator keeps a transactional id that is not used. Those with an open "
    "transaction are kept.",
)
TRANSACTIONAL_ID_EXPIRY_INTERVAL_MS = ConfigKey(
    name="transaction.remove.expired.transaction.cleanup.interval.ms",
    value_type=INT,
    default=HOUR_MS,
    minimum=1,
    doc="How often a coordinator looks for transactional ids that have expired.",
)
TRANSACTION_LOG_NUM_PARTITIONS = ConfigKey(
    name="transaction.state.log.num.partitions",
    value_type=INT,
    default=50,
    minimum=1,
    maximum=MAX_PARTITIONS_PER_TOPIC,
    needs_restart=True,
    doc="Number of partitions of __transaction_state. It determines each transactional id's "
    "coordinator, so it is used only when the topic is created.",
)
TRANSACTION_LOG_REPLICATION_FACTOR = ConfigKey(
    name="transaction.state.log.replication.factor",
    value_type=INT,
    default=3,
    minimum=1,
    maximum=MAX_REPLICAS,
    doc="Number of replicas of __transaction_state; at most the number of brokers.",
)
TRANSACTION_LOG_MIN_ISR = ConfigKey(
    name="transaction.state.log.min.isr",
    value_type=INT,
    default=2,
    minimum=1,
    maximum=MAX_REPLICAS,
    doc="How many in-sync replicas __transaction_state needs for a write. If the topic has no "
    "more replicas than this, one less than its number of replicas is used, but at least 1, so "
    "that one broker can restart.",
)
TRANSACTION_LOG_SEGMENT_BYTES = ConfigKey(
    name="transaction.state.log.segment.bytes",
    value_type=INT,
    default=100 * MIB,
    minimum=MIB,
    doc="Segment size of __transaction_state. Small segments are compacted sooner, so a new "
    "coordinator loads faster.",
)

TRANSACTION_KEYS: Final[tuple[ConfigKey[Any], ...]] = (
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTION_ABORT_INTERVAL_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
    TRANSACTIONAL_ID_EXPIRY_INTERVAL_MS,
    TRANSACTION_LOG_NUM_PARTITIONS,
    TRANSACTION_LOG_REPLICATION_FACTOR,
    TRANSACTION_LOG_MIN_ISR,
    TRANSACTION_LOG_SEGMENT_BYTES,
)
