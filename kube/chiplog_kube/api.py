"""The port to the API server, and what it may answer.

Invariants every implementation keeps: `list_` is consistent (a quorum read, never a cache's), so
that absence from it means absence; `replace` writes only over the resource version it was given;
an answer that never came is `Unavailable`, and the write may have happened all the same.
"""

# ruff: noqa: N818 - errors are named for what they say

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from chiplog_kube.kinds import Kind

Manifest: TypeAlias = dict[str, Any]
"""An object as the API server sends it: `apiVersion`, `kind`, `metadata`, `spec`, …"""


class ApiError(Exception):
    """The API server's answer was not what was asked for. `str()` is its own message."""


class Unavailable(ApiError):
    """No answer, a 5xx or a 429: ask again later; a write may have happened."""


class NotFound(ApiError):
    """404: there is no such object, or no such kind any more."""


class AlreadyExists(ApiError):
    """409 to a create."""


class Conflict(ApiError):
    """409 to a write: the object is not the one that was read."""


class Gone(ApiError):
    """410: this resource version is too old to watch from. List again."""


class Forbidden(ApiError):
    """401 or 403."""


class Invalid(ApiError):
    """400 or 422: the schema, a CEL rule or an admission policy refuses the object."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """All objects of a kind at one moment."""

    items: list[Manifest]
    resource_version: str


class EventType(StrEnum):
    """What happened to a watched object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change; a BOOKMARK's object has nothing but its resource version."""

    type: EventType
    object: Manifest


class KubeApi(Protocol):
    """What Chiplog asks of the API server. Every method raises `ApiError`s.

    `field_manager` names who writes, in the object's managedFields. `subresource` is "status"
    or empty. Namespaces are empty for all namespaces (`list_`, `watch`) and for kinds without.
    """

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        """All objects that match the selectors, by a consistent read."""

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """The changes after a resource version, including bookmarks. Ends when the server ends the
        watch.

        Raises `Gone` if that version is too old, and `Unavailable` if the connection breaks or is
        silent for too long.
        """

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest: ...

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest: ...

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """Replace the object whose resource version the manifest's metadata names. Raises
        `Conflict` if it changed."""

    async def patch(  # noqa: PLR0913 - what the API server lets one say
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Mapping[str, object],
        *,
        field_manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        """Apply a JSON merge patch (RFC 7396). It is a compare-and-set if it has
        `metadata.resourceVersion`.

        A patch of the status is applied to any object of that name, whatever its uid. Only the
        resource version prevents that.
        """

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Server-side apply with force: the fields then belong to this manager.

        With `metadata.uid` in the manifest, raises `Conflict` if that very object does not exist.
        """

    async def apply_new(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create the object, with fields that belong to this manager as after `apply`. Raises
        `AlreadyExists` if it exists."""

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        orphan: bool = False,
    ) -> None:
        """Delete the object. With `uid` or `resource_version`, raises `Conflict` if the object of
        that name has another one. `orphan` keeps the objects that it owns."""


async def get_or_none(api: KubeApi, kind: Kind, namespace: str, name: str) -> Manifest | None:
    """The object by a consistent read; None if there is none."""
    try:
        return await api.get(kind, namespace, name)
    except NotFound:
        return None
