"""The requests of the matrix: every API that is served, some of them in several versions.

Each can be sent many times: it changes nothing that another answer depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from chiplog_core.topic_name import CONSUMER_OFFSETS
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.records.writer import (
    DEFAULT_OPTIONS,
    BatchOptions,
    NewRecord,
    Producer,
    build_batch,
)

TOPIC, GROUP = "orders", "readers"
BROKER = "1"
ABSENT, NEW, INVALID = "absent", "new", "not a topic"
TRANSACTION, OPEN, ENDED = "transaction", "open", "ended"
"""Transactional ids: one that clients initialise, one with a transaction that stays open, and one
whose transaction was committed."""
KNOWN: Final = frozenset({TOPIC, GROUP, ABSENT, INVALID, BROKER, NEW, TRANSACTION, OPEN, ENDED})
"""Names that are compared; other topics and groups belong to the brokers or to other clients."""
OWN_TOPIC, OWN_TOPIC_BY_ID = "own-by-name-", "own-by-id-"
"""Topics that one client deletes: the number of the client follows."""
COMMIT: Final = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
READ_COMMITTED: Final = 1
TIMEOUT_MS: Final = 10_000


class Sender(NamedTuple):
    """A producer with a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


STRANGER: Final = Sender(TRANSACTION, 1 << 40, 0)
"""A producer that no broker knows, so that its requests begin and end no transaction."""
IDEMPOTENT: Final = Sender("", 1 << 41, 0)
"""A producer without a transactional id."""
MARKED: Final = 1 << 42
"""The id of a producer that has nothing but markers."""


@dataclass(frozen=True, slots=True)
class Context:
    """What requests refer to."""

    topic_id: UUID
    own_topic: str
    """A topic that only this client deletes, by name."""
    own_topic_id: UUID
    """The id of another one, which it deletes by id."""
    opened: Sender
    """The producer of the transaction that stays open. It has a partition of the topic, and offsets
    of the group."""
    ended: Sender
    """The producer whose transaction was committed in the first generation of the protocol."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request."""

    name: str
    key: ApiKey
    version: int
    values: Mapping[str, Any]
    is_answered: bool = True


def case(key: ApiKey, what: str = "", version: int | None = None, /, **values: Any) -> Case:
    """A request in the newest version, or in the given one."""
    number = APIS[key].max_version if version is None else version
    name = " ".join(filter(None, (APIS[key].name, f"v{number}", what)))
    return Case(name, key, number, values)


def cases(context: Context) -> list[Case]:
    """All requests, in the order in which a client sends them."""
    return [
        *of_records(context),
        *of_transactions(context),
        *of_transactional_offsets(context),
        *of_known_transactions(),
        *of_topics(context),
        *of_configs(),
        *of_offsets(context),
        *of_groups(),
        *of_cluster(),
    ]


