"""The configuration of brokers, under Kafka's own names.

Users write these in `BrokerCluster.spec.config`, or in a `server.properties` for a broker without
Kubernetes. Half of the table is derived: every topic key has broker keys that set its default.
The rest is written out, with Apache Kafka 4.3's types, ranges and defaults, except

* `auto.create.topics.enable` is off: a typo in a topic's name should be an error;
* `replica.lag.time.max.ms` is 10 s, because a dead follower holds acks=all up for that long;
* what begins with `chiplog.` is ours.
"""

from collections.abc import Iterator
from typing import Any, Final

from chiplog_core.config.key import ConfigKey, KeyTable, Synonym
from chiplog_core.config.listener_keys import (
    LISTENER_KEYS,
    LISTENER_SECURITY_PROTOCOL_MAP,
    key_of_one_listener,
)
from chiplog_core.config.topic_keys import KIB, MIB, TOPIC_KEYS
from chiplog_core.config.transaction_keys import TRANSACTION_KEYS
from chiplog_core.config.value_types import BOOLEAN, DOUBLE, INT, LIST, LONG, PRINCIPALS, STRING
from chiplog_core.durations import DAY_MS, MINUTE_MS, SECOND_MS
from chiplog_core.ids import MAX_BROKER_ID, MAX_INT32, MAX_INT64
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC, MAX_REPLICAS
from chiplog_core.naming.names import DATA_PATH

NUM_PARTITIONS = ConfigKey(
    name="num.partitions",
    value_type=INT,
    default=1,
    minimum=1,
    maximum=MAX_PARTITIONS_PER_TOPIC,
    doc="Number of partitions of a new topic that does not set it.",
)
MAX_TOPICS = ConfigKey(
    name="chiplog.max.topics",
    value_type=INT,
    default=10_000,
    minimum=1,
    doc="How many topics a cluster may have. A creation above the limit is refused; existing "
    "topics are not affected.",
)
MAX_PARTITIONS = ConfigKey(
    name="chiplog.max.partitions",
    value_type=INT,
    default=100_000,
    minimum=1,
    doc="How many partitions all topics of a cluster may have together. New partitions above the "
    "limit are refused; existing ones are not affected.",
)
CONTROLLER_MUTATION_RATE = ConfigKey(
    name="chiplog.controller.mutation.rate",
    value_type=INT,
    default=500,
    minimum=1,
    needs_restart=True,
    doc="How many partitions per second one client address may create and delete through one "
    "broker (KIP-599). A burst may have as many as this rate allows in eleven seconds. A request "
    "above that is answered with THROTTLING_QUOTA_EXCEEDED and the time to wait.",
)
DEFAULT_REPLICATION_FACTOR = ConfigKey(
    name="default.replication.factor",
    value_type=INT,
    default=1,
    minimum=1,
    maximum=MAX_REPLICAS,
    doc="Number of replicas of a new topic that does not set it.",
)
AUTO_CREATE_TOPICS_ENABLE = ConfigKey(
    name="auto.create.topics.enable",
    value_type=BOOLEAN,
    default=False,
    doc="Whether a client that asks for an unknown topic creates it.",
)
LOG_RETENTION_CHECK_INTERVAL_MS = ConfigKey(
    name="log.retention.check.interval.ms",
    value_type=LONG,
    default=5 * MINUTE_MS,
    minimum=1,
    doc="How often a broker looks for segments that retention lets it delete.",
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.offset.checkpoint.interval.ms",
    value_type=INT,
    default=MINUTE_MS,
    minimum=0,
    doc="How often a broker checkpoints the offset up to which each log is synced. Recovery after "
    "a crash starts there.",
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.start.offset.checkpoint.interval.ms",
    value_type=INT,
    default=MINUTE_MS,
    minimum=0,
    doc="How often a broker checkpoints the log start offsets.",
)
LOG_CLEANER_ENABLE = ConfigKey(
    name="log.cleaner.enable",
    value_type=BOOLEAN,
    default=True,
    doc="Whether topics with cleanup.policy compact are compacted.",
)
LOG_CLEANER_BACKOFF_MS = ConfigKey(
    name="log.cleaner.backoff.ms",
    value_type=LONG,
    default=15 * SECOND_MS,
    minimum=0,
    doc="How long the cleaner pauses when there is nothing to compact.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = ConfigKey(
    name="log.cleaner.dedupe.buffer.size",
    value_type=LONG,
    default=128 * MIB,
    minimum=1,
    doc="Memory for the keys of the log that is being compacted, at 192 bytes per key. A log with "
    "more keys that are not compacted yet takes several passes.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = ConfigKey(
    name="log.cleaner.io.max.bytes.per.second",
    value_type=DOUBLE,
    default=1.7976931348623157e308,
    minimum=1,
    doc="How many bytes compaction may read and write per second, in total.",
)

