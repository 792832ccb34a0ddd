"""The operator's request to brokers about the load of partitions, and their answer: JSON over
signed HTTP, as `group_exchange` is.

A broker reports the partitions that it leads in the epoch of the answer: the size of its log, and
counters of what was appended since its process started. Two answers of the same process give the
rates in between, by the ticks of that process.
"""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.ids import MAX_INT64, LeaderEpoch, PartitionIndex
from chiplog_core.limits import MAX_EXCHANGED_ITEMS, MAX_PARTITIONS_PER_TOPIC
from chiplog_core.manifest.constraints import Items, Range
from chiplog_core.model.references import TopicName

LOADS_PATH = "/logs/loads"

PARTITIONS_PER_PAGE = 5_000
"""An answer ends with the topic with which it has this many partitions: about 500 KB of JSON."""

Count = Annotated[int, Range(0, MAX_INT64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsRequest:
    """A request for the load of all partitions that the broker leads, without internal topics."""

    after: Annotated[
        TopicName | None, "Include only topics whose names come after this one, by code points."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """The load of a partition that the answering broker leads."""

    partition: Annotated[PartitionIndex, "Number of the partition."]
    leader_epoch: Annotated[LeaderEpoch, "The epoch in which the broker leads the partition."]
    bytes: Annotated[Count, "Size of the log on disk, as DescribeLogDirs reports it."] = 0
    bytes_in: Annotated[Count, "Bytes appended since the process started."] = 0
    records_in: Annotated[Count, "Records appended since the process started."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """The load of the partitions of a topic that the answering broker leads."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitions: Annotated[
        tuple[PartitionLoad, ...],
        "The partitions.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsAnswer:
    """The load of the partitions that the broker leads, sorted by topic."""

    topics: Annotated[
        tuple[TopicLoad, ...], "The topics.", Items(MAX_EXCHANGED_ITEMS, key=("topic",))
    ] = ()
    next_after: Annotated[
        TopicName | None, "If set, there are more topics: ask again, after this one."
    ] = None
    ticks_ms: Annotated[
        Count,
        "Milliseconds of a clock of the process that never jumps; only differences between "
        "answers of the same process mean anything.",
    ]