def produce(acks: int, options: BatchOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    batch = build_batch([NewRecord(b"key", b"value", timestamp_ms=0)], options)
    partition = {"index": 0, "records": bytes(batch)}
    # Without an answer, any error closes the connection.
    names = (TOPIC, ABSENT) if acks else (TOPIC,)
    topics = [{"name": name, "partition_data": [partition]} for name in names]
    return {"acks": acks, "timeout": TIMEOUT_MS, "topic_data": topics}


def of_records(context: Context) -> list[Case]:
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "timestamp": -1}
    fetch: dict[str, Any] = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1,
        "session_epoch": -1,
        "replica_id": -1,
    }
    by_name = [{"topic": name, "partitions": [place]} for name in (TOPIC, ABSENT)]
    by_id = [{"topic_id": context.topic_id, "partitions": [place]}]
    offsets = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        for name in (TOPIC, ABSENT)
    ]
    epochs = [
        {"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}
        for name in (TOPIC, ABSENT)
    ]
    deletions = [
        {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
        for name in (TOPIC, ABSENT)
    ]
    return [
        case(ApiKey.PRODUCE, **produce(-1)),
        case(ApiKey.PRODUCE, "old", 3, **produce(1)),
        Case("Produce v9 acks=0", ApiKey.PRODUCE, 9, produce(0), is_answered=False),
        case(ApiKey.FETCH, **fetch, topics=by_id),
        case(ApiKey.FETCH, "by name", 12, **fetch, topics=by_name),
        case(ApiKey.FETCH, "committed", **fetch, isolation_level=READ_COMMITTED, topics=by_id),
        case(ApiKey.FETCH, "as a follower", 12, **{**fetch, "replica_id": 7}, topics=by_name),
        case(ApiKey.LIST_OFFSETS, replica_id=-1, topics=offsets),
        case(
            ApiKey.LIST_OFFSETS,
            "committed",
            replica_id=-1,
            isolation_level=READ_COMMITTED,
            topics=offsets,
        ),
        case(ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=epochs),
        case(ApiKey.DELETE_RECORDS, topics=deletions, timeout=TIMEOUT_MS),
        case(
            ApiKey.DESCRIBE_PRODUCERS,
            topics=[{"name": name, "partition_indexes": [0]} for name in (TOPIC, ABSENT, INVALID)],
        ),
    ]


def of_transactions(context: Context) -> list[Case]:
    """The requests of producers, without those about offsets."""
    init = {"transactional_id": TRANSACTION, "transaction_timeout": 1000}
    batch = produce(-1, of_producer(context.opened, is_transactional=True))
    unknown = produce(-1, of_producer(STRANGER, is_transactional=True))
    idempotent = produce(-1, of_producer(IDEMPOTENT, is_transactional=False))
    by_id = {"transactional_id": OPEN}
    return [
        case(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=1000),
        case(ApiKey.INIT_PRODUCER_ID, "transactional", **init),
        case(ApiKey.INIT_PRODUCER_ID, "transactional, oldest", 0, **init),
        case(ApiKey.PRODUCE, "idempotent", **idempotent),
        # Clients of the first generation add partitions before, those of the second do not.
        case(ApiKey.PRODUCE, "transactional", **batch, **by_id),
        case(ApiKey.PRODUCE, "transactional, old", 11, **batch, **by_id),
        case(ApiKey.PRODUCE, "of a stranger", **unknown, transactional_id=TRANSACTION),
        case(ApiKey.PRODUCE, "of a stranger, old", 11, **unknown, transactional_id=TRANSACTION),
        case(ApiKey.ADD_PARTITIONS_TO_TXN, "", 3, **adding(context.opened, TOPIC)),
        case(ApiKey.ADD_PARTITIONS_TO_TXN, "oldest", 0, **adding(context.opened, TOPIC)),
        case(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "of topics that do not exist",
            3,
            **adding(context.opened, TOPIC, ABSENT, NEW),
        ),
        case(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "of an internal topic",
            3,
            **adding(context.opened, TOPIC, CONSUMER_OFFSETS),
        ),
        case(ApiKey.ADD_PARTITIONS_TO_TXN, "of a stranger", 3, **adding(STRANGER, TOPIC)),
        *(
            case(ApiKey.ADD_PARTITIONS_TO_TXN, what, version, transactions=transactions)
            for version in (4, 5)
            for what, transactions in {
                "of a broker": [by_broker(context.opened, TOPIC)],
                "of a broker, of both": [by_broker(context.opened, TOPIC, ABSENT)],
                "to verify": [by_broker(context.opened, TOPIC, verify_only=True)],
                "to verify both": [by_broker(context.opened, TOPIC, ABSENT, verify_only=True)],
                "to verify a stranger": [by_broker(STRANGER, TOPIC, verify_only=True)],
            }.items()
        ),
        case(ApiKey.END_TXN, **STRANGER._asdict(), committed=True),
        # One that is repeated is answered as the first time.
        case(ApiKey.END_TXN, "old", 4, **context.ended._asdict(), committed=True),
        case(ApiKey.END_TXN, "oldest", 0, **context.ended._asdict(), committed=True),
    ]


def of_producer(sender: Sender, *, is_transactional: bool) -> BatchOptions:
    """The options of a producer's first batch. A broker that has it appends it no second time."""
    producer = Producer(
        producer_id=sender.producer_id, epoch=sender.producer_epoch, base_sequence=0
    )
    return BatchOptions(producer=producer, transactional=is_transactional)


def adding(sender: Sender, *topics: str) -> dict[str, Any]:
    """The fields of an AddPartitionsToTxn of a client."""
    values = {**sender._asdict(), "topics": first_partitions(*topics)}
    return {f"v3_and_below_{name}": value for name, value in values.items()}


def by_broker(sender: Sender, *topics: str, verify_only: bool = False) -> dict[str, Any]:
    """One transaction in an AddPartitionsToTxn of a broker."""
    values = {**sender._asdict(), "topics": first_partitions(*topics)}
    return {**values, "verify_only": verify_only}


def first_partitions(*topics: str) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [0]} for name in topics]


