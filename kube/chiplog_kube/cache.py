"""What is known of all objects of a kind: never older than what was already seen.

Three sources feed it, in any order: lists, watch events, and the answers to own writes, which
are known before any watch event arrives. Invariants: by events and writes an object never goes
back to an older resource version, and one that was seen deleted (by its uid) never comes back.
A consistent read shows everything that was known before it began, so it alone may take that
back: an etcd that was restored to an older copy counts its versions again. What became known
while it was in progress (`now`) is compared by version, as ever.
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


def as_it_is(manifest: Manifest) -> Manifest:
    """The default for `keep`: the whole object."""
    return manifest


class ObjectCache:
    """The objects of one kind by namespace and name.

    `keep` returns the part of an object to store. That must include namespace, name, uid and
    resource version.
    """

    def __init__(
        self,
        on_change: OnChange,
        keep: Callable[[Manifest], Manifest] = as_it_is,
    ) -> None:
        self._objects: dict[ObjectKey, Manifest] = {}
        self._on_change = on_change
        self._keep = keep
        self._moment = 0
        self._seen: dict[ObjectKey, int] = {}
        """The moment of the cache's own clock at which each object was stored last."""
        self._deleted: OrderedDict[str, int] = OrderedDict()
        """The moment at which each uid was removed, the oldest first."""

    @property
    def objects(self) -> Mapping[ObjectKey, Manifest]:
        return MappingProxyType(self._objects)

    def get(self, namespace: str, name: str) -> Manifest | None:
        return self._objects.get(ObjectKey(namespace, name))

    def values(self) -> Iterator[Manifest]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def now(self) -> int:
        """The current moment of the cache's own clock, which counts changes. Take it before a
        consistent read begins, and pass it to `put` or `replace` as `since`."""
        return self._moment

    def put(self, manifest: Manifest, *, since: int | None = None) -> None:
        """Store an object as the API server returned it, unless a newer state of it is cached, or
        it was removed.

        `since` is given for a consistent read: the moment (`now`) before it began. The read then
        replaces everything cached before that moment, even if that has a higher resource version:
        etcd may have been restored to an older copy. An object removed before that moment exists
        again.
        """
        key = key_of(manifest)
        before = self._objects.get(key)
        is_read_newer = since is not None and self._seen.get(key, 0) <= since
        if since is not None and self._deleted.get(uid_of(manifest), since + 1) <= since:
            del self._deleted[uid_of(manifest)]
        if uid_of(manifest) in self._deleted:
            return
        if before is not None:
            if not is_read_newer and is_older(version_of(manifest), version_of(before)):
                return
            is_same = uid_of(before) == uid_of(manifest)
            if not is_same:
                # The old object was deleted, and this one was created under its name.
                self._remember_deletion(before)
            elif version_of(before) == version_of(manifest) and not is_read_newer:
                return
        kept = self._keep(manifest)
        if before == kept:
            return
        self._objects[key] = kept
        self._seen[key] = self._tick()
        self._on_change(before, kept)

    def remove(self, manifest: Manifest) -> None:
        """Remove the object with this uid, and do not store it again. Call it only when the object
        does not exist any more, not while it is being deleted."""
        key = key_of(manifest)
        self._remember_deletion(manifest)
        before = self._objects.get(key)
        if before is not None and uid_of(before) == uid_of(manifest):
            del self._objects[key]
            self._seen.pop(key, None)
            self._on_change(before, None)

    def apply(self, event: WatchEvent) -> None:
        """Take over a watch event. Bookmarks change nothing."""
        if event.type is EventType.DELETED:
            self.remove(event.object)
        elif event.type is not EventType.BOOKMARK:
            self.put(event.object)

    def replace(self, listed: ObjectList, namespace: str = "", *, since: int | None = None) -> None:
        """Take over a list of all objects of a namespace (or of all), and remove cached objects
        that it lacks. The list may be outdated by now, so newer cached objects stay.

        With `since`, the moment (`now`) before the list began, it replaces everything that was
        cached before, whatever its version.
        """
        present = set()
        for manifest in listed.items:
            present.add(key_of(manifest))
            self.put(manifest, since=since)
        for key, manifest in self._absent(present, namespace):
            # An object newer than the list was created after it, so its absence means nothing.
            is_older_than_list = since is not None and self._seen.get(key, 0) <= since
            if is_older_than_list or not is_older(listed.resource_version, version_of(manifest)):
                self.remove(manifest)

    def _absent(
        self, present: set[ObjectKey], namespace: str
    ) -> Iterable[tuple[ObjectKey, Manifest]]:
        """The cached objects of a namespace that a list does not contain."""
        return [
            (key, manifest)
            for key, manifest in self._objects.items()
            if key not in present and namespace in {"", key.namespace}
        ]

    def _tick(self) -> int:
        """Advance the cache's own clock by one change, and return its new moment."""
        self._moment += 1
        return self._moment

    def _remember_deletion(self, manifest: Manifest) -> None:
        """Remember a deleted uid, so that an older state of it is not stored again. The oldest is
        forgotten if there are too many."""
        self._deleted[uid_of(manifest)] = self._tick()
        self._deleted.move_to_end(uid_of(manifest))
        if len(self._deleted) > MAX_REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
