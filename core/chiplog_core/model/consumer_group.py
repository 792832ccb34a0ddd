"""ConsumerGroup: what a user wants of a group of consumers. Its status is `group_status`."""

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
"""Under another name, because a reset has a field called datetime."""

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

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionIndex, ...],
        "The partitions to reset; where not set, all of the topic's.",
        Items(MAX_PARTITIONS_PER_TOPIC, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Puts the group's committed offsets somewhere else, once."""

    id: Annotated[
        ResetId,
        "Name of this reset. One id runs once: applying the same manifest again does nothing, "
        "and another reset needs another id.",
    ]
    strategy: Annotated[
        ResetStrategy,
        "Where to: to-earliest, to-latest, to-current, or to-offset (needs offset), to-datetime "
        "(needs datetime), by-duration (needs duration), shift-by (needs shiftBy).",
    ]
    topics: Annotated[
        tuple[ResetTopic, ...],
        "The topics to reset; where not set, all the group has committed offsets for.",
        Items(MAX_GROUP_TOPICS, key=("topic",)),
    ] = ()
    offset: Annotated[Offset | None, "Only with to-offset: the offset to go to."] = None
    datetime: Annotated[
        Moment | None,
        "Only with to-datetime: goes to the first record of this time or later, like "
        "2026-01-31T12:00:00Z.",
    ] = None
    duration: Annotated[
        Duration | None, "Only with by-duration: how far to go back from now, like 30m or 7d."
    ] = None
    shift_by: Annotated[
        int | None,
        "Only with shift-by: how many records to go on, or back where negative.",
        Range(MIN_INT64, MAX_INT64),
    ] = None
    dry_run: Annotated[
        bool,
        "Only put the plan into the status and change nothing. Set it to false, under the same "
        "id, to run what was planned.",
    ] = True
    while_active: Annotated[
        WhileActive,
        "What to do while the group has members. Refuse: nothing. Fence: stop them, reset, and "
        "let them join again.",
    ] = WhileActive.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxLag:
    """How far the group may be behind; drives the LagWithinObjective condition."""

    records: Annotated[
        int | None, "Records of any one partition not yet consumed.", Range(0, MAX_INT64)
    ] = None
    seconds: Annotated[
        int | None,
        "Age of the oldest record of any one partition not yet consumed.",
        Range(0, MAX_INT32),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRef:
    """A Deployment in the namespace of this object."""

    name: Annotated[ObjectName, "metadata.name of the Deployment."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Runs as many consumers as the lag asks for, never more than there are partitions."""

    deployment_ref: Annotated[
        DeploymentRef,
        "The Deployment whose pods are the consumers. It agrees by its annotation "
        "chiplog.dev/scaled-by, the name of this ConsumerGroup.",
    ]
    min: Annotated[int, "The fewest pods to run.", Range(0, 1_000)] = 1
    max: Annotated[int, "The most pods to run.", Range(1, 1_000)]
    lag_per_replica: Annotated[
        int, "How many records of lag one pod is good for.", Range(1, MAX_INT64)
    ]
    cooldown: Annotated[
        Duration, "How long to wait after a change before fewer pods are run, like 5m."
    ] = FIVE_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSpec:
    """What the group should be."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster the group belongs to. It cannot be changed later."
    ]
    group_id: Annotated[
        GroupId | None,
        "The group.id of the consumers; where not set, metadata.name. It cannot be changed later.",
    ] = None
    reset: Annotated[Reset | None, "Puts the group's committed offsets somewhere else, once."] = (
        None
    )
    max_lag: Annotated[
        MaxLag | None,
        "How far the group may be behind; drives the LagWithinObjective condition.",
    ] = None
    offset_retention: Annotated[
        str | None,
        "How long the group's offsets are kept once it has no members: Never lets them expire "
        "never, 7d after seven days. Where not set: the cluster's offsets.retention.minutes.",
        Length(MAX_DURATION_LENGTH),
        Pattern(f"{NEVER}|{DURATION_PATTERN}", f"{NEVER}, or {DURATION_MEANING}"),
    ] = None
    scale: Annotated[
        Scale | None, "Runs as many consumers as the lag asks for, never more than partitions."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(UsersResource):
    """A group of consumers that share the partitions of their topics, and where they stand."""

    KIND = api.CONSUMER_GROUP

    spec: ConsumerGroupSpec
    status: ConsumerGroupStatus = field(default_factory=ConsumerGroupStatus)

    @property
    def group_id(self) -> str:
        """The group's id for Kafka clients."""
        return self.spec.group_id or self.metadata.name
