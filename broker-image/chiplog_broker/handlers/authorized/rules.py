"""The rules: what each API needs. The operations are those that Apache Kafka 4.3 checks."""

from collections.abc import Mapping
from typing import Final

from chiplog_broker.handlers.authorized import (
    configs,
    groups,
    metadata,
    records,
    topics,
    transactions,
    whole,
)
from chiplog_broker.handlers.authorized.asking import Rule
from chiplog_broker.handlers.authorized.items import PerItem, group, topic_in
from chiplog_broker.handlers.authorized.whole import InCluster, OfMember
from chiplog_core.authorizer.acls import Operation
from chiplog_wire.protocol.apis import ApiKey

READ, DELETE = Operation.READ, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

RULES: Final[Mapping[ApiKey, Rule | None]] = {
    # Before and during a login, and what every client may ask.
    ApiKey.API_VERSIONS: None,
    ApiKey.SASL_HANDSHAKE: None,
    ApiKey.SASL_AUTHENTICATE: None,
    # READ for each topic, checked at each read (`Reading`).
    ApiKey.FETCH: None,
    # Records
    # WRITE for each topic, and for the transactional id
    ApiKey.PRODUCE: records.produce,
    ApiKey.LIST_OFFSETS: PerItem(
        items="topics",
        operation=DESCRIBE,
        needs=topic_in("name"),
        results="topics",
        refusal=records.list_offsets,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PerItem(
        items="topics",
        operation=DESCRIBE,
        needs=topic_in("topic"),
        results="topics",
        refusal=records.offset_for_leader_epoch,
        instead=Operation.CLUSTER_ACTION,
    ),
    ApiKey.DELETE_RECORDS: PerItem(
        items="topics",
        operation=DELETE,
        needs=topic_in("name"),
        results="topics",
        refusal=records.delete_records,
    ),
    ApiKey.DESCRIBE_PRODUCERS: PerItem(
        items="topics",
        operation=READ,
        needs=records.described_topic,
        results="topics",
        refusal=records.describe_producers,
    ),
    # WRITE for the transactional id, IDEMPOTENT_WRITE for the cluster, or WRITE for any topic.
    ApiKey.INIT_PRODUCER_ID: whole.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    ApiKey.END_TXN: transactions.end_txn,  # WRITE for the transactional id
    ApiKey.WRITE_TXN_MARKERS: transactions.write_txn_markers,  # CLUSTER_ACTION or ALTER
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,  # DESCRIBE
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,  # DESCRIBE
    # Topics
    ApiKey.METADATA: metadata.metadata,  # DESCRIBE; CREATE for a topic that is created
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,  # DESCRIBE
    ApiKey.CREATE_TOPICS: topics.create_topics,  # CREATE for the cluster or for the topic
    ApiKey.DELETE_TOPICS: topics.delete_topics,  # DELETE for the cluster or for the topic
    ApiKey.CREATE_PARTITIONS: PerItem(
        items="topics",
        operation=ALTER,
        needs=topic_in("name"),
        results="results",
        refusal=topics.create_partitions,
        is_named_once=True,
    ),
    # Configuration: of topics and groups by name, of brokers for the cluster
    ApiKey.DESCRIBE_CONFIGS: PerItem(
        items="resources",
        operation=DESCRIBE_CONFIGS,
        needs=configs.configured,
        results="results",
        refusal=configs.describe_configs,
    ),
    ApiKey.ALTER_CONFIGS: PerItem(
        items="resources",
        operation=ALTER_CONFIGS,
        needs=configs.configured,
        results="responses",
        refusal=configs.alter_configs,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: PerItem(
        items="resources",
        operation=ALTER_CONFIGS,
        needs=configs.configured,
        results="responses",
        refusal=configs.incremental_alter_configs,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: InCluster(DESCRIBE_CONFIGS, whole.list_config_resources),
    # Groups
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,  # DESCRIBE
    ApiKey.JOIN_GROUP: OfMember(whole.join),
    ApiKey.SYNC_GROUP: whole.sync_group,
    ApiKey.HEARTBEAT: OfMember(whole.heartbeat),
    ApiKey.LEAVE_GROUP: OfMember(whole.leave),
    ApiKey.OFFSET_COMMIT: groups.offset_commit,  # READ for the group and for each topic
    ApiKey.OFFSET_FETCH: groups.offset_fetch,  # DESCRIBE for the group and for each topic
    ApiKey.OFFSET_DELETE: groups.offset_delete,  # DELETE for the group, READ for each topic
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,  # DESCRIBE
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,  # DESCRIBE
    ApiKey.LIST_GROUPS: groups.list_groups,  # DESCRIBE for the cluster or for the group
    ApiKey.DELETE_GROUPS: PerItem(
        items="groups_names",
        operation=DELETE,
        needs=group,
        results="results",
        refusal=groups.not_deleted,
    ),
    # The cluster
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,  # DESCRIBE for the operations only
    ApiKey.DESCRIBE_LOG_DIRS: InCluster(DESCRIBE, whole.describe_log_dirs),
    ApiKey.ELECT_LEADERS: InCluster(ALTER, whole.elect_leaders),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: InCluster(ALTER, whole.alter_partition_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: InCluster(DESCRIBE, whole.list_partition_reassignments),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: InCluster(DESCRIBE_CONFIGS, whole.describe_client_quotas),
    ApiKey.ALTER_CLIENT_QUOTAS: InCluster(ALTER_CONFIGS, whole.alter_client_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: InCluster(
        DESCRIBE, whole.describe_user_scram_credentials
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: InCluster(ALTER, whole.alter_user_scram_credentials),
    ApiKey.DESCRIBE_ACLS: InCluster(DESCRIBE, whole.describe_acls),
    ApiKey.CREATE_ACLS: InCluster(ALTER, whole.create_acls),
    ApiKey.DELETE_ACLS: InCluster(ALTER, whole.delete_acls),
}
"""API -> what it needs; None if nothing is checked before its handler. A served API without an
entry is an error when the table of handlers is made."""
