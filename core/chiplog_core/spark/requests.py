"""The request to a Spark job: the operator writes it to a ConfigMap, the driver reads it.

The fields that all kinds of jobs share are read here. A kind's own fields are under `job`; the job
reads them into a dataclass of its own (`Request.job_as`). A request with an unknown field is
refused, because the job could not do what the field asks for.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from chiplog_core.limits import MAX_USERNAME_LENGTH
from chiplog_core.manifest.constraints import Length, Pattern
from chiplog_core.manifest.documents import Flaw, UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.references import Namespace, ObjectName
from chiplog_core.problems import InvalidManifest

T = TypeVar("T")

REQUEST_KEY = "request.json"
"""Key with the request in the ConfigMap that is mounted into the driver's pod."""

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


FilePath = Annotated[str, Length(4_096, minimum=1)]
"""Path of a file that is mounted into the pods of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramLogin:
    """A login with SCRAM-SHA-512."""

    username: Annotated[str, "Name of the user.", Length(MAX_USERNAME_LENGTH, minimum=1)]
    password_file: Annotated[FilePath, "Path of the mounted file with the password."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How the job connects to the brokers. It has no secrets, only the paths of their files."""

    tls: Annotated[bool, "Whether the listener has TLS."] = False
    ca_file: Annotated[
        FilePath | None,
        "With tls: path of the mounted file with the certificates of the CAs to trust. Default: "
        "those of the image.",
    ] = None
    certificate_file: Annotated[
        FilePath | None, "With tls: path of the mounted file with the job's own certificate."
    ] = None
    key_file: Annotated[
        FilePath | None, "With certificateFile: path of the mounted file with its key."
    ] = None
    login: Annotated[ScramLogin | None, "The login; absent if the listener asks for none."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedFields:
    """The fields of a request that all kinds of jobs share."""

    kind: Annotated[JobKind, "Kind of the job."]
    application: Annotated[ObjectName, "Name of the Job or SparkApplication that runs the job."]
    namespace: Annotated[Namespace, "Where the application and the result are."]
    bootstrap: Annotated[Bootstrap, "bootstrap.servers of the cluster."]
    connection: Annotated[
        Connection | None, "How to connect; absent for plain text without a login."
    ] = None
    result: Annotated[ResultPlace, "Where the result is written."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a job."""

    kind: JobKind
    application: str
    """Name of the application. The result repeats it, so that results of other runs are
    recognized."""
    namespace: str
    bootstrap: str
    result: ResultPlace
    connection: Connection | None = None
    """How to connect; None for plain text without a login."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own fields, as in the JSON document."""

    def job_as(self, cls: type[T]) -> T:
        """The kind's own fields as an instance of the dataclass `cls`. Raises `UnreadableDocument`,
        which names every wrong field."""
        try:
            found: T = read(object_shape(cls), self.job, "job", Unknown.REFUSE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return found

    def to_json(self) -> str:
        """The text of `request.json`. Raises `UnreadableDocument` if a job could not parse it."""
        shared = _SharedFields(**{name: getattr(self, name) for name in SHARED_FIELDS})
        text = text_of({**write(shared), "job": dict(self.job)})
        Request.from_json(text)  # raises if a job could not parse it
        return text

    @staticmethod
    def from_json(text: str | bytes) -> "Request":
        """Parse `request.json`. Raises `UnreadableDocument`."""
        value = object_of(text, "request", limit_bytes=MAX_REQUEST_BYTES)
        value.pop("version", None)  # tolerated in requests of other versions, and not used
        job = value.pop("job", {})
        if not isinstance(job, dict):
            raise UnreadableDocument(Flaw.INVALID, "request.job is not an object: write an object")
        try:
            shared: _SharedFields = read(
                object_shape(_SharedFields), value, "request", Unknown.REFUSE
            )
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return Request(**{name: getattr(shared, name) for name in SHARED_FIELDS}, job=job)


SHARED_FIELDS = tuple(found.name for found in dataclasses.fields(_SharedFields))
