"""The settings of a topic's logs, from its configuration."""

from chiplog_broker.metadata.view import TopicView
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_core.config import topic_keys as keys
from chiplog_core.config.effective import TopicConfig
from chiplog_wire.records.validate import TimestampType


def topic_log_config(topic: TopicView) -> LogConfig:
    """The settings of all logs of a topic."""
    return log_config(topic.config, topic.durability)


def log_config(config: TopicConfig, durability: str | None = None) -> LogConfig:
    """The log settings of a topic configuration; `durability` replaces the configured one unless it
    is None."""
    return LogConfig(
        segment_bytes=config[keys.SEGMENT_BYTES],
        segment_ms=config[keys.SEGMENT_MS],
        segment_jitter_ms=config[keys.SEGMENT_JITTER_MS],
        segment_index_bytes=config[keys.SEGMENT_INDEX_BYTES],
        index_interval_bytes=config[keys.INDEX_INTERVAL_BYTES],
        retention_ms=config[keys.RETENTION_MS],
        retention_bytes=config[keys.RETENTION_BYTES],
        deletes=keys.DELETE in config[keys.CLEANUP_POLICY],
        compacts=keys.COMPACT in config[keys.CLEANUP_POLICY],
        delete_retention_ms=config[keys.DELETE_RETENTION_MS],
        min_cleanable_dirty_ratio=config[keys.MIN_CLEANABLE_DIRTY_RATIO],
        min_compaction_lag_ms=config[keys.MIN_COMPACTION_LAG_MS],
        max_compaction_lag_ms=config[keys.MAX_COMPACTION_LAG_MS],
        file_delete_delay_ms=config[keys.FILE_DELETE_DELAY_MS],
        max_message_bytes=config[keys.MAX_MESSAGE_BYTES],
        flush_messages=config[keys.FLUSH_MESSAGES],
        flush_ms=config[keys.FLUSH_MS],
        message_timestamp_type=TimestampType(config[keys.MESSAGE_TIMESTAMP_TYPE]),
        message_timestamp_before_max_ms=config[keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        message_timestamp_after_max_ms=config[keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        durability=Durability(durability or config[keys.DURABILITY]),
    )
