"""The result of a Spark job: the driver writes it to a ConfigMap, and the operator reads it there.

A result always fits into the ConfigMap: it lists only the first violations, with their total
number. A job of a newer version may write more fields, which are ignored.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, TypeVar

from chiplog_core.ids import MAX_INT64, BrokerId, Offset, PartitionIndex
from chiplog_core.limits import MAX_REFETCHES
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.manifest.documents import Flaw, UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.references import ObjectName, TopicName
from chiplog_core.problems import InvalidManifest

T = TypeVar("T")

RESULT_KEY = "result.json"
"""The key of the result in the ConfigMap that the request names."""

MAX_RESULT_BYTES = 512 * 1024
MAX_VIOLATIONS = 100
"""How many violations a result lists; all of them are counted."""

MAX_MESSAGE_LENGTH = 4_096

CRASHED = "JobCrashed"
"""Reason of a result whose job ended with an unexpected error: another attempt may succeed."""


class ResultState(StrEnum):
    """How a job ended."""

    SUCCEEDED = "Succeeded"
    """The job finished, whether or not it found violations."""
    FAILED = "Failed"


class Check(StrEnum):
    """The checks that a Verification makes."""

    CRC = "Crc"
    OFFSET_GAP = "OffsetGap"
    OFFSET_OVERLAP = "OffsetOverlap"
    EPOCH_REGRESSION = "EpochRegression"
    REPLICA_MISMATCH = "ReplicaMismatch"
    MISSING_SEGMENT = "MissingSegment"
    TRUNCATED_TAIL = "TruncatedTail"
    KEY_PLACEMENT = "KeyPlacement"
    COMPACTION_ORDER = "CompactionOrder"
    TIMESTAMP = "Timestamp"
    TRANSACTION_MARKER = "TransactionMarker"
    LAST_STABLE_OFFSET = "LastStableOffset"
    TRANSACTION_INDEX = "TransactionIndex"


REPAIRABLE = frozenset(
    {
        Check.CRC,
        Check.OFFSET_GAP,
        Check.REPLICA_MISMATCH,
        Check.MISSING_SEGMENT,
        Check.TRUNCATED_TAIL,
    }
)
"""Checks whose violation shows that one replica is damaged: fetching it again repairs it."""

MAX_ACCUSED = 10 * MAX_REFETCHES
"""How many damaged replicas a job lists at most. If there are more, none is listed and all are
counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation."""

    check: Annotated[Check, "The check that is violated."]
    topic: Annotated[TopicName, "Name of the topic in which the violation was found."]
    partition: Annotated[
        PartitionIndex, "Number of the partition in which the violation was found."
    ]
    offset: Annotated[
        Offset | None,
        "Offset at which the violation was found; absent if it is not about one offset.",
    ] = None
    replica: Annotated[
        BrokerId | None,
        "Id of the broker with the replica in which the violation was found; absent if "
        "the violation is about all replicas.",
    ] = None
    message: Annotated[str, "What was found and what was expected.", Length(MAX_MESSAGE_LENGTH)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """A result without its summary."""

    application: Annotated[ObjectName, "Name of the application that ran the job."]
    state: Annotated[ResultState, "How the job ended."]
    reason: Annotated[
        str,
        "Reason of the state, as one CamelCase word.",
        Length(128, minimum=1),
        Pattern("[A-Z][A-Za-z0-9]*", "CamelCase"),
    ]
    message: Annotated[str, "Explanation of the state.", Length(MAX_MESSAGE_LENGTH)] = ""
    violations: Annotated[
        tuple[Violation, ...], "The first violations.", Items(MAX_VIOLATIONS)
    ] = ()
    violations_total: Annotated[int, "Number of all violations.", Range(0, MAX_INT64)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a job."""

    application: str
    state: ResultState
    reason: str
    message: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Figures that depend on the kind of job, as parsed JSON: numbers, texts, lists and objects."""
    violations: tuple[Violation, ...] = ()
    violations_total: int = 0
    """Number of all violations, including those that are not listed."""

    def summary_as(self, cls: type[T]) -> T:
        """The summary as an object of `cls`, which declares the figures of one kind of job.
        Fractions are rounded, because statuses have whole numbers only.

        Raises `UnreadableDocument`, which names every wrong field.
        """
        figures = _rounded(dict(self.summary))
        try:
            found: T = read(object_shape(cls), figures, "summary", Unknown.IGNORE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return found

    def fitted(self) -> "Result":
        """The result with its messages and its list of violations cut to their limits.
        `violations_total` still counts all violations."""
        kept = tuple(
            replace(violation, message=_cut(violation.message))
            for violation in self.violations[:MAX_VIOLATIONS]
        )
        total = max(self.violations_total, len(self.violations))
        return replace(self, message=_cut(self.message), violations=kept, violations_total=total)

    def to_json(self) -> str:
        """The text of `result.json`, with as many violations as fit.

        Raises `UnreadableDocument` if the summary alone is too large or not JSON, or a field has a
        wrong form.
        """
        fitting = self.fitted()
        text = _text(fitting)
        while len(text) > MAX_RESULT_BYTES and fitting.violations:
            half = len(fitting.violations) // 2  # each attempt lists half as many violations
            fitting = replace(fitting, violations=fitting.violations[:half])
            text = _text(fitting)
        Result.from_json(text, application=self.application)  # raises if a field is not valid
        return text

    @staticmethod
    def from_json(text: str | bytes, *, application: str) -> "Result":
        """Read the `result.json` of an application; raises `UnreadableDocument`."""
        value = object_of(text, "result", limit_bytes=MAX_RESULT_BYTES)
        named_application = value.get("application")
        if named_application != application:
            message = f"the result is of application {named_application!r}, not of {application}"
            raise UnreadableDocument(Flaw.OF_ANOTHER, message)
        summary = value.pop("summary", {})
        if not isinstance(summary, dict):
            raise UnreadableDocument(
                Flaw.INVALID, "result.summary is not an object: write an object"
            )
        try:
            head: _Head = read(object_shape(_Head), value, "result", Unknown.IGNORE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        listed = len(head.violations)
        if head.violations_total < listed:
            message = (
                f"result.violationsTotal is {head.violations_total}, and {listed} violations are "
                "listed"
            )
            raise UnreadableDocument(Flaw.INVALID, message)
        return Result(**{name: getattr(head, name) for name in HEAD}, summary=summary)


HEAD = tuple(found.name for found in dataclasses.fields(_Head))
"""Names of the fields of a result except `summary`."""


def failed(application: str, reason: str, message: str) -> Result:
    """The result of a job that failed."""
    return Result(
        application=application, state=ResultState.FAILED, reason=reason, message=_cut(message)
    )


def _text(result: Result) -> str:
    """The result as JSON text, whatever its size. Raises `UnreadableDocument` if the summary is not
    JSON."""
    head = _Head(**{name: getattr(result, name) for name in HEAD})
    try:
        return text_of({**write(head), "summary": dict(result.summary)})
    except (TypeError, ValueError, RecursionError) as problem:
        message = f"the summary is not JSON ({problem})"
        raise UnreadableDocument(Flaw.NOT_JSON, message) from problem


def _rounded(value: Any) -> Any:
    """The JSON value with every fraction rounded to a whole number."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value) if isinstance(value, float) and isfinite(value) else value


def _cut(text: str) -> str:
    """The text, shortened to the limit of a message."""
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[: MAX_MESSAGE_LENGTH - 1] + "…"
