"""Commits of consumer groups as values: OffsetCommit, TxnOffsetCommit and OffsetFetch.

One type is for all versions. Versions differ in more than fields: from 10 on topics have ids and no
names, and OffsetFetch requests one group up to version 7 and many from 8 on.
"""

from typing import Final, NamedTuple
from uuid import UUID

from chiplog_wire.protocol.errors import ErrorCode

NO_GENERATION: Final = -1
NO_LEADER_EPOCH: Final = -1
RETENTION_OF_BROKER: Final = -1
IDS_FROM_VERSION: Final = 10


class TopicRef(NamedTuple):
    """A topic by its name or, where `name` is None, by its id."""

    name: str | None
    topic_id: UUID | None = None


class CommitPartition(NamedTuple):
    """The offset to commit for one partition."""

    number: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitTopic(NamedTuple):
    """The offsets to commit for partitions of one topic."""

    topic: TopicRef
    partitions: tuple[CommitPartition, ...]


class OffsetCommitRequest(NamedTuple):
    """OffsetCommit 2-10. `retention_ms` is -1 from version 5 on, and for the broker's retention."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    retention_ms: int
    topics: tuple[CommitTopic, ...]


class TxnOffsetCommitRequest(NamedTuple):
    """TxnOffsetCommit 0-5: offsets to commit in a producer's transaction. Its answer is an
    `OffsetCommitResponse`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: OffsetCommitRequest
    """Before version 3 without member and generation."""


class CommittedTopic(NamedTuple):
    """The result of a commit for one topic: index and error code of each partition."""

    topic: TopicRef
    partitions: tuple[tuple[int, ErrorCode], ...]


class OffsetCommitResponse(NamedTuple):
    """OffsetCommit 2-10, TxnOffsetCommit 0-5."""

    topics: tuple[CommittedTopic, ...]
    throttle_time_ms: int = 0


class WantedTopic(NamedTuple):
    """The partitions of one topic whose committed offsets are requested."""

    topic: TopicRef
    partitions: tuple[int, ...]


class WantedGroup(NamedTuple):
    """A group whose committed offsets are requested; `topics` is None for all of them."""

    group_id: str
    topics: tuple[WantedTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = NO_GENERATION
    """The epoch of a member of the newer protocol (KIP-848); -1 for all others."""


class OffsetFetchRequest(NamedTuple):
    """OffsetFetch 1-10."""

    groups: tuple[WantedGroup, ...]
    require_stable: bool


class FoundPartition(NamedTuple):
    """The committed offset of one partition; -1 if there is none."""

    number: int
    offset: int
    leader_epoch: int
    metadata: str | None
    error_code: ErrorCode


class FoundTopic(NamedTuple):
    """The commits of one topic's partitions."""

    topic: TopicRef
    partitions: tuple[FoundPartition, ...]


class FoundGroup(NamedTuple):
    """The commits of one group, or why there are none."""

    group_id: str
    topics: tuple[FoundTopic, ...]
    error_code: ErrorCode


class OffsetFetchResponse(NamedTuple):
    """OffsetFetch 1-10, with the groups in the order of the request."""

    groups: tuple[FoundGroup, ...]
    throttle_time_ms: int = 0