DISK_RESERVE_BYTES = ConfigKey(
    name="chiplog.disk.reserve.bytes",
    value_type=LONG,
    default=-1,
    minimum=-1,
    doc="How much of its volume a broker keeps free. With less free space it refuses writes with "
    "a retriable error. -1 is 3 % of the volume, at least 4 MiB and at most 1 GiB.",
)
SCRUB_INTERVAL_MS = ConfigKey(
    name="chiplog.scrub.interval.ms",
    value_type=LONG,
    default=7 * DAY_MS,
    minimum=-1,
    doc="How long a broker may take to read all its logs once and verify that the stored bytes "
    "are what was written; -1 or 0 for never.",
)
SCRUB_MAX_BYTES_PER_SECOND = ConfigKey(
    name="chiplog.scrub.max.bytes.per.second",
    value_type=LONG,
    default=10 * MIB,
    minimum=1,
    doc="How many bytes per second a broker may read to verify its logs. With a low limit, "
    "verifying all logs takes longer than chiplog.scrub.interval.ms.",
)

REPLICA_LAG_TIME_MAX_MS = ConfigKey(
    name="replica.lag.time.max.ms",
    value_type=LONG,
    default=10 * SECOND_MS,
    minimum=1,
    doc="How long a follower may stay behind its leader before the leader proposes to take it "
    "out of the in-sync replicas.",
)
REPLICA_FETCH_MAX_BYTES = ConfigKey(
    name="replica.fetch.max.bytes",
    value_type=INT,
    default=MIB,
    minimum=0,
    doc="How many bytes a follower requests per partition; one batch is always returned, even if "
    "it is larger. A replica that is copied to another broker requests four times as many.",
)
REPLICA_FETCH_WAIT_MAX_MS = ConfigKey(
    name="replica.fetch.wait.max.ms",
    value_type=INT,
    default=500,
    minimum=0,
    doc="How long a leader may delay the answer to a follower's fetch while there are no new "
    "records.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = ConfigKey(
    name="replica.fetch.response.max.bytes",
    value_type=INT,
    default=10 * MIB,
    minimum=0,
    doc="How many bytes a follower requests per fetch; one batch is always returned, even if it "
    "is larger.",
)
LEADER_THROTTLED_RATE = ConfigKey(
    name="leader.replication.throttled.rate",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    set_by="spec.replicationThrottle",
    doc="How many bytes per second a broker sends at most to out-of-sync followers, for replicas "
    "in leader.replication.throttled.replicas. Kafka's tools set it for one broker at a time.",
)
FOLLOWER_THROTTLED_RATE = ConfigKey(
    name="follower.replication.throttled.rate",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    set_by="spec.replicationThrottle",
    doc="How many bytes per second a broker fetches at most for its out-of-sync replicas, for "
    "replicas in follower.replication.throttled.replicas. Kafka's tools set it for one broker at a "
    "time.",
)
ALTER_LOG_DIRS_RATE = ConfigKey(
    name="replica.alter.log.dirs.io.max.bytes.per.second",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    set_by="spec.replicationThrottle",
    doc="Has no effect, because a broker has one data directory. Kafka's tools set and remove it.",
)
MOVES_THROTTLED_RATE = ConfigKey(
    name="chiplog.moves.throttled.rate",
    value_type=LONG,
    default=MAX_INT64,
    minimum=1,
    set_by="spec.replicationThrottle",
    doc="How many bytes per second a broker sends, and how many it receives, at most for replicas "
    "that are being added to partitions. The two rates that Kafka's tools set take precedence.",
)
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTOR_CLASS = ConfigKey(
    name="replica.selector.class",
    value_type=STRING,
    default=LEADER_SELECTOR,
    choices=(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    doc="Which replica consumers with a rack (client.rack) read from: the leader, or an in-sync "
    "replica in their own rack (KIP-392).",
)

OFFSETS_RETENTION_MINUTES = ConfigKey(
    name="offsets.retention.minutes",
    value_type=INT,
    default=7 * DAY_MS // MINUTE_MS,
    minimum=1,
    doc="How long a group without members keeps its committed offsets.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = ConfigKey(
    name="offsets.retention.check.interval.ms",
    value_type=LONG,
    default=10 * MINUTE_MS,
    minimum=1,
    doc="How often a coordinator looks for committed offsets that have expired.",
)
OFFSETS_TOPIC_NUM_PARTITIONS = ConfigKey(
    name="offsets.topic.num.partitions",
    value_type=INT,
    default=50,
    minimum=1,
    maximum=MAX_PARTITIONS_PER_TOPIC,
    needs_restart=True,
    doc="Number of partitions of __consumer_offsets. It determines each group's coordinator, so "
    "it is used only when the cluster is created.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = ConfigKey(
    name="offsets.topic.replication.factor",
    value_type=INT,
    default=3,
    minimum=1,
    maximum=MAX_REPLICAS,
    doc="Number of replicas of __consumer_offsets; at most the number of brokers.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = ConfigKey(
    name="offsets.topic.segment.bytes",
    value_type=INT,
    default=100 * MIB,
    minimum=MIB,
    doc="Segment size of __consumer_offsets. Small segments are compacted sooner, so a new "
    "coordinator loads faster.",
)
OFFSET_METADATA_MAX_BYTES = ConfigKey(
    name="offset.metadata.max.bytes",
    value_type=INT,
    default=4 * KIB,
    minimum=0,
    doc="The largest metadata string that a client may store with a committed offset.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = ConfigKey(
    name="group.initial.rebalance.delay.ms",
    value_type=INT,
    default=3 * SECOND_MS,
    minimum=0,
    doc="How long a new group waits for more members before its first rebalance.",
)
GROUP_MIN_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.min.session.timeout.ms",
    value_type=INT,
    default=6 * SECOND_MS,
    minimum=0,
    doc="The shortest session timeout that a consumer may request.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.max.session.timeout.ms",
    value_type=INT,
    default=30 * MINUTE_MS,
    minimum=0,
    doc="The longest session timeout that a consumer may request.",
)
GROUP_MAX_SIZE = ConfigKey(
    name="group.max.size",
    value_type=INT,
    default=MAX_INT32,
    minimum=1,
    doc="How many members one group may have.",
)

