"""What the operator asks brokers about groups, and what they answer: JSON over signed HTTP.

A group is asked of its coordinator, the broker that leads its partition of `__consumer_offsets`;
where a partition ends is asked of the broker that leads that partition. A coordinator that may not
answer, or not yet, says so for each group: nothing is guessed.

What is not known is absent. It is never 0: an operator that reads no `endOffset` knows no lag.

**Lag.** The coordinator takes a group's committed offsets first and the ends of the partitions that
it leads after them; the ends of other partitions the operator asks of their leaders after it has
the answer. High watermarks only grow, so an end is never below an offset that was committed before.
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
"""No broker answers more; who reads needs no more room."""

KEPT_FOR_EVER = -1
"""An offset retention that never ends."""

TimeMs = Annotated[int, Range(-1, MAX_INT64)]
"""Milliseconds since 1970; -1 is a record without a timestamp."""

RetentionMs = Annotated[int, Range(KEPT_FOR_EVER, MAX_INT64)]
"""Milliseconds, or -1 for ever."""


class GroupRefusal(StrEnum):
    """Why a broker does not answer for a group."""

    NOT_COORDINATOR = "NotCoordinator"
    """It does not lead the group's partition in the epoch that was named, or may not act as its
    leader now. Look at the map again."""

    LOADING = "Loading"
    """It will answer soon."""

    UNAVAILABLE = "Unavailable"
    """It could not read what is stored, or what it knows does not become safe."""


class LogRefusal(StrEnum):
    """Why a broker does not answer for a partition."""

    NOT_LEADER = "NotLeader"
    """It does not lead it, or may not act as its leader now. Look at the map again."""

    UNSETTLED = "Unsettled"
    """It leads it since a moment ago and cannot vouch for its end yet."""

    FAILED = "Failed"
    """Its log could not be read."""


# -- facts of groups


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPartition:
    """A partition of `__consumer_offsets` and the epoch in which a broker leads it."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    leader_epoch: Annotated[LeaderEpoch, "Its leader epoch."]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsRequest:
    """Groups, or all of some partitions of `__consumer_offsets`."""

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
    """How far a group has come in a partition, and where that partition ends."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    committed_offset: Annotated[
        int,
        "The next offset the group will read; -1 if it has none for this topic.",
        Range(NO_COMMIT, MAX_INT64),
    ]
    commit_time_ms: Annotated[TimeMs | None, "When that was committed; absent if nothing was."] = (
        None
    )
    end_offset: Annotated[
        Offset | None,
        "The high watermark, read after the committed offset; absent if another broker leads.",
    ] = None
    log_start_offset: Annotated[Offset | None, "Where the log begins; absent as endOffset is."] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """How far a group has come in a topic: partitions with a commit or with a member."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionOffset, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What a coordinator knows of a group; or, with `refusal`, nothing but that."""

    group_id: Annotated[GroupId, "The group.id."]
    refusal: Annotated[GroupRefusal | None, "Why there is no answer."] = None
    coordinator: Annotated[BrokerId | None, "Id of the broker that answers."] = None
    leader_epoch: Annotated[
        LeaderEpoch | None, "Of the group's partition of __consumer_offsets."
    ] = None
    state: Annotated[GroupState, "Dead if there is no such group."] = GroupState.UNKNOWN
    protocol_type: Annotated[
        str,
        "What the members are: consumer, connect, or nothing for offsets without members.",
        Length(32_767),
    ] = ""
    protocol: Annotated[
        str, "How partitions are assigned, like range; only of a Stable group.", Length(32_767)
    ] = ""
    generation: Annotated[int, "-1 before the first.", Range(-1, MAX_INT32)] = -1
    member_count: Annotated[int, "Number of members.", Range(0, MAX_INT32)] = 0
    members: Annotated[
        tuple[Member, ...],
        "Members by their ids, as many of them and of what they consume as a status shows. An "
        "assignment that cannot be read is absent.",
        Items(MAX_GROUP_STATUS_MEMBERS),
    ] = ()
    topics: Annotated[
        tuple[TopicOffsets, ...], "How far it has come.", Items(MAX_EXCHANGED_ITEMS)
    ] = ()
    is_whole: Annotated[bool, "False if topics is incomplete because the group is too large."] = (
        True
    )
    offset_retention_ms: Annotated[
        RetentionMs | None, "The retention that is stored for this group, if it has its own."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer:
    """What a broker says of a partition of `__consumer_offsets` that it was asked about."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    refusal: Annotated[
        GroupRefusal | None,
        "Why its groups are missing in the answer; absent if they are all included.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAnswer:
    """The facts of groups, by their ids.

    A group whose id is empty or longer than an object can name is not told of.
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
    """A partition, and offsets whose times are wanted."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    offsets: Annotated[
        tuple[Offset, ...],
        "Of which the timestamp of the first record at or after each is wanted.",
        Items(MAX_EXCHANGED_OFFSETS, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """Partitions of a topic."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionRequest, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsRequest:
    """Where partitions begin and end, and how old their records are."""

    topics: Annotated[
        tuple[TopicRequest, ...], "The topics.", Items(MAX_EXCHANGED_ITEMS, key=("topic",))
    ]
    since_ms: Annotated[
        int | None,
        "If set, the offset of the first record of this time or later is wanted.",
        Range(0, MAX_INT64),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTime:
    """The timestamp of the first record at or after an offset."""

    offset: Annotated[Offset, "The offset that was asked about."]
    timestamp_ms: Annotated[TimeMs, "As the record has it; -1 if it has none."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """A partition at one instant; or, with `refusal`, nothing but that."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    refusal: Annotated[LogRefusal | None, "Why there is no answer."] = None
    end_offset: Annotated[Offset | None, "The high watermark."] = None
    log_start_offset: Annotated[Offset | None, "Where the log begins."] = None
    last_timestamp_ms: Annotated[
        TimeMs | None,
        "The newest of the last batch below the high watermark; absent if there is none, or "
        "it was not found in time.",
    ] = None
    times: Annotated[
        tuple[RecordTime, ...],
        "For offsets that were asked about. One that is missing and at or above endOffset has "
        "nothing to be read; any other that is missing was not found in time: unknown.",
        Items(MAX_EXCHANGED_OFFSETS),
    ] = ()
    since_offset: Annotated[
        Offset | None,
        "Of the first record of sinceMs or later, endOffset if there is none; absent if it "
        "was not asked for or not found in time.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPositions:
    """Partitions of a topic."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionPosition, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The answer to PositionsAsked: every partition that was asked about, in its order."""

    topics: Annotated[tuple[TopicPositions, ...], "The topics.", Items(MAX_EXCHANGED_ITEMS)] = ()
    time_ms: Annotated[TimeMs, "The broker's clock when it started to answer."]


# -- retention of offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRetention:
    """How long one group's offsets are kept."""

    group_id: Annotated[GroupId, "The group.id."]
    retention_ms: Annotated[
        RetentionMs | None,
        "In the place of offsets.retention.minutes; -1 for ever. Absent: that key counts again.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRequest:
    """Sets groups' own retention. Asking again for what is stored writes nothing."""

    groups: Annotated[
        tuple[GroupRetention, ...],
        "The groups; of all others the retention stays as it is.",
        Items(MAX_EXCHANGED_GROUPS, key=("groupId",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStored:
    """What became of one group's retention."""

    group_id: Annotated[GroupId, "The group.id."]
    refusal: Annotated[
        GroupRefusal | None,
        "Why the retention is not stored; absent if it is stored and committed.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionAnswer:
    """The answer to RetentionAsked."""

    groups: Annotated[
        tuple[RetentionStored, ...], "Each group, in its order.", Items(MAX_EXCHANGED_GROUPS)
    ] = ()


# -- resets


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """Resets a group's offsets, once for each id."""

    group_id: Annotated[GroupId, "The group.id."]
    reset: Annotated[Reset, "The reset as in the ConsumerGroup's spec."]
    positions: Annotated[
        tuple[TopicPositions, ...],
        "What other brokers said of the partitions that they lead, as in Positions; with "
        "sinceOffset for to-datetime and by-duration.",
        Items(MAX_EXCHANGED_ITEMS, key=("topic",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetAnswer:
    """What became of a reset; or, with `refusal`, that nothing is known of it here."""

    group_id: Annotated[GroupId, "The group.id."]
    id: Annotated[ResetId, "Id of the reset."]
    refusal: Annotated[GroupRefusal | None, "Why there is no answer: ask again."] = None
    state: Annotated[
        ResetState | None, "Planned, Refused, Running, Done or Failed; absent with a refusal."
    ] = None
    message: Annotated[str, "Why it was refused or failed.", Length(MAX_MESSAGE_LENGTH)] = ""
    offsets: Annotated[
        tuple[ResetOffset, ...],
        "Each partition's offset before and after.",
        Items(MAX_EXCHANGED_ITEMS),
    ] = ()


def lag_records(committed_offset: int, end_offset: int) -> int:
    """The number of records not yet consumed: -1 if nothing was committed, else never negative.

    The end offset is below the committed offset only after consumed records were lost (an unclean
    election), or if somebody committed an offset that never existed. Nothing is left to be consumed
    then.
    """
    if committed_offset < 0:
        return NO_COMMIT
    return max(0, end_offset - committed_offset)


# -- as bytes


def to_body(value: Any) -> bytes:
    """The JSON of one of the values above."""
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
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        wrong = Problem("body", f"is no JSON ({problem})", "send one JSON object")
        raise InvalidManifest([wrong]) from problem
    found: T = read(object_shape(cls), value, "body", unknown)
    return found
