"""The handler of each API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.handlers import refused
from chiplog_broker.handlers.acls import AclHandlers
from chiplog_broker.handlers.active_producers import ActiveProducers
from chiplog_broker.handlers.authorized.asking import Guards
from chiplog_broker.handlers.authorized.guard import guarded_table
from chiplog_broker.handlers.client_quotas import ClientQuotaHandlers
from chiplog_broker.handlers.configs import ConfigHandlers
from chiplog_broker.handlers.coordinators import CoordinatorFinder
from chiplog_broker.handlers.elections import ElectionHandler
from chiplog_broker.handlers.fetch import FetchHandler
from chiplog_broker.handlers.group_admin import GroupAdminHandlers
from chiplog_broker.handlers.group_offsets import GroupOffsetHandlers
from chiplog_broker.handlers.groups import GroupHandlers
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.log_dirs import LogDirHandlers
from chiplog_broker.handlers.markers import MarkerHandler
from chiplog_broker.handlers.metadata import MetadataHandlers
from chiplog_broker.handlers.offset_deletion import OffsetDeletion
from chiplog_broker.handlers.offsets import OffsetHandlers
from chiplog_broker.handlers.pacing import Pacing
from chiplog_broker.handlers.produce import ProduceHandler
from chiplog_broker.handlers.producers import ProducerHandler
from chiplog_broker.handlers.reassignments import ReassignmentHandlers
from chiplog_broker.handlers.sasl import SaslHandlers
from chiplog_broker.handlers.scram import ScramHandlers
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.handlers.topics import TopicHandlers
from chiplog_broker.handlers.transaction_admin import TransactionAdminHandlers
from chiplog_broker.handlers.transactions import TransactionHandlers
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.peers.spreading import Spreading
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.security.authorization import AclStore, Authorization
from chiplog_broker.security.quota_store import QuotaStore
from chiplog_broker.security.scram_store import ScramStore
from chiplog_broker.server.call import Call, Handler
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.settings import setting
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_broker.transaction_coordinator.verifying import TransactionVerifier
from chiplog_core.config.broker_keys import AUTO_CREATE_TOPICS_ENABLE
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

# Form of a client's software name and of its software version (KIP-511).
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NAMED_FROM_VERSION = 3
"""First version of ApiVersions in which a client states its software name and version."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The services that handlers use."""

    cluster: ClusterView
    replicas: Replicas
    store: MetadataStore
    clock: Clock
    disk: Disk
    config: Mapping[str, str]
    data_path: str
    metrics: RequestMetrics
    fetch_sessions: FetchSessionCache
    coordinator: Coordinator
    transactions: TransactionCoordinator
    marker_writer: MarkerWriter
    verifier: TransactionVerifier
    spreading: Spreading | None
    pacing: Pacing
    throttle: ReplicationThrottle
    audit: AuditLog
    users: ScramStore
    quotas: QuotaStore
    acls: AclStore | None = None
    """The ACLs that requests are checked against; None if everybody may do everything."""


def handler_table(parts: Parts) -> dict[ApiKey, Handler]:
    """Make the handlers of all advertised APIs, by API key; with an authorizer each behind the
    check of what it needs."""
    long_work = LongWork(parts.clock)
    if parts.acls is None:
        return unguarded_table(parts, long_work, None)
    guards = Guards(
        Authorization(parts.acls),
        parts.audit,
        parts.cluster,
        setting(parts.config, AUTO_CREATE_TOPICS_ENABLE),
    )
    acls = AclHandlers(parts.acls, long_work)
    table = unguarded_table(parts, long_work, guards) | {
        ApiKey.DESCRIBE_ACLS: acls.describe_acls,
        ApiKey.CREATE_ACLS: acls.create_acls,
        ApiKey.DELETE_ACLS: acls.delete_acls,
    }
    return guarded_table(table, guards, long_work)