FETCH_MAX_BYTES = ConfigKey(
    name="fetch.max.bytes",
    value_type=INT,
    default=55 * MIB,
    minimum=KIB,
    doc="How many bytes a broker returns for one fetch at most; one batch is always returned, "
    "even if it is larger.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = ConfigKey(
    name="max.incremental.fetch.session.cache.slots",
    value_type=INT,
    default=1000,
    minimum=0,
    needs_restart=True,
    doc="How many incremental fetch sessions a broker remembers.",
)
PRODUCER_ID_EXPIRATION_MS = ConfigKey(
    name="producer.id.expiration.ms",
    value_type=INT,
    default=DAY_MS,
    minimum=1,
    doc="How long, at least, a partition remembers an idempotent producer that sends nothing. It "
    "is measured with a monotonic clock, not by record timestamps. Set it longer than the "
    "delivery timeout of every producer.",
)
SOCKET_REQUEST_MAX_BYTES = ConfigKey(
    name="socket.request.max.bytes",
    value_type=INT,
    default=100 * MIB,
    minimum=1,
    needs_restart=True,
    doc="The largest request a broker reads; a larger one closes the connection. Requests other "
    "than Produce are limited to 8 MiB. A broker with less than 800 MiB of memory limits "
    "requests to an eighth of its memory.",
)
SOCKET_SEND_BUFFER_BYTES = ConfigKey(
    name="socket.send.buffer.bytes",
    value_type=INT,
    default=100 * KIB,
    minimum=-1,
    needs_restart=True,
    doc="SO_SNDBUF of client connections; -1 uses the operating system's default.",
)
SOCKET_RECEIVE_BUFFER_BYTES = ConfigKey(
    name="socket.receive.buffer.bytes",
    value_type=INT,
    default=100 * KIB,
    minimum=-1,
    needs_restart=True,
    doc="SO_RCVBUF of client connections; -1 uses the operating system's default.",
)
MEMORY_BYTES = ConfigKey(
    name="chiplog.memory.bytes",
    value_type=LONG,
    default=-1,
    minimum=-1,
    needs_restart=True,
    doc="The memory that a broker may use. The limits for connections, unfinished requests, "
    "answers that clients do not read, and fetch sessions are derived from it. -1 is the "
    "memory limit of its container, or the memory of its machine if there is no limit.",
)
MAX_CONNECTIONS = ConfigKey(
    name="max.connections",
    value_type=INT,
    default=MAX_INT32,
    minimum=0,
    doc="How many client connections a broker keeps open in total. 2147483647 means as many as "
    "its memory allows: one for each 256 KiB, or for each 512 KiB if a listener has TLS. File "
    "descriptors that log files and other brokers need are always reserved.",
)
MAX_CONNECTIONS_PER_IP = ConfigKey(
    name="max.connections.per.ip",
    value_type=INT,
    default=MAX_INT32,
    minimum=0,
    doc="How many connections a broker keeps open per client address. 2147483647 means three "
    "quarters of max.connections.",
)
CONNECTIONS_MAX_IDLE_MS = ConfigKey(
    name="connections.max.idle.ms",
    value_type=LONG,
    default=10 * MINUTE_MS,
    minimum=1,
    doc="How long a connection may be idle before it is closed.",
)

