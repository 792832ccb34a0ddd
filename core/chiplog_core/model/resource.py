"""Parses objects of all kinds from manifests, and writes them as manifests.

Objects that *users* write and *internal* objects are parsed differently. In the spec of a user's
object an unknown field is an error, because a user's intention must not be ignored. A status of it
that cannot be parsed counts as missing, because the operator writes it again. Internal objects are
exchanged between operator and brokers, which may have different versions: unknown fields are
ignored. Anything else that cannot be parsed is an error, because no decision may be based on a
guess.
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
        """Parse an object. Raises `InvalidManifest` with all problems of all its parts."""
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
        """Parse metadata, spec or status. A user's status that cannot be parsed is the empty one.
        Raises `InvalidManifest`."""
        unknown = cls.UNKNOWN_IN_SPEC if part.name == "spec" else Unknown.IGNORE
        try:
            return read(part.shape, manifest.get(part.name) or {}, part.name, unknown)
        except InvalidManifest:
            if part.name == "status" and not cls.STATUS_IS_TRUSTED:
                return part.default
            raise

    def to_manifest(self) -> dict[str, Any]:
        """The object as a manifest for the API server."""
        return {"apiVersion": API_VERSION, "kind": self.KIND.kind, **write(self)}


class UsersResource(Resource):
    """An object that users write."""

    __slots__ = ()

    UNKNOWN_IN_SPEC = Unknown.REFUSE
    STATUS_IS_TRUSTED = False


def _wrong_kind(manifest: Mapping[str, object], kind: ResourceKind) -> list[Problem]:
    """The problems that apiVersion or kind of the manifest are not those of this kind."""
    wanted = {"apiVersion": API_VERSION, "kind": kind.kind}
    return [
        Problem(field, f"is {manifest.get(field)!r}", f"set it to {value}")
        for field, value in wanted.items()
        if manifest.get(field) != value
    ]
