"""What the kinds whose work is done by Spark jobs have in common, in spec and status."""

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
    """How far an application has come, whichever launcher runs it."""

    WANTED = "Wanted"
    """It is to be made, and was not seen yet."""
    PENDING = "Pending"
    SUBMITTED = "Submitted"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    GONE = "Gone"
    """It was there, and somebody removed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a job is, as its driver tells it while it works."""

    bytes: Annotated[Count, "Bytes that were read, of all copies."] = 0
    bytes_total: Annotated[
        Count | None, "About how many there are, by the offsets that are left."
    ] = None
    partitions: Annotated[Count, "Partitions that were read to their end."] = 0
    partitions_total: Annotated[Count, "How many there are."] = 0
    percent: Annotated[int, "Percent of the offsets that were read.", Range(0, 100)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """The Spark application of the last run."""

    name: Annotated[ObjectName, "Its name, in this object's namespace."]
    launcher: Annotated[
        SparkLauncher, "What runs it: Kubeflow, Apache or Job. Auto: not chosen yet."
    ] = SparkLauncher.AUTO
    kind: Annotated[str, "Kind of the object that runs it, like Job.", Length(63)] = ""
    state: Annotated[RunState, "How far it has come."] = RunState.WANTED
    reason: Annotated[str, "Why it does not go on, in one word.", Length(128)] = ""
    message: Annotated[str, "Why it does not go on, in Kubernetes' words.", Length(4_096)] = ""
    attempt: Annotated[int | None, "Which attempt it is, counted from 1.", Range(1, MAX_INT64)] = (
        None
    )
    progress: Annotated[
        RunProgress | None, "How far its job is; not set where that tells nothing."
    ] = None
    has_run: Annotated[bool, "Whether its driver ran."] = False
    waiting_since: Annotated[
        datetime | None,
        "Since when its driver does not run, or no executor does; not set while both do.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much a run has read."""

    topics: Annotated[Count, "How many topics."] = 0
    partitions: Annotated[Count, "How many partitions."] = 0
    replicas: Annotated[Count, "Copies of partitions."] = 0
    records: Annotated[Count, "Records, of all copies."] = 0
    bytes: Annotated[Count, "Bytes as they are stored, of all copies."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that is over."""

    application: Annotated[ObjectName, "Name of its application."]
    launcher: Annotated[SparkLauncher, "What ran it."] = SparkLauncher.AUTO
    succeeded: Annotated[bool, "Whether it did what it was to do, whatever it found."] = False
    finished_at: Annotated[datetime | None, "When it was over."] = None
    violations_total: Annotated[Count, "How many violations it found."] = 0
    reason: Annotated[str, "How it ended, in one word.", Length(128)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the last run ended."""

    complete: Annotated[bool, "Whether it did all that it was to do, whatever it found."] = False
    reason: Annotated[str, "How it ended, in one word.", Length(128, minimum=1)]
    message: Annotated[str, "How it ended, in a sentence.", Length(MAX_MESSAGE_LENGTH)] = ""
