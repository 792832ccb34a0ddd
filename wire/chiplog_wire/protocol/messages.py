"""The messages of the hot path as values: Produce, Fetch, Metadata, ApiVersions.

One type is for all versions of a message; a field that a version lacks has Kafka's default. They
are tuples because thousands are created per second, and a tuple takes a third of the time of a
frozen dataclass. All other messages are kio's dataclasses (see `codec.generic`).

Records are not decoded here: they are bytes, or in a response a `RecordSource`, of which only the
size is known. A topic id of None is Kafka's all-zero id.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

AUTHORIZED_OPERATIONS_UNKNOWN: Final = -(2**31)


class RecordSource(Protocol):
    """Record data that is not in memory yet, such as a slice of a segment file.

    Its size must not change: it is sent before the data.
    """

    @property
    def size_bytes(self) -> int:
        """The number of bytes that will be sent for it."""


Records: TypeAlias = bytes | bytearray | memoryview | RecordSource

Chunk: TypeAlias = Records
"""A piece of a response, to be sent in order."""


class NodeEndpoint(NamedTuple):
    """The address of a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class LeaderIdAndEpoch(NamedTuple):
    """The leader of a partition, for a client that asked the wrong broker (KIP-951)."""

    leader_id: int
    leader_epoch: int


# Produce


class ProducePartition(NamedTuple):
    """Batches for one partition; a writable view into the frame."""

    partition: int
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """Batches for the partitions of one topic."""

    name: str
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    """Produce 3-11. `acks` is as sent: -1, 0 and 1 are the valid ones."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class RecordError(NamedTuple):
    """Why one record made its batch fail (KIP-467)."""

    batch_index: int
    message: str | None = None


class ProducePartitionResponse(NamedTuple):
    """The result for one partition of a Produce."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


class ProduceTopicResponse(NamedTuple):
    """The results for one topic of a Produce."""

    name: str
    partitions: Sequence[ProducePartitionResponse]


class ProduceResponse(NamedTuple):
    """The answer to Produce 3-11; with acks=0 none is sent."""

    topics: Sequence[ProduceTopicResponse]
    throttle_time_ms: int = 0
    # Where the leaders named in `current_leader` listen; version 10 and later.
    node_endpoints: Sequence[NodeEndpoint] = ()


# Fetch


class FetchPartition(NamedTuple):
    """One partition of a Fetch, and the offset to read from."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """Partitions of a topic given by name (up to version 12) or by id (from 13)."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave a fetch session (KIP-227)."""

    name: str | None
    topic_id: UUID | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """Fetch 4-16. A consumer's replica id is -1."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


class AbortedTransaction(NamedTuple):
    """A transaction whose records a read_committed consumer skips."""

    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    """The end of the largest common epoch, to which a follower truncates (KIP-595)."""

    epoch: int
    end_offset: int


class FetchPartitionResponse(NamedTuple):
    """Records of one partition, or the error in their place."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    # Empty if there are none: Kafka never answers null.
    records: Records = b""
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    # Ours, between brokers: the records were compacted, so offsets may be missing among them.
    may_have_gaps: bool = False


class FetchTopicResponse(NamedTuple):
    """Records of one topic, named the way the request named it."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchPartitionResponse]


class FetchResponse(NamedTuple):
    """The answer to Fetch 4-16. Session id 0 declines a fetch session."""

    topics: Sequence[FetchTopicResponse]
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    # Where the leaders named in `current_leader` listen; version 16 and later.
    node_endpoints: Sequence[NodeEndpoint] = ()


# Metadata


class MetadataRequestTopic(NamedTuple):
    """A requested topic: by name, or from version 10 by id with a null name."""

    topic_id: UUID | None
    name: str | None


class MetadataRequest(NamedTuple):
    """Metadata 0-13. `topics` is None for all topics, in every version."""

    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataPartition(NamedTuple):
    """The leader and the replicas of one partition."""

    error_code: int
    partition: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int] = ()


class MetadataTopic:
    """One topic of a Metadata answer. It caches its encodings, so the same object should be used in
    many answers, and must not be changed.

    `name` is None only for an unknown topic id.
    """

    __slots__ = (
        "authorized_operations",
        "encoded",
        "error_code",
        "is_internal",
        "name",
        "partitions",
        "topic_id",
    )

    def __init__(
        self,
        error_code: int,
        name: str | None,
        topic_id: UUID | None,
        partitions: Sequence[MetadataPartition] = (),
        *,
        is_internal: bool = False,
        authorized_operations: int = AUTHORIZED_OPERATIONS_UNKNOWN,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.is_internal = is_internal
        self.authorized_operations = authorized_operations
        # Filled by `codec.metadata`: the bytes of this topic by version.
        self.encoded: dict[int, bytes] = {}


class MetadataResponse(NamedTuple):
    """The answer to Metadata 0-13."""

    brokers: Sequence[NodeEndpoint]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[MetadataTopic]
    throttle_time_ms: int = 0
    cluster_authorized_operations: int = AUTHORIZED_OPERATIONS_UNKNOWN
    # Version 13 and later.
    error_code: int = 0


# ApiVersions


class ApiVersionsRequest(NamedTuple):
    """ApiVersions 0-4; the client's name and version come with 3 (KIP-511)."""

    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersionsResponse(NamedTuple):
    """The answer to ApiVersions; its list of APIs is constant (`protocol.apis`)."""

    error_code: int = 0
    throttle_time_ms: int = 0