def of_transactional_offsets(context: Context) -> list[Case]:
    opened = {**context.opened._asdict(), "group_id": GROUP, "generation_id": -1, "member_id": ""}
    unknown = {**opened, **STRANGER._asdict()}
    offsets = [{"name": name, "partitions": [COMMIT]} for name in (TOPIC, ABSENT)]
    return [
        case(ApiKey.ADD_OFFSETS_TO_TXN, **opened),
        case(ApiKey.ADD_OFFSETS_TO_TXN, "oldest", 0, **opened),
        case(ApiKey.ADD_OFFSETS_TO_TXN, "of a stranger", **unknown),
        case(ApiKey.TXN_OFFSET_COMMIT, **opened, topics=offsets),
        case(ApiKey.TXN_OFFSET_COMMIT, "old", 4, **opened, topics=offsets),
        case(ApiKey.TXN_OFFSET_COMMIT, "oldest", 0, **opened, topics=offsets),
        case(ApiKey.TXN_OFFSET_COMMIT, "of a stranger", **unknown, topics=offsets),
    ]


def of_known_transactions() -> list[Case]:
    """The requests of brokers and administrators."""
    marker = {
        "producer_id": MARKED,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": name, "partition_indexes": [0]} for name in (TOPIC, ABSENT)],
    }
    return [
        case(ApiKey.WRITE_TXN_MARKERS, markers=[marker]),
        case(ApiKey.WRITE_TXN_MARKERS, "oldest", 1, markers=[marker]),
        # kio does not read the answer for an id without a transaction, whose start is negative.
        case(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[OPEN, ABSENT]),
        case(ApiKey.LIST_TRANSACTIONS),
        case(ApiKey.LIST_TRANSACTIONS, "oldest", 0),
    ]


def of_topics(context: Context) -> list[Case]:
    both = [{"name": TOPIC}, {"name": ABSENT}]
    bits = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    creation = {"name": NEW, "num_partitions": 1, "replication_factor": 1}
    twice = [creation, {**creation, "name": "twice"}, {**creation, "name": "twice"}]
    return [
        case(ApiKey.METADATA, "all", topics=None),
        case(ApiKey.METADATA, "by name", topics=both, **bits),
        case(ApiKey.METADATA, "by id", topics=[{"name": None, "topic_id": context.topic_id}]),
        case(ApiKey.METADATA, "with operations", 9, topics=both, **bits),
        case(ApiKey.METADATA, "all, oldest", 0, topics=[]),
        case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "all", response_partition_limit=2000),
        case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=both, response_partition_limit=2000),
        case(ApiKey.CREATE_TOPICS, topics=[creation], timeout=TIMEOUT_MS, validate_only=True),
        case(ApiKey.CREATE_TOPICS, "twice", topics=twice, timeout=TIMEOUT_MS, validate_only=True),
        case(
            ApiKey.CREATE_PARTITIONS,
            topics=[{"name": name, "count": 5, "assignments": None} for name in (TOPIC, ABSENT)],
            timeout=TIMEOUT_MS,
            validate_only=True,
        ),
        case(
            ApiKey.DELETE_TOPICS,
            topics=[{"name": ABSENT}, {"name": context.own_topic}],
            timeout=TIMEOUT_MS,
        ),
        case(
            ApiKey.DELETE_TOPICS,
            "by id",
            topics=[{"name": None, "topic_id": context.own_topic_id}],
            timeout=TIMEOUT_MS,
        ),
        case(ApiKey.DELETE_TOPICS, "old", 3, topic_names=[ABSENT], timeout=TIMEOUT_MS),
    ]


