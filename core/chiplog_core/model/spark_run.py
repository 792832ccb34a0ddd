"""Types that Verifications and Rebalances share, because Spark jobs do the work of both."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import MAX_INT64
from chiplog_core.limits import MAX_LABEL_LENGTH, MAX_MESSAGE_LENGTH
from chiplog_core.manifest.constraints import Length, Range
from chiplog_core.model.references import ObjectName
from chiplog_core.model.spark import SparkLauncher

BytesPerSecond = Annotated[int, Range(1, MAX_INT64)]
Count = Annotated[int, Range(0, MAX_INT64)]
RunNumber = Annotated[int, Range(0, MAX_INT64)]
Digest = Annotated[str, Length(MAX_LABEL_LENGTH)]


class RunState(StrEnum):
    """The state of a Spark application, the same for all launchers."""

    WANTED = "Wanted"
    """The operator creates it, and has not observed it yet."""
    PENDING = "Pending"
    SUBMITTED = "Submitted"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    GONE = "Gone"
    """It existed, and somebody deleted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of a job, as its driver reports it."""

    bytes: Annotated[Count, "Number of bytes read so far, over all replicas."] = 0
    bytes_total: Annotated[
        Count | None, "Estimated number of bytes to read, over all replicas."
    ] = None
    partitions: Annotated[Count, "Number of partitions that were read completely."] = 0
    partitions_total: Annotated[Count, "Number of partitions to read."] = 0
    percent: Annotated[int, "Percentage of the offsets that were read so far.", Range(0, 100)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """The Spark application of the last run."""

    name: Annotated[
        ObjectName, "Name of the Spark application, which is in the namespace of this object."
    ]
    launcher: Annotated[
        SparkLauncher,
        "What runs the Spark application: Kubeflow, Apache or Job. Auto: not chosen yet.",
    ] = SparkLauncher.AUTO
    kind: Annotated[
        str, "Kind of the Kubernetes object that runs the Spark application, like Job.", Length(63)
    ] = ""
    state: Annotated[RunState, "State of the Spark application."] = RunState.WANTED
    reason: Annotated[
        str, "Why the Spark application makes no progress, in one word.", Length(128)
    ] = ""
    message: Annotated[
        str, "Why the Spark application makes no progress, as Kubernetes reports it.", Length(4_096)
    ] = ""
    attempt: Annotated[
        int | None,
        "Number of the attempt to run the Spark application, from 1.",
        Range(1, MAX_INT64),
    ] = None
    progress: Annotated[
        RunProgress | None, "Progress of the Spark application; not set if it does not report it."
    ] = None
    has_run: Annotated[bool, "Whether the Spark application's driver has ever run."] = False
    waiting_since: Annotated[
        datetime | None,
        "Since when the Spark application's driver or all its executors have not been "
        "running; not set while both run.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much a run has read."""

    topics: Annotated[Count, "Number of topics that were read."] = 0
    partitions: Annotated[Count, "Number of partitions that were read."] = 0
    replicas: Annotated[Count, "Number of replicas that were read."] = 0
    records: Annotated[Count, "Number of records that were read, over all replicas."] = 0
    bytes: Annotated[Count, "Number of stored bytes that were read, over all replicas."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A finished run."""

    application: Annotated[ObjectName, "Name of the run's Spark application."]
    launcher: Annotated[
        SparkLauncher, "What ran the run's Spark application: Kubeflow, Apache or Job."
    ] = SparkLauncher.AUTO
    succeeded: Annotated[bool, "Whether the run was completed, whatever it found."] = False
    finished_at: Annotated[datetime | None, "When the run ended."] = None
    violations_total: Annotated[Count, "Number of violations that the run found."] = 0
    reason: Annotated[str, "Reason of the run's result, in one word.", Length(128)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the last run ended."""

    complete: Annotated[bool, "Whether the run or step was completed, whatever it found."] = False
    reason: Annotated[str, "Reason of the result, in one word.", Length(128, minimum=1)]
    message: Annotated[
        str, "Explanation of the result, for people.", Length(MAX_MESSAGE_LENGTH)
    ] = ""
