"""What is known of all objects of a kind: never older than what was already seen.

Three sources feed it, in any order: lists, watch events, and the answers to own writes, which
are known before any watch tells of them. Invariants: an object never goes back to an older
resource version, and one that was seen deleted (by its uid) never comes back, whatever late
list or event still shows it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from chiplog_kube.api import EventType, Manifest, ObjectList, WatchEvent
from chiplog_kube.manifests import ObjectKey, is_older, key_of, uid_of, version_of

OnChange: TypeAlias = Callable[[Manifest | None, Manifest | None], None]
"""Called with the object before and after; None where it was or is not there."""

MAX_REMEMBERED_DELETIONS = 10_000


def ignore_change(_before: Manifest | None, _after: Manifest | None) -> None:
    """For caches nobody listens to."""


def as_it_is(manifest: Manifest) -> Manifest:
    """Keep all of an object."""
    return manifest


class ObjectCache:
    """The objects of one kind by namespace and name.

    `keep` makes of an object what is worth its memory; it must keep the metadata's identity.
    """

    def __init__(
        self,
        on_change: OnChange = ignore_change,
        keep: Callable[[Manifest], Manifest] = as_it_is,
    ) -> None:
        self._objects: dict[ObjectKey, Manifest] = {}
        self._on_change = on_change
        self._keep = keep
        self._deleted: OrderedDict[str, None] = OrderedDict()

    @property
    def objects(self) -> Mapping[ObjectKey, Manifest]:
        return MappingProxyType(self._objects)

    def get(self, namespace: str, name: str) -> Manifest | None:
        return self._objects.get(ObjectKey(namespace, name))

    def values(self) -> Iterator[Manifest]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, manifest: Manifest) -> None:
        """The object is, or was a moment ago, in this state."""
        key = key_of(manifest)
        before = self._objects.get(key)
        if uid_of(manifest) in self._deleted:
            return
        if before is not None:
            if is_older(version_of(manifest), version_of(before)):
                return
            if uid_of(before) != uid_of(manifest):
                self._remember_deletion(before)
            elif version_of(before) == version_of(manifest):
                return
        kept = self._keep(manifest)
        self._objects[key] = kept
        self._on_change(before, kept)

    def remove(self, manifest: Manifest) -> None:
        """The object with this uid is gone. Only for what is really gone, not being deleted."""
        key = key_of(manifest)
        self._remember_deletion(manifest)
        before = self._objects.get(key)
        if before is not None and uid_of(before) == uid_of(manifest):
            del self._objects[key]
            self._on_change(before, None)

    def apply(self, event: WatchEvent) -> None:
        """A watch event; bookmarks change nothing."""
        if event.type is EventType.DELETED:
            self.remove(event.object)
        elif event.type is not EventType.BOOKMARK:
            self.put(event.object)

    def replace(self, listed: ObjectList, namespace: str = "") -> None:
        """All objects of a namespace (or of all) at one moment, which may be past by now."""
        present = set()
        for manifest in listed.items:
            present.add(key_of(manifest))
            self.put(manifest)
        for manifest in self._absent(present, namespace):
            # What is newer than the list was made after it, so its absence says nothing.
            if not is_older(listed.resource_version, version_of(manifest)):
                self.remove(manifest)

    def _absent(self, present: set[ObjectKey], namespace: str) -> Iterable[Manifest]:
        return [
            manifest
            for key, manifest in self._objects.items()
            if key not in present and namespace in {"", key.namespace}
        ]

    def _remember_deletion(self, manifest: Manifest) -> None:
        self._deleted[uid_of(manifest)] = None
        if len(self._deleted) > MAX_REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