def of_configs() -> list[Case]:
    kinds = [(2, TOPIC), (2, ABSENT), (4, BROKER), (32, GROUP)]
    described = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in kinds
    ]
    retention = {"name": "retention.ms", "value": "1000", "config_operation": 0}
    altered = [
        {"resource_type": 2, "resource_name": name, "configs": [retention]}
        for name in (TOPIC, ABSENT)
    ]
    return [
        *(
            case(ApiKey.DESCRIBE_CONFIGS, f"of {name}", resources=[one])
            for one, (_, name) in zip(described, kinds, strict=True)
        ),
        case(ApiKey.ALTER_CONFIGS, resources=altered, validate_only=True),
        case(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=altered, validate_only=True),
        case(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[4]),
    ]


def of_offsets(context: Context) -> list[Case]:
    of_names = [{"name": name, "partitions": [COMMIT]} for name in (TOPIC, ABSENT)]
    of_ids = [{"topic_id": context.topic_id, "partitions": [COMMIT]}]
    simple = {"generation_id_or_member_epoch": -1, "generation_id": -1, "group_id": GROUP}
    wanted = [{"name": name, "partition_indexes": [0]} for name in (TOPIC, ABSENT)]
    by_id = [{"topic_id": context.topic_id, "partition_indexes": [0]}]
    forgotten = [{"name": name, "partitions": [{"partition_index": 1}]} for name in (TOPIC, ABSENT)]
    return [
        case(ApiKey.OFFSET_COMMIT, "by name", 9, **simple, topics=of_names),
        case(ApiKey.OFFSET_COMMIT, "by id", 10, **simple, topics=of_ids),
        case(ApiKey.OFFSET_COMMIT, "old", 2, **simple, topics=of_names),
        case(ApiKey.OFFSET_FETCH, "old", 1, group_id=GROUP, topics=wanted),
        case(ApiKey.OFFSET_FETCH, "of one group", 7, group_id=GROUP, topics=wanted),
        case(
            ApiKey.OFFSET_FETCH,
            "by name",
            9,
            groups=[{"group_id": GROUP, "topics": wanted, "member_id": None, "member_epoch": -1}],
        ),
        case(
            ApiKey.OFFSET_FETCH,
            "stable",
            9,
            groups=[{"group_id": GROUP, "topics": wanted, "member_id": None, "member_epoch": -1}],
            require_stable=True,
        ),
        case(
            ApiKey.OFFSET_FETCH,
            "by id",
            10,
            groups=[{"group_id": GROUP, "topics": by_id, "member_id": None, "member_epoch": -1}],
        ),
        case(
            ApiKey.OFFSET_FETCH,
            "of all topics",
            9,
            groups=[{"group_id": GROUP, "topics": None, "member_id": None, "member_epoch": -1}],
        ),
        case(ApiKey.OFFSET_DELETE, group_id=GROUP, topics=forgotten),
    ]


