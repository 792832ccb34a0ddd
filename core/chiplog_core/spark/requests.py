"""The request to a Spark job: the operator writes it to a ConfigMap, the driver reads it.

The part that all kinds of jobs share is read here; a kind's own fields are under `job`, read by
the job with a declaration of its own (`Request.job_as`). A field that is not known is a wish that
would not be fulfilled: it is refused.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from chiplog_core.manifest.constraints import Length, Pattern
from chiplog_core.manifest.documents import Flaw, UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.references import Namespace, ObjectName
from chiplog_core.problems import InvalidManifest

T = TypeVar("T")

REQUEST_KEY = "request.json"
"""Of the ConfigMap that is mounted into the driver's pod."""

MAX_REQUEST_BYTES = 512 * 1024

Bootstrap = Annotated[
    str,
    Length(4_096, minimum=1),
    Pattern(r"[^\s,:]+:[0-9]{1,5}(,[^\s,:]+:[0-9]{1,5})*", "host:port, several with commas"),
]


class JobKind(StrEnum):
    """What a Spark job is for."""

    VERIFICATION = "Verification"
    REBALANCE = "Rebalance"
    EXPORT = "Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPlace:
    """Where the driver writes its result."""

    config_map: Annotated[ObjectName, "Name of a ConfigMap in the job's namespace."]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What all kinds have in common."""

    kind: Annotated[JobKind, "Kind of the job."]
    application: Annotated[ObjectName, "Name of the application that runs it."]
    namespace: Annotated[Namespace, "Where the application and the result are."]
    bootstrap: Annotated[Bootstrap, "bootstrap.servers of the cluster."]
    result: Annotated[ResultPlace, "Where the result is written."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A job to be done."""

    kind: JobKind
    application: str
    """Repeated in the result, so that nobody takes another run's for this one's."""
    namespace: str
    bootstrap: str
    result: ResultPlace
    job: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own fields, as JSON has them."""

    def job_as(self, cls: type[T]) -> T:
        """The fields of one kind of job. Raises `UnreadableDocument`, which names every wrong
        field."""
        try:
            found: T = read(object_shape(cls), self.job, "job", Unknown.REFUSE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return found

    def to_json(self) -> str:
        """The text of `request.json`. Raises `UnreadableDocument` if a job could not parse it."""
        head = _Head(**{name: getattr(self, name) for name in HEAD})
        text = text_of({**write(head), "job": dict(self.job)})
        Request.from_json(text)
        return text

    @staticmethod
    def from_json(text: str | bytes) -> "Request":
        """Parse `request.json`. Raises `UnreadableDocument`."""
        value = object_of(text, "request", limit_bytes=MAX_REQUEST_BYTES)
        value.pop("version", None)
        job = value.pop("job", {})
        if not isinstance(job, dict):
            raise UnreadableDocument(Flaw.INVALID, "request.job is not an object: write an object")
        try:
            head: _Head = read(object_shape(_Head), value, "request", Unknown.REFUSE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return Request(**{name: getattr(head, name) for name in HEAD}, job=job)


HEAD = tuple(found.name for found in dataclasses.fields(_Head))