NODE_ID = ConfigKey(
    name="node.id",
    value_type=INT,
    default=1,
    minimum=1,
    maximum=MAX_BROKER_ID,
    needs_restart=True,
    set_by="spec.replicas",
    doc="The broker's id.",
)
LISTENERS = ConfigKey(
    name="listeners",
    value_type=LIST,
    default=("127.0.0.1:9092",),
    needs_restart=True,
    set_by="spec.listeners",
    doc="The addresses a broker listens on.",
)
ADVERTISED_LISTENERS: Final[ConfigKey[tuple[str, ...]]] = ConfigKey(
    name="advertised.listeners",
    value_type=LIST,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="The addresses that a broker advertises to clients; if not set, the addresses it listens "
    "on.",
)
LOG_DIRS = ConfigKey(
    name="log.dirs",
    value_type=LIST,
    default=(DATA_PATH,),
    needs_restart=True,
    set_by="spec.storage",
    doc="The directories a broker keeps its logs in.",
)
BROKER_RACK: Final[ConfigKey[str]] = ConfigKey(
    name="broker.rack",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.rack",
    doc="The rack or zone a broker is in.",
)
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_CLASS_NAME = ConfigKey(
    name="authorizer.class.name",
    value_type=STRING,
    default="",
    choices=("", STANDARD_AUTHORIZER),
    because="the broker decides itself, by the rules of Kafka's StandardAuthorizer",
    needs_restart=True,
    set_by="spec.authorization",
    doc=f"With `{STANDARD_AUTHORIZER}` a broker checks every request against its ACLs "
    "(KIP-801). Empty: everybody may do everything.",
)
SUPER_USERS = ConfigKey(
    name="super.users",
    value_type=PRINCIPALS,
    default=(),
    needs_restart=True,
    set_by="spec.authorization.superUsers",
    doc="Principals that may do everything, whatever the ACLs say, separated by semicolons: "
    "`User:alice;User:bob`. Without an authorizer it has no effect.",
)
ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND = ConfigKey(
    name="allow.everyone.if.no.acl.found",
    value_type=BOOLEAN,
    default=False,
    needs_restart=True,
    doc="Whether everybody may use a resource that no ACL matches, be it for another user. "
    "Without an authorizer it has no effect.",
)
METRICS_PARTITIONS = ConfigKey(
    name="chiplog.metrics.partitions",
    value_type=BOOLEAN,
    default=False,
    set_by="spec.metrics.partitions",
    doc="Whether a broker exports metrics per partition, and not only per topic.",
)


