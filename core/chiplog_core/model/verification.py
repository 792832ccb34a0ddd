"""Verification: a Spark job checks that no stored record is lost, damaged or in a wrong
partition."""

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
"""How many notices of a run the status lists."""

MAX_CHECKS = 20
"""Limit of lists of checks; there are fewer checks."""


class Repair(StrEnum):
    """What the operator does about a replica that a run has proven to be damaged."""

    NONE = "None"
    REFETCH = "Refetch"


class RepairState(StrEnum):
    """How far the repair of a replica has come."""

    WAITING = "Waiting"
    """Nothing is ordered yet."""
    ORDERED = "Ordered"
    """The replica's broker has the order to fetch the replica again, and has not answered."""
    FETCHING = "Fetching"
    """The replica's broker has put the damaged files aside and fetches the replica again."""
    DONE = "Done"
    """The new copy is in sync."""
    REFUSED = "Refused"
    """The replica is left as it is. A later run that finds the damage again may order the repair
    again."""


class VerificationPhase(StrEnum):
    """The phase of a Verification."""

    WAITING = "Waiting"
    """No run has begun yet: the Verification waits for its schedule, or for something missing."""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    VIOLATIONS_FOUND = "ViolationsFound"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelector:
    """Selects topics by the labels of their Topic objects."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        "Labels that a Topic must have, all of them. The Topics of this cluster are selected in "
        "all namespaces, each time a run starts.",
        Entries(20),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPartitioner:
    """The hash that a topic's producers use, measured from the existing records."""

    topic: Annotated[TopicName, "Name of the topic for which the hash was measured."]
    partitioner: Annotated[
        str,
        "Hash that fits the topic's records best: murmur2, crc32 or fnv1a; not set if "
        "none of them fits.",
        Length(63),
    ]
    share: Annotated[
        int | None,
        "Percentage of the records with a key that are in the partition that this hash gives.",
        Range(0, 100),
    ] = None
    others: Annotated[
        tuple[Annotated[str, Length(63)], ...],
        "Hashes of other clients that write to the topic. More than one hash is not a violation, "
        "but a key may then be in two partitions.",
        Items(10),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A finding that is not a violation."""

    topic: Annotated[TopicName, "Name of the topic that the notice is about."]
    reason: Annotated[
        str,
        "Kind of the notice, in one word: MixedPlacement or KeysInTwoPartitions.",
        Length(128, minimum=1),
    ]
    message: Annotated[str, "Explanation of the notice, with numbers.", Length(1_024)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCount:
    """Number of violations of one check."""

    check: Annotated[Check, "The check that is violated."]
    count: Annotated[Count, "Number of violations of the check."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRepair:
    """A replica that a run has proven to be damaged, and the state of its repair."""

    run: Annotated[ObjectName, "Name of the Spark application that proved the damage."]
    topic: Annotated[TopicName, "Name of the topic of the damaged replica."]
    topic_id: Annotated[TopicId, "Kafka's id of the topic of the damaged replica."]
    partition: Annotated[PartitionIndex, "Number of the partition of the damaged replica."]
    replica: Annotated[BrokerId, "Id of the broker that has the damaged replica."]
    checks: Annotated[
        tuple[Check, ...],
        "Checks that the damaged replica violates.",
        Items(MAX_CHECKS, unique=True),
    ]
    state: Annotated[RepairState, "State of the repair of the damaged replica."] = (
        RepairState.WAITING
    )
    since: Annotated[
        datetime | None, "When the repair reached the state in status.repairs[].state."
    ] = None
    message: Annotated[str, "What the repair waits for, or its result.", Length(1_024)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """Scope and schedule of the verification."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster whose data is verified. It cannot be changed later."
    ]
    topics: Annotated[
        tuple[TopicName, ...],
        "Names of the topics to verify. If neither this nor topicSelector is set: all "
        "topics of the cluster, including internal topics.",
        Items(MAX_VERIFIED_TOPICS, unique=True),
    ] = ()
    topic_selector: Annotated[
        TopicSelector | None, "Selects the topics to verify by the labels of their Topic objects."
    ] = None
    checks: Annotated[
        tuple[Check, ...],
        "The checks to run; default: all checks that apply to the topic.",
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
        "Schedule of the runs, as five cron fields in UTC, like 0 3 * * 0. If not set: "
        "the verification runs once, and again after each change of what is to be "
        "verified.",
    ] = None
    suspend: Annotated[bool, "If true, no new runs are started; a running one continues."] = False
    time_limit: Annotated[
        Duration | None, "How long a run may take, like 2h; after that it fails."
    ] = None
    bytes_per_second: Annotated[
        BytesPerSecond | None,
        "Limit for the bytes per second that all executors of a run together read; "
        "default: no limit.",
    ] = None
    repair: Annotated[
        Repair,
        "What happens to damaged replicas. None: violations are only reported. Refetch: "
        "a replica that is proven to be damaged is fetched again from its leader if "
        "enough other replicas are undamaged and in sync, one replica of a partition at "
        "a time. The damaged files are kept next to it.",
    ] = Repair.NONE
    spark: Annotated[
        SparkOverrides | None,
        "Settings of the Spark job that override the cluster's spec.spark.",
    ] = None
    successful_runs_history_limit: Annotated[
        int, "How many successful runs are kept, with their objects.", Range(0, MAX_RUN_HISTORY)
    ] = 3
    failed_runs_history_limit: Annotated[
        int, "How many failed runs are kept, with their objects.", Range(0, MAX_RUN_HISTORY)
    ] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationStatus:
    """Results of the verification."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready: the last run was completed as the spec asks. Verified: the last completed run "
        "found no violations. Warning: it found something else that you should know.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    phase: Annotated[
        VerificationPhase | None, "Current phase of the verification, like Running."
    ] = None
    runs: Annotated[RunNumber, "Number of runs that were started."] = 0
    wish: Annotated[
        Digest,
        "Digest of the part of the spec that the last run was for; the operator compares it to "
        "find changes of the spec.",
    ] = ""
    application: Annotated[ApplicationStatus | None, "The Spark application of the last run."] = (
        None
    )
    started_at: Annotated[datetime | None, "When the last run started."] = None
    finished_at: Annotated[
        datetime | None, "When the last run ended; not set while it is running."
    ] = None
    outcome: Annotated[Outcome | None, "Result of the last run; not set while it is running."] = (
        None
    )
    scheduled_at: Annotated[datetime | None, "The scheduled time of the last run."] = None
    next_run: Annotated[datetime | None, "When the next run is due."] = None
    last_success: Annotated[
        datetime | None, "When the last run that found no violations ended."
    ] = None
    coverage: Annotated[Coverage | None, "How much data the last completed run read."] = None
    violations_total: Annotated[
        Count | None, "Number of violations that the last completed run found."
    ] = None
    violations_by_check: Annotated[
        tuple[CheckCount, ...],
        "Number of violations per check; checks without violations are not listed.",
        Items(MAX_CHECKS, key=("check",)),
    ] = ()
    violations: Annotated[
        tuple[Violation, ...],
        f"The first violations, at most {MAX_VIOLATIONS}.",
        Items(MAX_VIOLATIONS),
    ] = ()
    repairs: Annotated[
        tuple[ReplicaRepair, ...],
        "With spec.repair Refetch: the replicas that the last completed run has proven to be "
        "damaged, and those of earlier runs whose repair is not finished.",
        Items(MAX_REFETCHES),
    ] = ()
    partitioners: Annotated[
        tuple[MeasuredPartitioner, ...],
        "The hash that producers use, per topic, if it was measured.",
        Items(MAX_VERIFIED_TOPICS),
    ] = ()
    notices: Annotated[
        tuple[Notice, ...],
        "Findings of the last completed run that are not violations, like a topic to which "
        "clients with different partitioners write.",
        Items(MAX_NOTICES),
    ] = ()
    history: Annotated[
        tuple[PastRun, ...],
        "Finished runs whose objects are kept, newest first.",
        Items(2 * MAX_RUN_HISTORY, key=("application",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(UsersResource):
    """Checks the stored data of all replicas: that records are complete, undamaged and in the right
    partition.
    """

    KIND = api.VERIFICATION

    spec: VerificationSpec
    status: VerificationStatus = field(default_factory=VerificationStatus)
