"""Objects as values, each read once per version."""

from typing import Generic, TypeVar

from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.resource import Resource
from chiplog_core.problems import InvalidManifest, Problem
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey, key_of, uid_of, version_of

R = TypeVar("R", bound=Resource)


class Parsed(Generic[R]):
    """The objects of one kind; what does not read is remembered as its problems."""

    def __init__(self, model: type[R]) -> None:
        self._model = model
        self._known: dict[ObjectKey, tuple[tuple[str, str], R | tuple[Problem, ...]]] = {}

    def read(self, manifest: Manifest) -> R | tuple[Problem, ...]:
        """The object, or all that is wrong with it."""
        key, version = key_of(manifest), (uid_of(manifest), version_of(manifest))
        known = self._known.get(key)
        if known is not None and known[0] == version:
            return known[1]
        found: R | tuple[Problem, ...]
        try:
            found = self._model.from_manifest(manifest)
        except InvalidManifest as invalid:
            found = invalid.problems
        self._known[key] = (version, found)
        return found

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._known.pop(key, None)


def metadata_of(manifest: Manifest) -> Metadata:
    """An object's metadata alone, which reads also where its spec does not."""
    found: Metadata = read(
        object_shape(Metadata), manifest.get("metadata") or {}, "metadata", Unknown.IGNORE
    )
    return found
