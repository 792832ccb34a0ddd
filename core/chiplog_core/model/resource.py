"""What all kinds have in common: from a manifest and back.

Two families behave differently. In the spec of a *user's* object an unknown field is refused, since
what a user asks for must not be ignored, and its status is never trusted: whatever does not read is
as good as absent, because the operator writes it again. The *internal* objects are a conversation
between operator and brokers, possibly of neighbouring versions: unknown fields are ignored, and
anything else that does not read is an error, because unknown means stop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import FieldShape, object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming.api import API_VERSION, ResourceKind
from chiplog_core.problems import InvalidManifest, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An object of the API. Each kind adds its `spec` and, where it has one, its `status`."""

    KIND: ClassVar[ResourceKind]
    UNKNOWN_IN_SPEC: ClassVar[Unknown] = Unknown.IGNORE
    STATUS_IS_TRUSTED: ClassVar[bool] = True

    metadata: Metadata

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, object]) -> Self:
        """Read an object; raises `InvalidManifest` with every problem found."""
        problems = _wrong_kind(manifest, cls.KIND)
        parts: dict[str, Any] = {}
        for part in object_shape(cls).fields:
            try:
                parts[part.attribute] = cls._read_part(part, manifest)
            except InvalidManifest as invalid:
                problems.extend(invalid.problems)
        if problems:
            raise InvalidManifest(problems)
        return cls(**parts)

    @classmethod
    def _read_part(cls, part: FieldShape, manifest: Mapping[str, object]) -> object:
        unknown = cls.UNKNOWN_IN_SPEC if part.name == "spec" else Unknown.IGNORE
        try:
            return read(part.shape, manifest.get(part.name) or {}, part.name, unknown)
        except InvalidManifest:
            if part.name == "status" and not cls.STATUS_IS_TRUSTED:
                return part.default
            raise

    def to_manifest(self) -> dict[str, Any]:
        """The object as it is sent to the API server."""
        return {"apiVersion": API_VERSION, "kind": self.KIND.kind, **write(self)}


class UsersResource(Resource):
    """An object that users write."""

    __slots__ = ()

    UNKNOWN_IN_SPEC = Unknown.REFUSE
    STATUS_IS_TRUSTED = False


def _wrong_kind(manifest: Mapping[str, object], kind: ResourceKind) -> list[Problem]:
    wanted = {"apiVersion": API_VERSION, "kind": kind.kind}
    return [
        Problem(field, f"is {manifest.get(field)!r}", f"set it to {value}")
        for field, value in wanted.items()
        if manifest.get(field) != value
    ]
