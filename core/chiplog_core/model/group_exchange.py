"""The operator's requests to brokers about consumer groups, and their answers: JSON over signed
HTTP.

The operator asks a group's coordinator about the group: the broker that leads its partition of
`__consumer_offsets`. It asks the leader of a partition for the partition's end offset. A
coordinator that cannot answer, or not yet, says so for each group; nothing is guessed.

A number that is not known is absent, never 0: without an `endOffset` the operator knows no lag.

**Lag.** The coordinator reads a group's committed offsets first, then the end offsets of partitions
that it leads. The operator asks the leaders of other partitions after it has that answer. High
watermarks only grow, so an end offset is never below an offset that was committed before.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from chiplog_core.ids import MAX_INT32, MAX_INT64, BrokerId, LeaderEpoch, Offset, PartitionIndex
from chiplog_core.limits import (
    MAX_EXCHANGED_GROUPS,
    MAX_EXCHANGED_ITEMS,
    MAX_EXCHANGED_OFFSETS,
    MAX_GROUP_STATUS_MEMBERS,
    MAX_MESSAGE_LENGTH,
    MAX_PARTITIONS_PER_TOPIC,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.consumer_group import Reset, ResetId
from chiplog_core.model.group_status import (
    NO_COMMIT,
    GroupState,
    Member,
    ResetOffset,
    ResetState,
)
from chiplog_core.model.references import GroupId, TopicName
from chiplog_core.problems import InvalidManifest, Problem

T = TypeVar("T")

FACTS_PATH = "/groups/facts"
POSITIONS_PATH = "/logs/positions"
RETENTION_PATH = "/groups/retention"
RESET_PATH = "/groups/reset"

MAX_REQUEST_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The largest answer of a broker; the operator reads no more than this."""

KEPT_FOR_EVER = -1
"""An offset retention that never ends."""

TimeMs = Annotated[int, Range(-1, MAX_INT64)]
"""Milliseconds since 1970; -1 is a record without a timestamp."""

RetentionMs = Annotated[int, Range(KEPT_FOR_EVER, MAX_INT64)]
"""Milliseconds, or -1 for ever."""


class GroupRefusal(StrEnum):
    """Why a broker does not answer for a group."""

    NOT_COORDINATOR = "NotCoordinator"
    """The broker does not lead the group's partition in the epoch of the request, or may not act as
    its leader now. The sender must read the PartitionMap again."""

    LOADING = "Loading"
    """The broker is still loading the group; the sender should ask again."""

    UNAVAILABLE = "Unavailable"
    """The broker could not read the stored group, or its records were not replicated in time."""


class LogRefusal(StrEnum):
    """Why a broker does not answer for a partition."""

    NOT_LEADER = "NotLeader"
    """The broker does not lead the partition, or may not act as its leader now. The sender must
    read the PartitionMap again."""

    UNSETTLED = "Unsettled"
    """The broker has only just become the leader and does not know the high watermark yet."""

    FAILED = "Failed"
    """The partition's log could not be read."""


