"""Verification: a proof from the stored data that nothing is lost, damaged or out of place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.ids import MAX_INT64, BrokerId, PartitionIndex, TopicId
from chiplog_core.limits import (
    MAX_CONDITIONS,
    MAX_REFETCHES,
    MAX_RUN_HISTORY,
    MAX_VERIFIED_TOPICS,
)
from chiplog_core.manifest.constraints import Entries, Items, Length, Range
from chiplog_core.model.conditions import Condition
from chiplog_core.model.pod import LabelValue
from chiplog_core.model.references import ClusterRef, ObjectName, TopicName
from chiplog_core.model.resource import UsersResource
from chiplog_core.model.roll_policy import CronSchedule
from chiplog_core.model.spark import SparkOverrides
from chiplog_core.model.spark_result import MAX_VIOLATIONS, Check, Violation
from chiplog_core.model.spark_run import (
    ApplicationStatus,
    BytesPerSecond,
    Count,
    Coverage,
    Digest,
    Outcome,
    PastRun,
    RunNumber,
)
from chiplog_core.model.topic import Partitioner
from chiplog_core.naming import api

MAX_NOTICES = 100
"""Listed of a run; more say no more."""

MAX_CHECKS = 20
"""There are fewer."""


class Repair(StrEnum):
    """What is done about a replica that turns out to be damaged."""

    NONE = "None"
    REFETCH = "Refetch"


class RepairState(StrEnum):
    """How far the repair of a replica has come."""

    WAITING = "Waiting"
    """Nothing is ordered yet."""
    ORDERED = "Ordered"
    """Its broker is told to fetch it anew, and has not answered."""
    FETCHING = "Fetching"
    """Its broker has put it aside and fetches it anew."""
    DONE = "Done"
    """The new copy is in sync."""
    REFUSED = "Refused"
    """It is left as it is; a later run may prove it again."""


class VerificationPhase(StrEnum):
    """Where a Verification stands."""

    WAITING = "Waiting"
    """It has not run yet: for its schedule, or because something is missing."""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    VIOLATIONS_FOUND = "ViolationsFound"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelector:
    """Chooses topics by the labels of their Topic objects."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        "Labels that a Topic must have, all of them. It chooses among the Topics of this "
        "cluster, in all namespaces, each time the verification begins.",
        Entries(20),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPartitioner:
    """The hash that a topic's producers use, by the records there are."""

    topic: Annotated[TopicName, "Name of the topic."]
    partitioner: Annotated[
        str, "murmur2, crc32 or fnv1a; none where none of them fits.", Length(63)
    ]
    share: Annotated[
        int | None, "Percent of the records with a key that it fits.", Range(0, 100)
    ] = None
    others: Annotated[
        tuple[Annotated[str, Length(63)], ...],
        "Hashes of further kinds of clients that write to the topic; more than one hash is no "
        "violation, but a key may be in two partitions.",
        Items(10),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that is no violation and should be known."""

    topic: Annotated[TopicName, "Name of the topic."]
    reason: Annotated[
        str, "In one word: MixedPlacement or KeysInTwoPartitions.", Length(128, minimum=1)
    ]
    message: Annotated[str, "In a sentence, with numbers.", Length(1_024)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCount:
    """How often a check found something."""

    check: Annotated[Check, "What is violated."]
    count: Annotated[Count, "How many violations of it there are."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRepair:
    """A replica that a run has proven to be damaged, and what is done about it."""

    run: Annotated[ObjectName, "Application of the run that proved it."]
    topic: Annotated[TopicName, "Name of the topic."]
    topic_id: Annotated[TopicId, "Id of the topic that was verified."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    replica: Annotated[BrokerId, "The broker whose copy it is."]
    checks: Annotated[tuple[Check, ...], "What it violates.", Items(MAX_CHECKS, unique=True)]
    state: Annotated[RepairState, "How far it has come."] = RepairState.WAITING
    since: Annotated[datetime | None, "Since when it is in that state."] = None
    message: Annotated[str, "What it waits for, or what came of it.", Length(1_024)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """What is verified, and when."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster whose data is verified. It cannot be changed later."
    ]
    topics: Annotated[
        tuple[TopicName, ...],
        "Names of the topics. Where neither this nor topicSelector is set: all topics of the "
        "cluster, its own included.",
        Items(MAX_VERIFIED_TOPICS, unique=True),
    ] = ()
    topic_selector: Annotated[
        TopicSelector | None, "Chooses topics by the labels of their Topic objects."
    ] = None
    checks: Annotated[
        tuple[Check, ...],
        "What is checked; where not set, all that fits the topic.",
        Items(MAX_CHECKS, unique=True),
    ] = ()
    partitioner: Annotated[
        Partitioner,
        "The hash by which producers choose a key's partition, for the check KeyPlacement. "
        "murmur2 is that of the Java client and kafka-python, crc32 librdkafka's default, fnv1a "
        "sarama's; auto measures which one fits the records there are.",
    ] = Partitioner.AUTO
    schedule: Annotated[
        CronSchedule | None,
        "When it runs, as five cron fields in UTC, like 0 3 * * 0. Where not set: once, and once "
        "more after each change of what is to be verified.",
    ] = None
    suspend: Annotated[bool, "Begins no run. One that is under way goes on."] = False
    time_limit: Annotated[
        Duration | None, "How long a run may take, like 2h; then it is ended and has failed."
    ] = None
    bytes_per_second: Annotated[
        BytesPerSecond | None,
        "How fast a run may read, all its executors together; where not set, as fast as it can.",
    ] = None
    repair: Annotated[
        Repair,
        "None: what is found is told, and nothing else. Refetch: a replica that is proven to be "
        "damaged, where enough others are whole and in sync, is fetched anew from its leader, one "
        "of a partition at a time. What was there stays beside it.",
    ] = Repair.NONE
    spark: Annotated[
        SparkOverrides | None,
        "How the job is run, where it is to be another way than the cluster's spec.spark says.",
    ] = None
    successful_runs_history_limit: Annotated[
        int, "How many runs that succeeded are kept.", Range(0, MAX_RUN_HISTORY)
    ] = 3
    failed_runs_history_limit: Annotated[
        int, "How many runs that failed are kept.", Range(0, MAX_RUN_HISTORY)
    ] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationStatus:
    """What was verified, and what was found."""

    observed_generation: Annotated[
        int | None, "The metadata.generation this status was made from.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready says whether the last run did what the spec asks for; Verified, whether the last "
        "completed run found nothing wrong; Warning, that it found something else to know.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    phase: Annotated[VerificationPhase | None, "Where it stands."] = None
    runs: Annotated[RunNumber, "How many runs were begun."] = 0
    wish: Annotated[Digest, "Digest of the part of the spec that the last run was begun for."] = ""
    application: Annotated[ApplicationStatus | None, "The Spark application of the last run."] = (
        None
    )
    started_at: Annotated[datetime | None, "When the last run was begun."] = None
    finished_at: Annotated[
        datetime | None, "When the last run was over; not set while it is under way."
    ] = None
    outcome: Annotated[Outcome | None, "How the last run ended; not set while it is under way."] = (
        None
    )
    scheduled_at: Annotated[
        datetime | None, "The time of the schedule for which the last run was begun."
    ] = None
    next_run: Annotated[datetime | None, "When the next run is due."] = None
    last_success: Annotated[
        datetime | None, "When the last run was over that found nothing wrong."
    ] = None
    coverage: Annotated[Coverage | None, "How much the last completed run has read."] = None
    violations_total: Annotated[
        Count | None, "How many violations the last completed run found."
    ] = None
    violations_by_check: Annotated[
        tuple[CheckCount, ...],
        "Of them, how many each check found; a check that found nothing is not listed.",
        Items(MAX_CHECKS, key=("check",)),
    ] = ()
    violations: Annotated[
        tuple[Violation, ...],
        f"The first of them, at most {MAX_VIOLATIONS}.",
        Items(MAX_VIOLATIONS),
    ] = ()
    repairs: Annotated[
        tuple[ReplicaRepair, ...],
        "With spec.repair: Refetch, the replicas that the last completed run has proven to be "
        "damaged, and those of earlier runs that are not done yet.",
        Items(MAX_REFETCHES),
    ] = ()
    partitioners: Annotated[
        tuple[MeasuredPartitioner, ...],
        "The hash that producers use, by topic, where it was measured.",
        Items(MAX_VERIFIED_TOPICS),
    ] = ()
    notices: Annotated[
        tuple[Notice, ...],
        "What the last completed run found that is no violation and should be known, like a topic "
        "to which clients with different partitioners write.",
        Items(MAX_NOTICES),
    ] = ()
    history: Annotated[
        tuple[PastRun, ...],
        "Runs that are over and whose objects are kept, the newest first.",
        Items(2 * MAX_RUN_HISTORY, key=("application",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(UsersResource):
    """A proof, from the stored data of all replicas, that records are whole and in their place."""

    KIND = api.VERIFICATION

    spec: VerificationSpec
    status: VerificationStatus = field(default_factory=VerificationStatus)
