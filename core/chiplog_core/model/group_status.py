"""The status of a ConsumerGroup: its members, its lag, and the result of its last reset.

The coordinator reads all numbers of one partition at one instant, so that a lag is never negative.
The status is not written for every record, but only after larger changes; metrics have the exact
present numbers.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import MAX_INT32, MAX_INT64, BrokerId, Offset, PartitionIndex
from chiplog_core.limits import (
    MAX_CONDITIONS,
    MAX_GROUP_STATUS_MEMBERS,
    MAX_GROUP_STATUS_PARTITIONS,
    MAX_GROUP_TOPICS,
    MAX_MESSAGE_LENGTH,
    MAX_PARTITIONS_PER_TOPIC,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.conditions import Condition
from chiplog_core.model.references import GroupId, TopicName

NO_COMMIT = -1
"""The committed offset and the lag of a partition for which the group never committed an offset."""

LagRecords = Annotated[int, Range(NO_COMMIT, MAX_INT64)]
LagSeconds = Annotated[int, Range(NO_COMMIT, MAX_INT32)]


class GroupState(StrEnum):
    """The states of a group, in Kafka's words."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    DEAD = "Dead"


class ResetState(StrEnum):
    """How far a reset has come."""

    PLANNED = "Planned"
    REFUSED = "Refused"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """The partitions of one topic that a member consumes."""

    topic: Annotated[TopicName, "Name of the topic that the member consumes."]
    partitions: Annotated[
        tuple[PartitionIndex, ...],
        "Numbers of the partitions of this topic that the member consumes.",
        Items(MAX_PARTITIONS_PER_TOPIC),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One consumer of the group."""

    member_id: Annotated[str, "The member's id, which the coordinator gave it.", Length(512)]
    client_id: Annotated[str, "The member's client.id.", Length(512)]
    host: Annotated[str, "The address that the member connects from.", Length(253)]
    group_instance_id: Annotated[
        str | None, "The member's group.instance.id, if it is a static member.", Length(512)
    ] = None
    assignment: Annotated[
        tuple[AssignedTopic, ...],
        "Partitions that the member consumes.",
        Items(MAX_GROUP_TOPICS, key=("topic",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Offsets and lag of the group in one partition, all read at the same time."""

    topic: Annotated[TopicName, "Name of the topic of the partition."]
    partition: Annotated[PartitionIndex, "Number of the partition in its topic, counted from 0."]
    committed_offset: Annotated[
        int,
        "The committed offset, which is the next offset the group will read; -1 if there is none.",
        Range(NO_COMMIT, MAX_INT64),
    ]
    end_offset: Annotated[
        Offset, "The log end offset of the partition: the offset that the next record will get."
    ]
    lag: Annotated[
        LagRecords,
        "Lag of the group in this partition, in records; -1 if no offset was ever committed.",
    ]
    lag_seconds: Annotated[
        LagSeconds,
        "Age in seconds of the first record not yet consumed, by its timestamp; 0 if "
        "everything is consumed; -1 if unknown.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """Effect of a reset on one partition."""

    topic: Annotated[TopicName, "Name of the topic of the partition whose offset is reset."]
    partition: Annotated[PartitionIndex, "Number of the partition whose offset is reset."]
    offset: Annotated[
        int,
        "The committed offset before the reset; -1 if there was none.",
        Range(NO_COMMIT, MAX_INT64),
    ]
    new_offset: Annotated[Offset, "The committed offset after the reset."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStatus:
    """The last requested reset."""

    id: Annotated[str, "Id of the reset, from spec.reset.id.", Length(63)]
    state: Annotated[
        ResetState,
        "Planned: dry run. Refused: see message; it is not retried. Running: the coordinator has "
        "not answered yet and is asked again. Done: the new offsets are committed.",
    ]
    message: Annotated[
        str,
        "Why the reset was refused or failed, or which partitions got another offset "
        "than requested, and why.",
        Length(MAX_MESSAGE_LENGTH),
    ] = ""
    wish: Annotated[
        str,
        "Digest of the reset that was done or refused; the operator compares it to find changes of "
        "the spec.",
        Length(63),
    ] = ""
    time: Annotated[datetime | None, "When the reset reached the state in status.reset.state."] = (
        None
    )
    offsets: Annotated[
        tuple[ResetOffset, ...],
        "Each partition's committed offset before and after the reset.",
        Items(MAX_GROUP_STATUS_PARTITIONS, key=("topic", "partition")),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupStatus:
    """Actual state of the group, as of the last answer of its coordinator."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready: the spec is in force. LagWithinObjective: the lag is within maxLag. Scaled: the "
        "Deployment is scaled by the lag.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    group_id: Annotated[GroupId | None, "The group.id of the consumers."] = None
    state: Annotated[
        GroupState | None, "The group's state, as kafka-consumer-groups.sh calls it."
    ] = None
    protocol: Annotated[
        str | None, "How partitions are assigned to members, like range.", Length(249)
    ] = None
    coordinator: Annotated[BrokerId | None, "Id of the broker that coordinates the group."] = None
    member_count: Annotated[int | None, "Number of members of the group.", Range(0, MAX_INT32)] = (
        None
    )
    members: Annotated[
        tuple[Member, ...],
        f"The members, at most {MAX_GROUP_STATUS_MEMBERS} of them.",
        Items(MAX_GROUP_STATUS_MEMBERS, key=("memberId",)),
    ] = ()
    total_lag: Annotated[
        LagRecords | None,
        "Sum of the lag, in records, of all partitions with a committed offset; -1 if "
        "there is no committed offset.",
    ] = None
    max_lag: Annotated[
        LagRecords | None,
        "The largest lag of any partition, in records; -1 if there is no committed offset.",
    ] = None
    max_lag_seconds: Annotated[
        LagSeconds | None,
        "Age in seconds of the oldest record not yet consumed, over all partitions; -1 if unknown.",
    ] = None
    partitions: Annotated[
        tuple[PartitionLag, ...],
        "Each partition's offsets and lag, the largest lags first, at most "
        f"{MAX_GROUP_STATUS_PARTITIONS} of them.",
        Items(MAX_GROUP_STATUS_PARTITIONS, key=("topic", "partition")),
    ] = ()
    reset: Annotated[ResetStatus | None, "State of the last requested reset."] = None