def unguarded_table(
    parts: Parts, long_work: LongWork, guards: Guards | None
) -> dict[ApiKey, Handler]:
    """The handlers themselves. `guards` is for Fetch, which checks where it reads."""
    pacing = parts.pacing
    metadata = MetadataHandlers(parts.cluster, parts.store, parts.config, long_work, pacing)
    leaders = Leaders(parts.cluster, parts.replicas)
    offsets = OffsetHandlers(leaders, parts.clock, long_work)
    topics = TopicHandlers(parts.cluster, parts.store, parts.spreading, parts.config, pacing)
    configs = ConfigHandlers(parts.cluster, parts.store, parts.config, long_work)
    fetch = FetchHandler(
        parts.cluster,
        leaders,
        parts.metrics,
        long_work,
        parts.fetch_sessions,
        parts.config,
        parts.throttle,
        guards,
    )
    reassignments = ReassignmentHandlers(parts.cluster, parts.store)
    sasl = SaslHandlers(parts.clock)
    scram = ScramHandlers(parts.users, long_work)
    client_quotas = ClientQuotaHandlers(parts.quotas, long_work)
    finder = CoordinatorFinder(parts.cluster, parts.coordinator, parts.transactions, long_work)
    transactions = TransactionHandlers(
        parts.cluster, parts.transactions, parts.coordinator, long_work
    )
    transaction_admin = TransactionAdminHandlers(parts.transactions, parts.clock, long_work)
    markers = MarkerHandler(leaders, parts.marker_writer, long_work)
    groups = GroupHandlers(parts.coordinator)
    group_admin = GroupAdminHandlers(parts.coordinator, long_work)
    group_offsets = GroupOffsetHandlers(
        parts.coordinator, parts.cluster, parts.config, long_work, parts.verifier
    )
    log_dirs = LogDirHandlers(parts.replicas, parts.disk, parts.data_path, long_work)
    return {
        ApiKey.PRODUCE: ProduceHandler(leaders, parts.clock, long_work, parts.verifier),
        ApiKey.FETCH: fetch,
        ApiKey.LIST_OFFSETS: offsets.list_offsets,
        ApiKey.METADATA: metadata.metadata,
        ApiKey.OFFSET_COMMIT: group_offsets.offset_commit,
        ApiKey.OFFSET_FETCH: group_offsets.offset_fetch,
        ApiKey.FIND_COORDINATOR: finder.find_coordinator,
        ApiKey.JOIN_GROUP: groups.join_group,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.LEAVE_GROUP: groups.leave_group,
        ApiKey.SYNC_GROUP: groups.sync_group,
        ApiKey.DESCRIBE_GROUPS: group_admin.describe_groups,
        ApiKey.LIST_GROUPS: group_admin.list_groups,
        ApiKey.SASL_HANDSHAKE: sasl.handshake,
        ApiKey.API_VERSIONS: api_versions,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.DELETE_RECORDS: offsets.delete_records,
        ApiKey.INIT_PRODUCER_ID: ProducerHandler(parts.transactions).init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
        ApiKey.END_TXN: transactions.end_txn,
        ApiKey.WRITE_TXN_MARKERS: markers.write_txn_markers,
        ApiKey.TXN_OFFSET_COMMIT: group_offsets.txn_offset_commit,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
        ApiKey.DESCRIBE_ACLS: refused.describe_acls,
        ApiKey.CREATE_ACLS: refused.create_acls,
        ApiKey.DELETE_ACLS: refused.delete_acls,
        ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
        ApiKey.ALTER_CONFIGS: configs.alter_configs,
        ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
        ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_GROUPS: group_admin.delete_groups,
        ApiKey.ELECT_LEADERS: ElectionHandler(parts.cluster, parts.store).elect_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
        ApiKey.OFFSET_DELETE: OffsetDeletion(parts.coordinator, parts.cluster).offset_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram.describe_user_scram_credentials,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram.alter_user_scram_credentials,
        ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: ActiveProducers(leaders, parts.clock).describe_producers,
        ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: transaction_admin.list_transactions,
        ApiKey.CONSUMER_GROUP_DESCRIBE: group_admin.consumer_group_describe,
        ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
    }


def api_versions(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    """Keep the client's software name for the log and metrics of its connection.

    The encoder adds the list of versions to the answer.
    """
    name_and_version = call.message.client_software_name, call.message.client_software_version
    if call.header.version >= NAMED_FROM_VERSION and not all(
        map(SOFTWARE.fullmatch, name_and_version)
    ):
        return ApiVersionsResponse(ErrorCode.invalid_request)
    call.peer.software = " ".join(name_and_version).strip()
    return ApiVersionsResponse()
