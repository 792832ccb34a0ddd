"""What an API server keeps: objects, one numbered history of them, and who may write over what.

Compare-and-set, finalizers, uids, label selectors, and graceful deletion of pods. It knows no
schemas. Nothing here waits: the way to it is `api_server.py`.
"""

import marshal
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chiplog_kube.api import (
    AlreadyExists,
    Conflict,
    EventType,
    Gone,
    Invalid,
    Manifest,
    NotFound,
    ObjectList,
    Unavailable,
    WatchEvent,
)
from chiplog_kube.kinds import PODS, Kind
from chiplog_kube.manifests import ObjectKey, key_of, labels_of, metadata

KEPT_CHANGES = 4000


def copied(manifest: Manifest) -> Manifest:
    """A deep copy of plain data."""
    made: Manifest = marshal.loads(marshal.dumps(manifest))  # noqa: S302 - our own bytes
    return made


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history; its object is never changed again."""

    version: int
    kind: Kind
    type: EventType
    object: Manifest
    labels_before: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or a watch asks for."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def takes(self, manifest: Manifest) -> bool:
        key = key_of(manifest)
        return (
            self.namespace in {"", key.namespace}
            and has_labels(self.labels, labels_of(manifest))
            and all(
                key.name == one.removeprefix("metadata.name=")
                for one in self.fields.split(",")
                if one
            )
        )

    def sees(self, change: Change) -> WatchEvent | None:
        """An object that enters the selection is ADDED, one that leaves it DELETED."""
        if change.kind != self.kind:
            return None
        before = change.labels_before
        was_in = before is not None and has_labels(self.labels, before)
        if self.namespace not in {"", key_of(change.object).namespace}:
            return None
        if change.type is not EventType.DELETED and self.takes(change.object):
            kind = EventType.MODIFIED if was_in else EventType.ADDED
        elif was_in:
            kind = EventType.DELETED
        else:
            return None
        return WatchEvent(kind, copied(change.object))


def is_own(kind: Kind) -> bool:
    """Whether it is one of Chiplog's definitions, all of which have a status subresource."""
    return kind.api_version.partition("/")[0].endswith("chiplog.dev")


