"""The configuration of a topic, under Kafka's own names.

Users write these in `Topic.spec.config`, admin clients in CreateTopics and AlterConfigs. Types,
ranges, defaults and synonyms are those of Apache Kafka 4.3's `LogConfig` and
`ServerTopicConfigSynonyms`, with five differences:

* `unclean.leader.election.enable` can only be false: an unclean election is a decision about one
  partition and one leader epoch, made with an annotation that names both, not a permanent setting.
* `retention.ms` and `retention.bytes` end at -1, the one value that means "no limit"; Kafka
  accepts other negative byte counts and treats them alike.
* The keys of tiered storage are fixed to values that turn it off.
* The lists of throttled replicas cannot be set in a manifest, but only by Kafka's tools: they are
  set while replicas move, and removed afterwards.
* `chiplog.durability` exists only in Chiplog.
"""

from enum import StrEnum
from typing import Final

from chiplog_core.config.key import ConfigKey, KeyTable, Synonym
from chiplog_core.config.value_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    THROTTLED_REPLICAS,
)
from chiplog_core.durations import DAY_MS, HOUR_MS, MINUTE_MS
from chiplog_core.ids import MAX_INT64

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

DELETE: Final = "delete"
COMPACT: Final = "compact"
PRODUCER_COMPRESSION: Final = "producer"
AS_RETENTION: Final = -2
NO_TIERED_STORAGE: Final = "there is no tiered storage"

# A batch of the default maximum size. Kafka adds 12 bytes: the base offset and the length of the
# batch.
DEFAULT_MAX_MESSAGE_BYTES: Final = MIB + 12


class Durability(StrEnum):
    """What must have happened to a record before it is acknowledged."""

    FSYNC = "Fsync"
    """All in-sync replicas have synced it to disk."""

    PAGE_CACHE = "PageCache"
    """All in-sync replicas have it in memory, which is Kafka's default."""


