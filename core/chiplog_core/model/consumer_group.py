"""ConsumerGroup: the desired state of a group of consumers. Its status is `group_status`."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

from chiplog_core.durations import (
    DURATION_MEANING,
    DURATION_PATTERN,
    MAX_DURATION_LENGTH,
    Duration,
)
from chiplog_core.ids import MAX_INT32, MAX_INT64, MIN_INT64, Offset, PartitionIndex
from chiplog_core.limits import MAX_GROUP_TOPICS, MAX_PARTITIONS_PER_TOPIC
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.group_status import ConsumerGroupStatus
from chiplog_core.model.references import ClusterRef, GroupId, ObjectName, TopicName
from chiplog_core.model.resource import UsersResource
from chiplog_core.naming import api

NEVER = "Never"
FIVE_MINUTES = Duration("5m")

Moment: TypeAlias = datetime
"""Another name of datetime, because the class `Reset` has a field with that name."""

ResetId = Annotated[
    str,
    Length(63, minimum=1),
    Pattern("[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "letters, digits, '.', '_' and '-'"),
]


class ResetStrategy(StrEnum):
    """Where a reset puts the offsets: the options of `kafka-consumer-groups.sh`."""

    TO_EARLIEST = "to-earliest"
    TO_LATEST = "to-latest"
    TO_CURRENT = "to-current"
    TO_OFFSET = "to-offset"
    TO_DATETIME = "to-datetime"
    BY_DURATION = "by-duration"
    SHIFT_BY = "shift-by"


class WhileActive(StrEnum):
    """What a reset does to a group that has members."""

    REFUSE = "Refuse"
    FENCE = "Fence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTopic:
    """A topic whose offsets are reset."""

    topic: Annotated[TopicName, "Name of the topic whose offsets are reset."]
    partitions: Annotated[
        tuple[PartitionIndex, ...],
        "Numbers of the partitions to reset; default: all partitions of the topic.",
        Items(MAX_PARTITIONS_PER_TOPIC, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Moves the group's committed offsets, once."""

    id: Annotated[
        ResetId,
        "Id of this reset. Each id runs once: applying the same manifest again does nothing, and "
        "another reset needs another id.",
    ]
    strategy: Annotated[
        ResetStrategy,
        "Where the offsets go: to-earliest, to-latest, to-current, or to-offset (needs offset), "
        "to-datetime "
        "(needs datetime), by-duration (needs duration), shift-by (needs shiftBy).",
    ]
    topics: Annotated[
        tuple[ResetTopic, ...],
        "The topics to reset; default: every topic for which the group has committed offsets.",
        Items(MAX_GROUP_TOPICS, key=("topic",)),
    ] = ()
    offset: Annotated[Offset | None, "Only with to-offset: the new offset."] = None
    datetime: Annotated[
        Moment | None,
        "Only with to-datetime: offsets go to the first record at or after this time, like "
        "2026-01-31T12:00:00Z.",
    ] = None
    duration: Annotated[
        Duration | None, "Only with by-duration: how far to go back from now, like 30m or 7d."
    ] = None
    shift_by: Annotated[
        int | None,
        "Only with shift-by: by how many records the offsets move forward; a negative number "
        "moves them back.",
        Range(MIN_INT64, MAX_INT64),
    ] = None
    dry_run: Annotated[
        bool,
        "Only write the plan to the status and change nothing. Set it to false, with the same id, "
        "to run the reset.",
    ] = True
    while_active: Annotated[
        WhileActive,
        "What happens if the group has members. Refuse: the reset is refused. Fence: the members "
        "are removed, the offsets are reset, and the members may join again.",
    ] = WhileActive.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxLag:
    """How much lag the group may have; the LagWithinObjective condition reports it."""

    records: Annotated[
        int | None,
        "Maximum number of records not yet consumed, for any partition.",
        Range(0, MAX_INT64),
    ] = None
    seconds: Annotated[
        int | None,
        "Maximum age of the oldest record not yet consumed, for any partition.",
        Range(0, MAX_INT32),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRef:
    """A Deployment in the namespace of this object."""

    name: Annotated[ObjectName, "metadata.name of the Deployment."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Runs as many consumers as the lag needs, but not more than there are partitions."""

    deployment_ref: Annotated[
        DeploymentRef,
        "The Deployment whose pods are the consumers. It must have the annotation "
        "chiplog.dev/scaled-by with the name of this ConsumerGroup.",
    ]
    min: Annotated[int, "Minimum number of the Deployment's pods.", Range(0, 1_000)] = 1
    max: Annotated[int, "Maximum number of the Deployment's pods.", Range(1, 1_000)]
    lag_per_replica: Annotated[
        int,
        "How many records of lag one pod can handle.",
        Range(1, MAX_INT64),
    ]
    cooldown: Annotated[
        Duration,
        "How long to wait after a change before the number of pods is reduced, like 5m.",
    ] = FIVE_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSpec:
    """Desired state of the group."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster the group belongs to. It cannot be changed later."
    ]
    group_id: Annotated[
        GroupId | None,
        "The group.id of the consumers; default: metadata.name. It cannot be changed later.",
    ] = None
    reset: Annotated[Reset | None, "Moves the group's committed offsets, once."] = None
    max_lag: Annotated[
        MaxLag | None,
        "How much lag the group may have; the LagWithinObjective condition reports it.",
    ] = None
    offset_retention: Annotated[
        str | None,
        "How long the group's offsets are kept after its last member left: Never keeps them for "
        "ever, 7d for seven days. Default: the cluster's offsets.retention.minutes.",
        Length(MAX_DURATION_LENGTH),
        Pattern(f"{NEVER}|{DURATION_PATTERN}", f"{NEVER}, or {DURATION_MEANING}"),
    ] = None
    scale: Annotated[
        Scale | None,
        "Scales the consumers' Deployment by the lag, to at most the number of partitions.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(UsersResource):
    """A group of consumers that share the partitions of their topics, with its offsets and lag."""

    KIND = api.CONSUMER_GROUP

    spec: ConsumerGroupSpec
    status: ConsumerGroupStatus = field(default_factory=ConsumerGroupStatus)

    @property
    def group_id(self) -> str:
        """The group's id for Kafka clients."""
        return self.spec.group_id or self.metadata.name
