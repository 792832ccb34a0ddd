"""Parses objects in caches, each version once."""

from collections.abc import Container, Mapping, Sized
from typing import Generic, Protocol, TypeVar

from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.resource import Resource
from chiplog_core.problems import InvalidManifest, Problem
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey, key_of

R = TypeVar("R", bound=Resource)

SPARE = 100
"""Deleted objects are forgotten only if there are more than this many of them."""


class _Keys(Sized, Container[ObjectKey], Protocol):
    """The keys of all existing objects."""


class Parsed(Generic[R]):
    """Parses the objects of one kind, each once, and remembers the object or its problems.

    A manifest is parsed again if it is another Python object, because nobody changes manifests in
    a cache in place. The resource version would not do: after a restored backup, the same version
    may have other content.
    """

    def __init__(self, model: type[R]) -> None:
        self._model = model
        self._known: dict[ObjectKey, tuple[Manifest, R | tuple[Problem, ...]]] = {}

    def read(self, manifest: Manifest) -> R | tuple[Problem, ...]:
        """The parsed object, or all problems that prevent parsing. An unchanged manifest is not
        parsed again."""
        key = key_of(manifest)
        known = self._known.get(key)
        if known is not None and known[0] is manifest:
            return known[1]
        found: R | tuple[Problem, ...]
        try:
            found = self._model.from_manifest(manifest)
        except InvalidManifest as invalid:
            found = invalid.problems
        self._known[key] = (manifest, found)
        return found

    def readable(self, manifests: Mapping[ObjectKey, Manifest]) -> dict[ObjectKey, R]:
        """The objects that can be parsed, by their keys. All others are left out."""
        found = {key: self.read(manifest) for key, manifest in manifests.items()}
        return {key: parsed for key, parsed in found.items() if not isinstance(parsed, tuple)}

    def sweep(self, manifests: _Keys) -> None:
        """Forget deleted objects, but only when there are many of them, because this looks at every
        object. `manifests` has the existing ones."""
        if len(self._known) > 2 * len(manifests) + SPARE:
            self._known = {key: known for key, known in self._known.items() if key in manifests}


def metadata_of(manifest: Manifest) -> Metadata:
    """The metadata of an object. It can be parsed even if the spec is invalid."""
    found: Metadata = read(
        object_shape(Metadata), manifest.get("metadata") or {}, "metadata", Unknown.IGNORE
    )
    return found
