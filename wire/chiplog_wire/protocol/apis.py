"""Every API that this broker serves, in one table.

Each listed API is advertised, and works in every version of its range: clients also choose versions
in the middle. A new API starts with a new line here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

KAFKA_VERSION = "4.3-IV0"
METADATA_VERSION = 30
"""The release of Apache Kafka whose protocol this broker speaks, and its number as the level of the
feature `metadata.version`. UIs choose features by it; there is no metadata log like Kafka's."""


class ApiKey(IntEnum):
    """Kafka's numbers of the APIs that this broker serves."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its versions, and the format of their headers."""

    key: ApiKey
    min_version: int
    max_version: int
    # The first version with compact lengths and tagged fields (KIP-482).
    flexible_from: int
    # A request of a lower version is refused, although ApiVersions offers versions from
    # `min_version`.
    min_served: int

    @property
    def name(self) -> str:
        """Kafka's name, such as `OffsetForLeaderEpoch`."""
        return self.key.name.title().replace("_", "")

    def serves(self, version: int) -> bool:
        """Whether a request of this version gets an answer."""
        return self.min_served <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """2 for flexible versions, whose header has tagged fields, else 1."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """1 for flexible versions, whose header has tagged fields, else 0.

        ApiVersions has header 0 in every version (KIP-511): a client must be able to read the
        answer of a broker that does not know the requested version.
        """
        if self.key is ApiKey.API_VERSIONS:
            return 0
        return 1 if self.is_flexible(version) else 0


def _api(key: ApiKey, versions: tuple[int, int], *, flexible: int, served: int = 0) -> Api:
    """An entry of the table: lowest and highest version, the first flexible version, and the first
    one that is not refused if that is not the lowest."""
    return Api(key, versions[0], versions[1], flexible, max(versions[0], served))


_TABLE = (
    # librdkafka believes that Produce is missing unless 0 is offered (KAFKA-18659), although
    # KIP-896 removed the message formats of 0-2. 13 has topic ids.
    _api(ApiKey.PRODUCE, (0, 12), flexible=9, served=3),
    # 17 and 18 only add fields for followers of Kafka's metadata log.
    _api(ApiKey.FETCH, (4, 18), flexible=12),
    # 9 and 11 ask for offsets of tiered storage, of which there is none; 10 adds a time limit.
    _api(ApiKey.LIST_OFFSETS, (1, 11), flexible=6),
    _api(ApiKey.METADATA, (0, 13), flexible=9),
    _api(ApiKey.OFFSET_COMMIT, (2, 10), flexible=8),
    _api(ApiKey.OFFSET_FETCH, (1, 10), flexible=6),
    # 6 is for share groups, which are refused.
    _api(ApiKey.FIND_COORDINATOR, (0, 6), flexible=3),
    _api(ApiKey.JOIN_GROUP, (0, 9), flexible=6),
    _api(ApiKey.HEARTBEAT, (0, 4), flexible=4),
    _api(ApiKey.LEAVE_GROUP, (0, 5), flexible=4),
    _api(ApiKey.SYNC_GROUP, (0, 5), flexible=4),
    _api(ApiKey.DESCRIBE_GROUPS, (0, 6), flexible=5),
    _api(ApiKey.LIST_GROUPS, (0, 5), flexible=3),
    # Flexible in no version.
    _api(ApiKey.SASL_HANDSHAKE, (0, 1), flexible=2),
    _api(ApiKey.API_VERSIONS, (0, 4), flexible=3),
    _api(ApiKey.CREATE_TOPICS, (2, 7), flexible=5),
    _api(ApiKey.DELETE_TOPICS, (1, 6), flexible=4),
    _api(ApiKey.DELETE_RECORDS, (0, 2), flexible=2),
    _api(ApiKey.INIT_PRODUCER_ID, (0, 5), flexible=2),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), flexible=4),
    # 4 and 5 are for brokers: many transactions, and verification (KIP-890).
    _api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5), flexible=3),
    _api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), flexible=3),
    _api(ApiKey.END_TXN, (0, 5), flexible=3),
    _api(ApiKey.WRITE_TXN_MARKERS, (1, 2), flexible=1),
    _api(ApiKey.TXN_OFFSET_COMMIT, (0, 5), flexible=3),
    _api(ApiKey.DESCRIBE_ACLS, (1, 3), flexible=2),
    _api(ApiKey.CREATE_ACLS, (1, 3), flexible=2),
    _api(ApiKey.DELETE_ACLS, (1, 3), flexible=2),
    _api(ApiKey.DESCRIBE_CONFIGS, (1, 4), flexible=4),
    _api(ApiKey.ALTER_CONFIGS, (0, 2), flexible=2),
    _api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), flexible=2),
    _api(ApiKey.SASL_AUTHENTICATE, (0, 2), flexible=2),
    _api(ApiKey.CREATE_PARTITIONS, (0, 3), flexible=2),
    _api(ApiKey.DELETE_GROUPS, (0, 2), flexible=2),
    _api(ApiKey.ELECT_LEADERS, (0, 2), flexible=2),
    _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), flexible=1),
    _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), flexible=0),
    _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), flexible=0),
    # Flexible in no version.
    _api(ApiKey.OFFSET_DELETE, (0, 0), flexible=1),
    _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), flexible=1),
    _api(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), flexible=1),
    _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), flexible=0),
    _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), flexible=0),
    # 55, DescribeQuorum, is missing on purpose: there is no quorum, so an answer would name voters
    # that do not exist. Without it, Java's Admin reports UNSUPPORTED_VERSION, which UIs expect.
    _api(ApiKey.DESCRIBE_CLUSTER, (0, 2), flexible=0),
    _api(ApiKey.DESCRIBE_PRODUCERS, (0, 0), flexible=0),
    _api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), flexible=0),
    _api(ApiKey.LIST_TRANSACTIONS, (0, 2), flexible=0),
    _api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), flexible=0),
    _api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), flexible=0),
    _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), flexible=0),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _TABLE})