def has_labels(selector: str, labels: Mapping[str, str]) -> bool:
    for one in filter(None, selector.split(",")):
        name, _, value = one.partition("=")
        if name not in labels or (value and labels[name] != value):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects at one version."""

    version: int
    objects: Mapping[Kind, Mapping[ObjectKey, Manifest]]


@dataclass(slots=True)
class ApiStore:
    """All objects. Every method raises as `KubeApi` says."""

    now: Callable[[], datetime]
    held: frozenset[Kind] = frozenset({PODS})
    """Kinds whose objects somebody must end by `remove`: the kubelet its pods."""
    on_change: list[Callable[[Change], None]] = field(default_factory=list)
    version: int = 0
    compacted: int = 0
    born: int = 0
    """How many objects were ever made, those that a restore took back too."""
    _objects: dict[Kind, dict[ObjectKey, Manifest]] = field(default_factory=dict)
    _applied: dict[tuple[Kind, ObjectKey], dict[str, Manifest]] = field(default_factory=dict)
    """What each manager applied to an object the last time."""
    _history: list[Change] = field(default_factory=list)
    _kept_versions: list[int] = field(default_factory=list)

    def compact(self) -> None:
        """Forget the history: older watches get `Gone`."""
        self.compacted = self.version
        self._history.clear()
        self._kept_versions.clear()

    def backup(self) -> Backup:
        """A copy, as `etcdctl snapshot save` makes one."""
        return Backup(self.version, {kind: dict(all_) for kind, all_ in self._objects.items()})

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """All is as it was then, and no watch tells. `bump`: how far versions are moved on from
        where they are or were in the copy, instead of back: never below those of its objects."""
        self._objects = {kind: dict(all_) for kind, all_ in backup.objects.items()}
        newest = max(self.version, backup.version)
        self.version = newest + bump if bump else backup.version
        self.compact()

    def all_of(self, kind: Kind) -> list[Manifest]:
        return [copied(one) for _, one in sorted(self._objects.get(kind, {}).items())]

    def find(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        found = self._objects.get(kind, {}).get(ObjectKey(namespace, name))
        return copied(found) if found else None

    def peek(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object itself, to be looked at only."""
        return self._objects.get(kind, {}).get(ObjectKey(namespace, name))

    # -- reads

    def list_(self, wanted: Selection) -> ObjectList:
        found = sorted(self._objects.get(wanted.kind, {}).items())
        items = [copied(one) for _, one in found if wanted.takes(one)]
        return ObjectList(items, str(self.version))

    def since(self, version: int) -> list[Change]:
        """All changes after it."""
        if version < self.compacted:
            raise Gone(f"too old resource version: {version} ({self.compacted})")
        return self._history[bisect_right(self._kept_versions, version) :]

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return copied(self._there(kind, ObjectKey(namespace, name)))

    # -- writes

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        made = copied(manifest)
        meta = made.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self.version + 1:x}"
        key = key_of(made)
        if is_own(kind):
            made.pop("status", None)
        if key in self._objects.get(kind, {}):
            raise AlreadyExists(f'{kind.plural} "{key.name}" already exists')
        if meta.get("resourceVersion"):
            # The real one answers 500 here, too.
            raise Unavailable("resourceVersion should not be set on objects to be created")
        self.born += not dry_run
        meta |= {
            "uid": f"uid-{self.born}",
            "generation": 1,
            "creationTimestamp": self._moment(),
        }
        return made if dry_run else self._store(kind, made, EventType.ADDED)

    def replace(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        before = self._there(kind, key_of(manifest))
        _check(before, metadata(manifest))
        if not metadata(manifest).get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: must be specified for an update")
        return self._update(kind, before, copied(manifest), subresource)

    def patch(
        self,
        kind: Kind,
        key: ObjectKey,
        patch: Mapping[str, object],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        before = self._there(kind, key)
        named = patch.get("metadata")
        given = named if isinstance(named, Mapping) else {}
        _check(before, {"resourceVersion": given.get("resourceVersion")})
        if given.get("uid", metadata(before)["uid"]) != metadata(before)["uid"]:
            raise Invalid("metadata.uid: field is immutable")
        patched: Manifest = merged(copied(before), patch)
        return patched if dry_run else self._update(kind, before, copied(patched), subresource)

    def apply(self, kind: Kind, manifest: Manifest, manager: str = "") -> Manifest:
        """What it names is set; what its manager named before and does not any more is removed.

        Lists are whole values here: no two managers share one.
        """
        key = key_of(manifest)
        owned = self._applied.get((kind, key), {})
        dropped = _dropped(owned.get(manager, {}), manifest)
        before = self._objects.get(kind, {}).get(key)
        if before is None:
            made = self.create(kind, manifest)
        else:
            after = merged(merged(copied(before), dropped), manifest)
            made = self._update(kind, before, copied(after), "")
        self._applied[kind, key] = {**owned, manager: copied(manifest)}
        return made

    def delete(self, kind: Kind, key: ObjectKey, *, uid: str = "", version: str = "") -> None:
        before = self._there(kind, key)
        _check(before, {"uid": uid, "resourceVersion": version})
        if not metadata(before).get("finalizers") and kind not in self.held:
            self._remove(kind, before)
        elif "deletionTimestamp" not in metadata(before):
            ending = copied(before)
            metadata(ending)["deletionTimestamp"] = self._moment()
            metadata(ending)["generation"] = metadata(before).get("generation", 1) + 1
            self._store(kind, ending, EventType.MODIFIED)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """At once, whatever holds it: what the kubelet does with a pod that has ended."""
        self._remove(kind, self._there(kind, key))

    # -- inside

    def _there(self, kind: Kind, key: ObjectKey) -> Manifest:
        try:
            return self._objects[kind][key]
        except KeyError:
            raise NotFound(f'{kind.plural} "{key.name}" not found') from None

    def _update(self, kind: Kind, before: Manifest, after: Manifest, subresource: str) -> Manifest:
        after = _only(before, after, subresource)
        kept, meta = metadata(before), metadata(after)
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "generation"):
            if name in kept:
                meta[name] = kept[name]
        if after.get("spec") != before.get("spec"):
            meta["generation"] = kept.get("generation", 1) + 1
        meta["resourceVersion"] = kept["resourceVersion"]
        if "deletionTimestamp" in meta and set(_finalizers(meta)) - set(_finalizers(kept)):
            raise Invalid("metadata.finalizers: no new ones while the object is being deleted")
        if "deletionTimestamp" in meta and not meta.get("finalizers") and kind not in self.held:
            return self._remove(kind, after)
        if after == before:
            return copied(before)  # a write that changes nothing is none
        return self._store(kind, after, EventType.MODIFIED)

    def _store(self, kind: Kind, made: Manifest, event: EventType) -> Manifest:
        before = self._objects.get(kind, {}).get(key_of(made))
        self.version += 1
        metadata(made)["resourceVersion"] = str(self.version)
        made.setdefault("apiVersion", kind.api_version)
        made.setdefault("kind", kind.kind)
        self._objects.setdefault(kind, {})[key_of(made)] = made
        self._note(Change(self.version, kind, event, made, labels_of(before) if before else None))
        return copied(made)

    def _remove(self, kind: Kind, last: Manifest) -> Manifest:
        del self._objects[kind][key_of(last)]
        self._applied.pop((kind, key_of(last)), None)
        self.version += 1
        gone = copied(last)
        metadata(gone)["resourceVersion"] = str(self.version)
        self._note(Change(self.version, kind, EventType.DELETED, gone, labels_of(last)))
        return copied(gone)

    def _note(self, change: Change) -> None:
        self._history.append(change)
        self._kept_versions.append(change.version)
        if len(self._history) > KEPT_CHANGES:
            self.compacted = self._history[KEPT_CHANGES // 2 - 1].version
            del self._history[: KEPT_CHANGES // 2], self._kept_versions[: KEPT_CHANGES // 2]
        for told in self.on_change:
            told(change)

    def _moment(self) -> str:
        return self.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _check(before: Manifest, given: Mapping[str, Any]) -> None:
    for name in ("uid", "resourceVersion"):
        if given.get(name) and given[name] != metadata(before)[name]:
            raise Conflict(f"the object has been modified: its {name} is another")


def _finalizers(meta: Mapping[str, Any]) -> list[str]:
    return meta.get("finalizers") or []


def _dropped(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that removes what only the old one has."""
    patch: dict[str, Any] = {}
    for name, value in old.items():
        now = new.get(name)
        if isinstance(value, Mapping) and isinstance(now, Mapping):
            if inner := _dropped(value, now):
                patch[name] = inner
        elif name not in new:
            patch[name] = None
    return patch


def _only(before: Manifest, after: Manifest, subresource: str) -> Manifest:
    """A write to the status changes nothing else, and one to the object no status."""
    mine, others = (after, before) if subresource == "status" else (before, after)
    made = copied(others)
    made.pop("status", None)
    if "status" in mine:
        made["status"] = copied(mine["status"])
    return made


def merged(before: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