def of_groups() -> list[Case]:
    member = {"group_id": GROUP, "member_id": "nobody", "generation_id": 1}
    protocols = {"protocol_type": "consumer", "protocol_name": "range"}
    joining = {
        "group_id": "joiners",
        "member_id": "",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return [
        case(ApiKey.FIND_COORDINATOR, "of a group", key_type=0, coordinator_keys=[GROUP, ABSENT]),
        case(ApiKey.FIND_COORDINATOR, "of one group", 3, key_type=0, key=GROUP),
        case(
            ApiKey.FIND_COORDINATOR,
            "of a transaction",
            key_type=1,
            coordinator_keys=[TRANSACTION],
        ),
        case(ApiKey.FIND_COORDINATOR, "of one transaction", 3, key_type=1, key=TRANSACTION),
        case(ApiKey.JOIN_GROUP, **joining),
        case(ApiKey.SYNC_GROUP, **member, **protocols),
        case(ApiKey.HEARTBEAT, **member),
        case(ApiKey.LEAVE_GROUP, group_id=GROUP, members=[{"member_id": "nobody"}]),
        case(
            ApiKey.DESCRIBE_GROUPS,
            groups=[GROUP, ABSENT],
            include_authorized_operations=True,
        ),
        case(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            group_ids=[GROUP, ABSENT],
            include_authorized_operations=True,
        ),
        case(ApiKey.LIST_GROUPS),
        case(ApiKey.DELETE_GROUPS, groups_names=[ABSENT]),
    ]


def quotas() -> dict[str, Any]:
    """Changes of quotas, most of them invalid."""
    user = ("user", "harmless")

    def entry(*entity: tuple[str, str | None], **values: float) -> dict[str, Any]:
        return {
            "entity": [{"entity_type": type_, "entity_name": name} for type_, name in entity],
            "ops": [{"key": key, "value": value} for key, value in values.items()],
        }

    return {
        "entries": [
            entry(user, producer_byte_rate=1e9, request_percentage=1e6),
            entry(("user", None), ("client-id", "harmless"), consumer_byte_rate=1e9),
            entry(("user", "zero"), producer_byte_rate=0.0),
            entry(("user", "fraction"), consumer_byte_rate=1.5),
            entry(("user", "other"), connection_creation_rate=1.0),
            entry(("user", ""), producer_byte_rate=1.0),
            entry(("group", "readers"), producer_byte_rate=1.0),
            entry(producer_byte_rate=1.0),
        ]
    }


def of_cluster() -> list[Case]:
    some = [{"topic": TOPIC, "partitions": [0]}]
    moved = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}]
    named = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
        "principal_filter": "User:nobody",
    }
    created = {
        "resource_type": 2,
        "resource_name": "harmless",
        "resource_pattern_type": 3,
        "principal": "User:harmless",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return [
        case(ApiKey.API_VERSIONS, client_software_name="a", client_software_version="1"),
        case(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1, include_cluster_authorized_operations=True),
        case(ApiKey.DESCRIBE_LOG_DIRS, topics=some),
        case(ApiKey.ELECT_LEADERS, election_type=0, topic_partitions=some, timeout=TIMEOUT_MS),
        case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=moved, timeout=TIMEOUT_MS),
        case(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=TIMEOUT_MS),
        case(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=[], strict=False),
        case(ApiKey.ALTER_CLIENT_QUOTAS, **quotas(), validate_only=True),
        case(ApiKey.ALTER_CLIENT_QUOTAS, "oldest", 0, **quotas(), validate_only=True),
        case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[]),
        case(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            deletions=[{"name": "nobody", "mechanism": 2}],
            upsertions=[
                {
                    "name": name,
                    "mechanism": mechanism,
                    "iterations": iterations,
                    "salt": b"salt",
                    "salted_password": b"secret",
                }
                for name, mechanism, iterations in (
                    ("few", 1, 4095),
                    ("many", 2, 16385),
                    ("odd", 3, 4096),
                    ("twice", 1, 4096),
                    ("twice", 2, 4096),
                )
            ],
        ),
        case(ApiKey.DESCRIBE_ACLS, **named),
        case(ApiKey.CREATE_ACLS, creations=[created, {**created, "resource_type": 5}]),
        case(
            ApiKey.CREATE_ACLS,
            "of an invalid ACL",
            creations=[{**created, "resource_name": ""}, {**created, "resource_type": 4}],
        ),
        case(ApiKey.DELETE_ACLS, filters=[named]),
    ]
