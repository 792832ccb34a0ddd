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

    bytes: Annotated[Count, "Bytes read, over all replicas."] = 0
    bytes_total: Annotated[Count | None, "Estimated total number of bytes."] = None
    partitions: Annotated[Count, "Partitions that were read completely."] = 0
    partitions_total: Annotated[Count, "Number of partitions."] = 0
    percent: Annotated[int, "Percentage of the offsets that were read.", Range(0, 100)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """The Spark application of the last run."""

    name: Annotated[ObjectName, "Its name, in this object's namespace."]
    launcher: Annotated[
        SparkLauncher, "Launcher of the application: Kubeflow, Apache or Job. Auto: not chosen yet."
    ] = SparkLauncher.AUTO
    kind: Annotated[str, "Kind of the object that runs it, like Job.", Length(63)] = ""
    state: Annotated[RunState, "State of the application."] = RunState.WANTED
    reason: Annotated[str, "Why it makes no progress, in one word.", Length(128)] = ""
    message: Annotated[
        str, "Why it makes no progress, as Kubernetes reports it.", Length(4_096)
    ] = ""
    attempt: Annotated[int | None, "Number of the attempt, from 1.", Range(1, MAX_INT64)] = None
    progress: Annotated[
        RunProgress | None, "Progress of the job; not set if the job does not report it."
    ] = None
    has_run: Annotated[bool, "Whether its driver has ever run."] = False
    waiting_since: Annotated[
        datetime | None,
        "Since when the driver or all executors have not been running; not set while both run.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much a run has read."""

    topics: Annotated[Count, "Number of topics."] = 0
    partitions: Annotated[Count, "Number of partitions."] = 0
    replicas: Annotated[Count, "Number of replicas."] = 0
    records: Annotated[Count, "Number of records, over all replicas."] = 0
    bytes: Annotated[Count, "Stored bytes, over all replicas."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A finished run."""

    application: Annotated[ObjectName, "Name of its application."]
    launcher: Annotated[SparkLauncher, "Launcher of the application."] = SparkLauncher.AUTO
    succeeded: Annotated[bool, "Whether the run was completed, whatever it found."] = False
    finished_at: Annotated[datetime | None, "When it ended."] = None
    violations_total: Annotated[Count, "Number of violations that it found."] = 0
    reason: Annotated[str, "Reason of the result, in one word.", Length(128)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the last run ended."""

    complete: Annotated[bool, "Whether the run was completed, whatever it found."] = False
    reason: Annotated[str, "Reason of the result, in one word.", Length(128, minimum=1)]
    message: Annotated[str, "Explanation of the result.", Length(MAX_MESSAGE_LENGTH)] = ""