def _topic_defaults() -> Iterator[ConfigKey[Any]]:
    """The broker keys that set the default of each topic key.

    If a topic key has several synonyms, the last one carries the default, as in Kafka: retention.ms
    is 7 days because log.retention.hours is 168 and the two finer keys are not set.
    """
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            is_last = synonym is topic_key.synonyms[-1]
            yield ConfigKey(
                name=synonym.name,
                value_type=topic_key.value_type if synonym.unit == 1 else INT,
                default=_in_unit(topic_key.default, synonym) if is_last else None,
                minimum=topic_key.minimum,
                maximum=topic_key.maximum,
                choices=topic_key.choices,
                because=topic_key.because,
                doc=f"Default of {topic_key.name} for topics that do not set it.",
            )


def _in_unit(default: object, synonym: Synonym) -> object:
    """The default of a topic key in the unit of a synonym, for example hours."""
    if isinstance(default, int) and synonym.unit > 1:
        return default // synonym.unit
    return default


BROKER_KEYS = KeyTable(
    "broker",
    (
        *_topic_defaults(),
        NUM_PARTITIONS,
        DEFAULT_REPLICATION_FACTOR,
        AUTO_CREATE_TOPICS_ENABLE,
        LOG_RETENTION_CHECK_INTERVAL_MS,
        LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
        LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
        DISK_RESERVE_BYTES,
        SCRUB_INTERVAL_MS,
        SCRUB_MAX_BYTES_PER_SECOND,
        LOG_CLEANER_ENABLE,
        LOG_CLEANER_BACKOFF_MS,
        LOG_CLEANER_DEDUPE_BUFFER_SIZE,
        LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
        REPLICA_LAG_TIME_MAX_MS,
        REPLICA_FETCH_MAX_BYTES,
        REPLICA_FETCH_WAIT_MAX_MS,
        REPLICA_FETCH_RESPONSE_MAX_BYTES,
        REPLICA_SELECTOR_CLASS,
        LEADER_THROTTLED_RATE,
        FOLLOWER_THROTTLED_RATE,
        ALTER_LOG_DIRS_RATE,
        MOVES_THROTTLED_RATE,
        OFFSETS_RETENTION_MINUTES,
        OFFSETS_RETENTION_CHECK_INTERVAL_MS,
        OFFSETS_TOPIC_NUM_PARTITIONS,
        OFFSETS_TOPIC_REPLICATION_FACTOR,
        OFFSETS_TOPIC_SEGMENT_BYTES,
        OFFSET_METADATA_MAX_BYTES,
        *TRANSACTION_KEYS,
        GROUP_INITIAL_REBALANCE_DELAY_MS,
        GROUP_MIN_SESSION_TIMEOUT_MS,
        GROUP_MAX_SESSION_TIMEOUT_MS,
        GROUP_MAX_SIZE,
        FETCH_MAX_BYTES,
        MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
        PRODUCER_ID_EXPIRATION_MS,
        SOCKET_REQUEST_MAX_BYTES,
        SOCKET_SEND_BUFFER_BYTES,
        SOCKET_RECEIVE_BUFFER_BYTES,
        MEMORY_BYTES,
        MAX_CONNECTIONS,
        MAX_CONNECTIONS_PER_IP,
        CONNECTIONS_MAX_IDLE_MS,
        NODE_ID,
        LISTENERS,
        ADVERTISED_LISTENERS,
        LISTENER_SECURITY_PROTOCOL_MAP,
        *LISTENER_KEYS.values(),
        LOG_DIRS,
        BROKER_RACK,
        AUTHORIZER_CLASS_NAME,
        SUPER_USERS,
        ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND,
        METRICS_PARTITIONS,
        MAX_TOPICS,
        MAX_PARTITIONS,
        CONTROLLER_MUTATION_RATE,
    ),
)


def broker_key(name: str) -> ConfigKey[Any] | None:
    """The key of a name in a broker's configuration, which may be that of a single listener. None
    if there is no such key."""
    of_listener = key_of_one_listener(name)
    return of_listener[1] if of_listener else BROKER_KEYS.get(name)


TOPIC_DEFAULTS = frozenset(
    synonym.name for topic_key in TOPIC_KEYS.values() for synonym in topic_key.synonyms
)
"""The broker keys whose values topics inherit."""

CLIENTS_BROKER_KEYS: Final = frozenset(
    {LEADER_THROTTLED_RATE.name, FOLLOWER_THROTTLED_RATE.name, ALTER_LOG_DIRS_RATE.name}
)
"""The keys that only Kafka's clients set, for one broker at a time."""
