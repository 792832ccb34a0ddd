"""The settings of one log, under Kafka's names (`segment.bytes` is `segment_bytes`).

Defaults are those of Apache Kafka 4, except durability, which is our own. A log takes a new
`LogConfig` at any time; stored records stay as they are.
"""

from dataclasses import dataclass
from enum import Enum

from chiplog_wire.records.batch import Codec
from chiplog_wire.records.validate import ProduceLimits, TimestampType

NO_LIMIT = 2**63 - 1
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class Durability(Enum):
    """When a record counts as stored, and may be acknowledged."""

    FSYNC = "Fsync"
    """After fdatasync: it survives a power cut of all brokers at the same time."""

    PAGE_CACHE = "PageCache"
    """When the kernel has it in its page cache: it survives the end of the process. Kafka's own
    default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one log."""

    segment_bytes: int = 2**30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 2**20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    """-1 keeps records forever."""
    retention_bytes: int = -1
    """-1 is no limit."""
    deletes: bool = True
    """`cleanup.policy` contains delete: segments are deleted by age and size."""
    compacts: bool = False
    """`cleanup.policy` contains compact: the latest value of each key stays."""
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = _HOUR_MS
    compression_type: Codec | None = None
    """None means Kafka's `producer`: batches are stored as they were sent."""
    durability: Durability = Durability.FSYNC

    @property
    def roll_ms(self) -> int:
        """The age at which a new segment begins.

        The active segment is never compacted. So a compacted log rolls after
        `max.compaction.lag.ms` at the latest (KIP-354).
        """
        return (
            min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        )

    def produce_limits(self) -> ProduceLimits:
        """The limits for produced batches."""
        return ProduceLimits(
            max_message_bytes=self.max_message_bytes,
            segment_bytes=self.segment_bytes,
            timestamp_type=self.message_timestamp_type,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
        )