# -- facts of groups


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPartition:
    """A partition of `__consumer_offsets`, and the leader epoch in which a broker leads it."""

    partition: Annotated[PartitionIndex, "Number of the partition of __consumer_offsets."]
    leader_epoch: Annotated[LeaderEpoch, "Leader epoch of the partition of __consumer_offsets."]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsRequest:
    """A request for facts about groups, or about all groups of partitions of
    `__consumer_offsets`."""

    partitions: Annotated[
        tuple[OffsetsPartition, ...],
        "Partitions that the sender believes this broker leads. If it leads a partition in another "
        "epoch, or a group's partition is not among these, it answers NotCoordinator.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]
    groups: Annotated[
        tuple[GroupId, ...],
        "The groups to include; default: all groups of these partitions.",
        Items(MAX_EXCHANGED_GROUPS, unique=True),
    ] = ()
    after: Annotated[
        GroupId | None, "Include only groups whose ids come after this one, by code points."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """A group's committed offset in a partition, and the partition's end offset."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    committed_offset: Annotated[
        int,
        "The next offset the group will read; -1 if it has none for this topic.",
        Range(NO_COMMIT, MAX_INT64),
    ]
    commit_time_ms: Annotated[
        TimeMs | None, "When the offset was committed; absent if none was."
    ] = None
    end_offset: Annotated[
        Offset | None,
        "The high watermark, read after the committed offset; absent if another broker leads.",
    ] = None
    log_start_offset: Annotated[
        Offset | None, "First offset of the log; absent if endOffset is."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """A group's offsets in a topic: of partitions with a committed offset or with a member."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionOffset, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What a coordinator knows of a group. If it has a `refusal`, there are no other facts."""

    group_id: Annotated[GroupId, "The group.id."]
    refusal: Annotated[GroupRefusal | None, "Why there is no answer."] = None
    coordinator: Annotated[BrokerId | None, "Id of the broker that answers."] = None
    leader_epoch: Annotated[
        LeaderEpoch | None, "Leader epoch of the group's partition of __consumer_offsets."
    ] = None
    state: Annotated[GroupState, "State of the group; Dead if it does not exist."] = (
        GroupState.UNKNOWN
    )
    protocol_type: Annotated[
        str,
        "What the members are: consumer, connect, or nothing for offsets without members.",
        Length(32_767),
    ] = ""
    protocol: Annotated[
        str, "How partitions are assigned, like range; only of a Stable group.", Length(32_767)
    ] = ""
    generation: Annotated[
        int, "Number of the last assignment; -1 before the first.", Range(-1, MAX_INT32)
    ] = -1
    member_count: Annotated[int, "Number of members.", Range(0, MAX_INT32)] = 0
    members: Annotated[
        tuple[Member, ...],
        "Members of the group, ordered by id. Members and topics beyond what the status of a "
        "ConsumerGroup shows are left out, and so is an assignment that cannot be parsed.",
        Items(MAX_GROUP_STATUS_MEMBERS),
    ] = ()
    topics: Annotated[
        tuple[TopicOffsets, ...], "The group's offsets.", Items(MAX_EXCHANGED_ITEMS)
    ] = ()
    is_whole: Annotated[bool, "False if topics is incomplete because the group is too large."] = (
        True
    )
    offset_retention_ms: Annotated[
        RetentionMs | None, "The retention that is stored for this group, if it has its own."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer:
    """Whether the answer has the groups of a requested partition of `__consumer_offsets`."""

    partition: Annotated[PartitionIndex, "Number of the partition of __consumer_offsets."]
    refusal: Annotated[
        GroupRefusal | None,
        "Why its groups are missing in the answer; absent if they are all included.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAnswer:
    """The facts of groups, sorted by their ids.

    A group whose id is empty, or too long for a ConsumerGroup, is left out.
    """

    groups: Annotated[tuple[GroupFacts, ...], "The groups.", Items(MAX_EXCHANGED_ITEMS)] = ()
    partitions: Annotated[
        tuple[PartitionAnswer, ...],
        "Each requested partition. A group that is missing in the answer does not exist only if "
        "its partition was answered.",
        Items(MAX_PARTITIONS_PER_TOPIC),
    ] = ()
    next_after: Annotated[
        GroupId | None, "If set, there are more groups: ask again, after this one."
    ] = None
    time_ms: Annotated[TimeMs, "The broker's clock when it started to answer."]


# -- positions in logs


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """A partition, and offsets whose timestamps are requested."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    offsets: Annotated[
        tuple[Offset, ...],
        "For each of these offsets the timestamp of the first record at or after it is requested.",
        Items(MAX_EXCHANGED_OFFSETS, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """Requested partitions of a topic."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionRequest, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsRequest:
    """A request for first and last offsets of partitions, and for timestamps of records."""

    topics: Annotated[
        tuple[TopicRequest, ...], "The topics.", Items(MAX_EXCHANGED_ITEMS, key=("topic",))
    ]
    since_ms: Annotated[
        int | None,
        "If set, the offset of the first record with this timestamp or a later one is requested.",
        Range(0, MAX_INT64),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTime:
    """The timestamp of the first record at or after an offset."""

    offset: Annotated[Offset, "The offset that was asked about."]
    timestamp_ms: Annotated[
        TimeMs, "Timestamp of the record at this offset; -1 if the record has none."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """The offsets of a partition at one instant. With a `refusal`, it has nothing else."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    refusal: Annotated[LogRefusal | None, "Why there is no answer."] = None
    end_offset: Annotated[Offset | None, "The high watermark."] = None
    log_start_offset: Annotated[Offset | None, "First offset of the log."] = None
    last_timestamp_ms: Annotated[
        TimeMs | None,
        "Highest timestamp of the last batch below the high watermark; absent if there is none, or "
        "it was not found in time.",
    ] = None
    times: Annotated[
        tuple[RecordTime, ...],
        "Timestamps for the requested offsets. A missing one at or above endOffset has no record "
        "yet. Any other missing offset was not found in time, so its timestamp is unknown.",
        Items(MAX_EXCHANGED_OFFSETS),
    ] = ()
    since_offset: Annotated[
        Offset | None,
        "Offset of the first record with timestamp sinceMs or a later one, endOffset if there is "
        "none; absent if it was not requested or not found in time.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPositions:
    """The offsets of partitions of a topic."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionPosition, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The answer to a PositionsRequest: every requested partition, in the order of the request."""

    topics: Annotated[tuple[TopicPositions, ...], "The topics.", Items(MAX_EXCHANGED_ITEMS)] = ()
    time_ms: Annotated[TimeMs, "The broker's clock when it started to answer."]


# -- retention of offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRetention:
    """How long one group's offsets are kept."""

    group_id: Annotated[GroupId, "The group.id."]
    retention_ms: Annotated[
        RetentionMs | None,
        "Retention to use instead of offsets.retention.minutes; -1 for ever. Absent: the group "
        "follows that key again.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRequest:
    """A request to set groups' own retention. If it is stored already, nothing is written."""

    groups: Annotated[
        tuple[GroupRetention, ...],
        "The groups to change.",
        Items(MAX_EXCHANGED_GROUPS, key=("groupId",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStored:
    """Whether one group's retention is stored."""

    group_id: Annotated[GroupId, "The group.id."]
    refusal: Annotated[
        GroupRefusal | None,
        "Why the retention is not stored; absent if it is stored and committed.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionAnswer:
    """The answer to a RetentionRequest."""

    groups: Annotated[
        tuple[RetentionStored, ...],
        "Each group, in the order of the request.",
        Items(MAX_EXCHANGED_GROUPS),
    ] = ()


# -- resets


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A request to reset a group's offsets. Each reset id is carried out once."""

    group_id: Annotated[GroupId, "The group.id."]
    reset: Annotated[Reset, "The reset as in the ConsumerGroup's spec."]
    positions: Annotated[
        tuple[TopicPositions, ...],
        "Offsets of partitions that other brokers lead, as in their Positions; with sinceOffset "
        "for to-datetime and by-duration.",
        Items(MAX_EXCHANGED_ITEMS, key=("topic",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetAnswer:
    """The state of a reset. With a `refusal`, this broker knows nothing of it."""

    group_id: Annotated[GroupId, "The group.id."]
    id: Annotated[ResetId, "Id of the reset."]
    refusal: Annotated[GroupRefusal | None, "Why there is no answer: ask again."] = None
    state: Annotated[
        ResetState | None,
        "State of the reset: Planned, Refused, Running, Done or Failed. Absent if this broker does "
        "not know it: then the field refusal says why.",
    ] = None
    message: Annotated[str, "Why the reset was refused or failed.", Length(MAX_MESSAGE_LENGTH)] = ""
    offsets: Annotated[
        tuple[ResetOffset, ...],
        "Each partition's committed offset before and after the reset.",
        Items(MAX_EXCHANGED_ITEMS),
    ] = ()


def lag_records(committed_offset: int, end_offset: int) -> int:
    """The number of records that are not consumed yet; -1 if no offset was committed.

    If the end offset is below the committed offset, the lag is 0: consumed records were lost in an
    unclean election, or somebody committed an offset that never existed.
    """
    if committed_offset < 0:
        return NO_COMMIT
    return max(0, end_offset - committed_offset)


# -- as bytes


def to_body(value: Any) -> bytes:
    """One of the requests or answers above as JSON."""
    return json.dumps(write(value), separators=(",", ":")).encode()


def request_from_body(cls: type[T], body: bytes) -> T:
    """Parse a request. An unknown field is an error, because the sender's intention would be
    ignored.

    Raises `InvalidManifest`.
    """
    return _from_body(cls, body, Unknown.REFUSE)


def answer_from_body(cls: type[T], body: bytes) -> T:
    """Parse an answer. Unknown fields are ignored, because a newer broker may send more. Raises
    `InvalidManifest`."""
    return _from_body(cls, body, Unknown.IGNORE)


def _from_body(cls: type[T], body: bytes, unknown: Unknown) -> T:
    """Parse JSON as an object of `cls`; `unknown` says what to do about unknown fields. Raises
    `InvalidManifest`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        wrong = Problem("body", f"is no JSON ({problem})", "send one JSON object")
        raise InvalidManifest([wrong]) from problem
    found: T = read(object_shape(cls), value, "body", unknown)
    return found
