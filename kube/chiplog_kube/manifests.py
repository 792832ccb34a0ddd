"""Reading the few fields that every object has, and telling which of two states is the newer."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from chiplog_kube.api import Manifest

ResourceVersion: TypeAlias = str


class ObjectKey(NamedTuple):
    """Where an object is, within its kind. The namespace is empty for kinds without."""

    namespace: str
    name: str


def metadata(manifest: Manifest) -> dict[str, Any]:
    return cast("dict[str, Any]", manifest.get("metadata") or {})


def key_of(manifest: Manifest) -> ObjectKey:
    meta = metadata(manifest)
    return ObjectKey(meta.get("namespace", ""), meta["name"])


def uid_of(manifest: Manifest) -> str:
    return str(metadata(manifest).get("uid", ""))


def version_of(manifest: Manifest) -> ResourceVersion:
    return str(metadata(manifest).get("resourceVersion", ""))


def labels_of(manifest: Manifest) -> dict[str, str]:
    return cast("dict[str, str]", metadata(manifest).get("labels") or {})


def annotations_of(manifest: Manifest) -> dict[str, str]:
    return cast("dict[str, str]", metadata(manifest).get("annotations") or {})


def condition_of(manifest: Manifest, type_: str) -> Mapping[str, Any]:
    """The condition of this type; empty if there is none."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def is_older(version: ResourceVersion, than: ResourceVersion) -> bool:
    """Whether a resource version is certainly older than the other.

    They are etcd revisions: whole numbers that only grow. If a version is not a number, nothing is
    known, and the object that arrived last counts.
    """
    if version.isdigit() and than.isdigit():
        return int(version) < int(than)
    return False


def without_managed_fields(manifest: Manifest) -> Manifest:
    """The object without managedFields, which can be most of its size."""
    metadata(manifest).pop("managedFields", None)
    return manifest