CLEANUP_POLICY = ConfigKey(
    name="cleanup.policy",
    value_type=LIST,
    default=(DELETE,),
    choices=(DELETE, COMPACT),
    synonyms=(Synonym("log.cleanup.policy"),),
    doc="How old segments are handled: delete removes them by age and size, compact keeps the "
    "latest value of each key; both can be given, separated by a comma.",
)
COMPRESSION_TYPE = ConfigKey(
    name="compression.type",
    value_type=STRING,
    default=PRODUCER_COMPRESSION,
    choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER_COMPRESSION),
    synonyms=(Synonym("compression.type"),),
    doc="Has no effect: brokers store each batch as its producer compressed it. Any value other "
    "than producer causes a Warning condition. Set compression.type in the producers.",
)
COMPRESSION_GZIP_LEVEL = ConfigKey(
    name="compression.gzip.level",
    value_type=INT,
    default=-1,
    minimum=-1,
    maximum=9,
    synonyms=(Synonym("compression.gzip.level"),),
    doc="Has no effect, because brokers do not compress.",
)
COMPRESSION_LZ4_LEVEL = ConfigKey(
    name="compression.lz4.level",
    value_type=INT,
    default=9,
    minimum=1,
    maximum=17,
    synonyms=(Synonym("compression.lz4.level"),),
    doc="Has no effect, because brokers do not compress.",
)
COMPRESSION_ZSTD_LEVEL = ConfigKey(
    name="compression.zstd.level",
    value_type=INT,
    default=3,
    minimum=-131_072,
    maximum=22,
    synonyms=(Synonym("compression.zstd.level"),),
    doc="Has no effect, because brokers do not compress.",
)
DELETE_RETENTION_MS = ConfigKey(
    name="delete.retention.ms",
    value_type=LONG,
    default=DAY_MS,
    minimum=0,
    synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
    doc="How long a compacted topic keeps the tombstone of a deleted key, so that a consumer that "
    "started before the deletion still sees it.",
)
FILE_DELETE_DELAY_MS = ConfigKey(
    name="file.delete.delay.ms",
    value_type=LONG,
    default=MINUTE_MS,
    minimum=0,
    synonyms=(Synonym("log.segment.delete.delay.ms"),),
    doc="How long a segment's files stay on disk after the segment was dropped from the log.",
)
FOLLOWER_THROTTLED_REPLICAS: Final[ConfigKey[tuple[str, ...]]] = ConfigKey(
    name="follower.replication.throttled.replicas",
    value_type=THROTTLED_REPLICAS,
    default=(),
    set_by="spec.replicationThrottle of the BrokerCluster or of a Rebalance",
    doc="The followers whose copying is throttled while they are out of sync, as partition:broker; "
    "* for all. Kafka's tools set it; a manifest cannot.",
)
FLUSH_MESSAGES = ConfigKey(
    name="flush.messages",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    synonyms=(Synonym("log.flush.interval.messages"),),
    doc="With PageCache durability: sync to disk after this many records. Fsync durability syncs "
    "before every acknowledgement and does not need it.",
)
FLUSH_MS = ConfigKey(
    name="flush.ms",
    value_type=LONG,
    default=MAX_INT64,
    minimum=0,
    synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    doc="With PageCache durability: sync to disk at least this often.",
)
INDEX_INTERVAL_BYTES = ConfigKey(
    name="index.interval.bytes",
    value_type=INT,
    default=4 * KIB,
    minimum=0,
    synonyms=(Synonym("log.index.interval.bytes"),),
    doc="Roughly how many bytes of log lie between two entries of its offset index.",
)
MAX_COMPACTION_LAG_MS = ConfigKey(
    name="max.compaction.lag.ms",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
    doc="The longest time a record of a compacted topic may wait to be compacted.",
)
MAX_MESSAGE_BYTES = ConfigKey(
    name="max.message.bytes",
    value_type=INT,
    default=DEFAULT_MAX_MESSAGE_BYTES,
    minimum=0,
    synonyms=(Synonym("message.max.bytes"),),
    doc="The largest record batch that the topic accepts, after compression.",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = ConfigKey(
    name="message.timestamp.after.max.ms",
    value_type=LONG,
    default=HOUR_MS,
    minimum=0,
    synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
    doc="How far a record's timestamp may be ahead of the broker's clock before the record is "
    "refused; has no effect with LogAppendTime.",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = ConfigKey(
    name="message.timestamp.before.max.ms",
    value_type=LONG,
    default=MAX_INT64,
    minimum=0,
    synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
    doc="How far a record's timestamp may be behind the broker's clock before the record is "
    "refused; has no effect with LogAppendTime.",
)
MESSAGE_TIMESTAMP_TYPE = ConfigKey(
    name="message.timestamp.type",
    value_type=STRING,
    default="CreateTime",
    choices=("CreateTime", "LogAppendTime"),
    synonyms=(Synonym("log.message.timestamp.type"),),
    doc="Whether a record's timestamp is set by the producer (CreateTime) or by the broker when "
    "it appends the record (LogAppendTime).",
)
MIN_CLEANABLE_DIRTY_RATIO = ConfigKey(
    name="min.cleanable.dirty.ratio",
    value_type=DOUBLE,
    default=0.5,
    minimum=0,
    maximum=1,
    synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
    doc="The share of a compacted log that must be uncompacted before the cleaner compacts it.",
)
MIN_COMPACTION_LAG_MS = ConfigKey(
    name="min.compaction.lag.ms",
    value_type=LONG,
    default=0,
    minimum=0,
    synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
    doc="The shortest time before a record may be compacted away.",
)
MIN_INSYNC_REPLICAS = ConfigKey(
    name="min.insync.replicas",
    value_type=INT,
    default=1,  # raised to 2 for three and more replicas: see effective.min_isr
    minimum=1,
    synonyms=(Synonym("min.insync.replicas"),),
    doc="How many in-sync replicas must have a record before a producer with acks=all gets its "
    "answer. If it is set nowhere, topics with three or more replicas have 2.",
)
PREALLOCATE = ConfigKey(
    name="preallocate",
    value_type=BOOLEAN,
    default=False,
    synonyms=(Synonym("log.preallocate"),),
    doc="Whether the file of a new segment is allocated with its full size on disk immediately.",
)
RETENTION_BYTES = ConfigKey(
    name="retention.bytes",
    value_type=LONG,
    default=-1,
    minimum=-1,
    synonyms=(Synonym("log.retention.bytes"),),
    doc="The size of a partition above which its oldest segments are deleted; -1 for no limit. "
    "It counts per partition, not per topic.",
)
RETENTION_MS = ConfigKey(
    name="retention.ms",
    value_type=LONG,
    default=7 * DAY_MS,
    minimum=-1,
    synonyms=(
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", unit=MINUTE_MS),
        Synonym("log.retention.hours", unit=HOUR_MS),
    ),
    doc="The age above which segments are deleted; -1 keeps records for ever.",
)
SEGMENT_BYTES = ConfigKey(
    name="segment.bytes",
    value_type=INT,
    default=GIB,
    minimum=MIB,
    synonyms=(Synonym("log.segment.bytes"),),
    doc="The size at which a log rolls to a new segment. Only whole segments expire.",
)
SEGMENT_INDEX_BYTES = ConfigKey(
    name="segment.index.bytes",
    value_type=INT,
    default=10 * MIB,
    minimum=4,
    synonyms=(Synonym("log.index.size.max.bytes"),),
    doc="The size of a segment's offset index at which the log rolls to a new segment.",
)
SEGMENT_JITTER_MS = ConfigKey(
    name="segment.jitter.ms",
    value_type=LONG,
    default=0,
    minimum=0,
    synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", unit=HOUR_MS)),
    doc="A segment rolls earlier than segment.ms by a random time of up to this many milliseconds, "
    "so that partitions do not all roll at the same time.",
)
SEGMENT_MS = ConfigKey(
    name="segment.ms",
    value_type=LONG,
    default=7 * DAY_MS,
    minimum=1,
    synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", unit=HOUR_MS)),
    doc="The age at which a log rolls to a new segment even if the old one is not full, so that "
    "retention can delete it.",
)
UNCLEAN_LEADER_ELECTION_ENABLE = ConfigKey(
    name="unclean.leader.election.enable",
    value_type=BOOLEAN,
    default=False,
    choices=(False,),
    because="a replica that may lack acknowledged records can be elected leader only after "
    "somebody accepts the loss with the annotation chiplog.dev/unclean-election, for one "
    "partition at a time",
    synonyms=(Synonym("unclean.leader.election.enable"),),
    doc="Always false: a replica that may lack acknowledged records can be elected leader only if "
    "an annotation names the partition and accepts the loss.",
)
REMOTE_STORAGE_ENABLE = ConfigKey(
    name="remote.storage.enable",
    value_type=BOOLEAN,
    default=False,
    choices=(False,),
    because=NO_TIERED_STORAGE,
    doc="Always false, because there is no tiered storage.",
)
REMOTE_LOG_COPY_DISABLE = ConfigKey(
    name="remote.log.copy.disable",
    value_type=BOOLEAN,
    default=False,
    choices=(False,),
    because=NO_TIERED_STORAGE,
    doc="Always false, because there is no tiered storage.",
)
REMOTE_LOG_DELETE_ON_DISABLE = ConfigKey(
    name="remote.log.delete.on.disable",
    value_type=BOOLEAN,
    default=False,
    choices=(False,),
    because=NO_TIERED_STORAGE,
    doc="Always false, because there is no tiered storage.",
)
LEADER_THROTTLED_REPLICAS: Final[ConfigKey[tuple[str, ...]]] = ConfigKey(
    name="leader.replication.throttled.replicas",
    value_type=THROTTLED_REPLICAS,
    default=(),
    set_by="spec.replicationThrottle of the BrokerCluster or of a Rebalance",
    doc="The leaders that throttle what out-of-sync followers fetch from them, as "
    "partition:broker; * for all. Kafka's tools set it; a manifest cannot.",
)
LOCAL_RETENTION_BYTES = ConfigKey(
    name="local.retention.bytes",
    value_type=LONG,
    default=AS_RETENTION,
    choices=(AS_RETENTION,),
    because=NO_TIERED_STORAGE,
    synonyms=(Synonym("log.local.retention.bytes"),),
    doc="Always -2, which is the value of retention.bytes, because there is no tiered storage.",
)
LOCAL_RETENTION_MS = ConfigKey(
    name="local.retention.ms",
    value_type=LONG,
    default=AS_RETENTION,
    choices=(AS_RETENTION,),
    because=NO_TIERED_STORAGE,
    synonyms=(Synonym("log.local.retention.ms"),),
    doc="Always -2, which is the value of retention.ms, because there is no tiered storage.",
)
DURABILITY = ConfigKey(
    name="chiplog.durability",
    value_type=STRING,
    default=Durability.FSYNC.value,
    choices=tuple(durability.value for durability in Durability),
    synonyms=(Synonym("chiplog.durability"),),
    doc="What must have happened to a record before it is acknowledged. Fsync: it is on disk on "
    "all in-sync replicas. PageCache: it is in their memory, as in Kafka by default.",
)

TOPIC_KEYS = KeyTable(
    "topic",
    (
        CLEANUP_POLICY,
        COMPRESSION_GZIP_LEVEL,
        COMPRESSION_LZ4_LEVEL,
        COMPRESSION_TYPE,
        COMPRESSION_ZSTD_LEVEL,
        DELETE_RETENTION_MS,
        FILE_DELETE_DELAY_MS,
        FLUSH_MESSAGES,
        FLUSH_MS,
        FOLLOWER_THROTTLED_REPLICAS,
        INDEX_INTERVAL_BYTES,
        LEADER_THROTTLED_REPLICAS,
        LOCAL_RETENTION_BYTES,
        LOCAL_RETENTION_MS,
        MAX_COMPACTION_LAG_MS,
        MAX_MESSAGE_BYTES,
        MESSAGE_TIMESTAMP_AFTER_MAX_MS,
        MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
        MESSAGE_TIMESTAMP_TYPE,
        MIN_CLEANABLE_DIRTY_RATIO,
        MIN_COMPACTION_LAG_MS,
        MIN_INSYNC_REPLICAS,
        PREALLOCATE,
        REMOTE_LOG_COPY_DISABLE,
        REMOTE_LOG_DELETE_ON_DISABLE,
        REMOTE_STORAGE_ENABLE,
        RETENTION_BYTES,
        RETENTION_MS,
        SEGMENT_BYTES,
        SEGMENT_INDEX_BYTES,
        SEGMENT_JITTER_MS,
        SEGMENT_MS,
        UNCLEAN_LEADER_ELECTION_ENABLE,
        DURABILITY,
    ),
)

ABSENT_TOPIC_KEYS = {
    "message.downconversion.enable": "Kafka 4 and Chiplog have only one message format",
    "message.format.version": "Kafka 4 and Chiplog have only one message format",
    "message.timestamp.difference.max.ms": "Kafka 4 replaced it with "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
}
"""Keys of Kafka that Chiplog does not have, and why, for a better message than "unknown key"."""

CLIENTS_TOPIC_KEYS: Final = frozenset(
    {FOLLOWER_THROTTLED_REPLICAS.name, LEADER_THROTTLED_REPLICAS.name}
)
"""The keys that only Kafka's clients set. Their values are in PartitionMaps, not in Topics."""
