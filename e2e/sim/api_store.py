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

from chiplog_kube import kinds
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
from e2e.sim.ownership import NOBODY, OWNED_METADATA, Owned, applied, as_applied, changed

KEPT_CHANGES = 4000
SERVERS_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""What no write changes."""
WITHOUT_GENERATION = frozenset(
    {
        kinds.AUTOSCALERS,
        kinds.CONFIG_MAPS,
        kinds.EVENTS,
        kinds.LEASES,
        kinds.NAMESPACES,
        kinds.NODES,
        kinds.ROLES,
        kinds.ROLE_BINDINGS,
        kinds.SECRETS,
        kinds.SERVICES,
        kinds.SERVICE_ACCOUNTS,
        kinds.VOLUME_CLAIMS,
    }
)


def copied(manifest: Manifest) -> Manifest:
    """A deep copy of plain data."""
    made: Manifest = marshal.loads(marshal.dumps(manifest))  # noqa: S302 - our own bytes
    return made


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history; its objects are never changed again."""

    version: int
    kind: Kind
    type: EventType
    object: Manifest
    before: Manifest | None


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
        """An object that enters the selection is ADDED, one that leaves it DELETED, as it was."""
        if change.kind != self.kind:
            return None
        was_in = change.before is not None and self.takes(change.before)
        if change.type is not EventType.DELETED and self.takes(change.object):
            kind = EventType.MODIFIED if was_in else EventType.ADDED
            return WatchEvent(kind, copied(change.object))
        if not was_in or change.before is None:
            return None
        last = copied(change.before)
        metadata(last)["resourceVersion"] = str(change.version)
        return WatchEvent(EventType.DELETED, last)


def is_own(kind: Kind) -> bool:
    """Whether it is one of Chiplog's definitions, all of which have a status subresource."""
    return kind.api_version.partition("/")[0].endswith("chiplog.dev")


def counts_generations(kind: Kind) -> bool:
    """Whether its objects have a `metadata.generation`."""
    return kind not in WITHOUT_GENERATION


def wants_version(kind: Kind) -> bool:
    """Whether nobody replaces its objects without the version that he saw."""
    return is_own(kind) or kind in {kinds.LEASES, kinds.DISRUPTION_BUDGETS}


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
    owned: Mapping[tuple[Kind, ObjectKey], Owned]


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
    _owned: dict[tuple[Kind, ObjectKey], Owned] = field(default_factory=dict)
    """Who wrote which field of an object."""
    _history: list[Change] = field(default_factory=list)
    _kept_versions: list[int] = field(default_factory=list)

    def compact(self) -> None:
        """Forget the history: older watches get `Gone`."""
        self.compacted = self.version
        self._history.clear()
        self._kept_versions.clear()

    def backup(self) -> Backup:
        """A copy, as `etcdctl snapshot save` makes one."""
        objects = {kind: dict(all_) for kind, all_ in self._objects.items()}
        return Backup(self.version, objects, dict(self._owned))

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """All is as it was then, and no watch tells. `bump`: how far versions are moved on from
        where they are or were in the copy, instead of back: never below those of its objects."""
        self._objects = {kind: dict(all_) for kind, all_ in backup.objects.items()}
        self._owned = dict(backup.owned)
        newest = max(self.version, backup.version)
        self.version = newest + bump if bump else backup.version
        self.compact()

    def all_of(self, kind: Kind) -> list[Manifest]:
        return [copied(one) for _, one in sorted(self._objects.get(kind, {}).items())]

    def find(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        found = self._objects.get(kind, {}).get(ObjectKey(namespace, name))
        return copied(found) if found else None

    def peek(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object itself; it must not be changed."""
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

    def create(
        self, kind: Kind, manifest: Manifest, *, manager: str = "", dry_run: bool = False
    ) -> Manifest:
        made = copied(manifest)
        meta = made.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self.version + 1:x}"
        key = key_of(made)
        if is_own(kind):
            made.pop("status", None)
        _leave_out_what_is_empty(kind, made)
        if meta.get("resourceVersion"):
            # The real one answers 500 here, too.
            raise Unavailable("resourceVersion should not be set on objects to be created")
        if key in self._objects.get(kind, {}):
            raise AlreadyExists(f'{kind.plural} "{key.name}" already exists')
        self.born += 1
        meta |= {"uid": f"uid-{self.born}", "creationTimestamp": self._moment()}
        if counts_generations(kind):
            meta["generation"] = 1
        if dry_run:
            return made
        self._owned[kind, key] = changed(NOBODY, manager, {}, made)
        return self._store(kind, made, EventType.ADDED)

    def replace(
        self, kind: Kind, manifest: Manifest, subresource: str = "", *, manager: str = ""
    ) -> Manifest:
        if kind is kinds.LEASES and key_of(manifest) not in self._objects.get(kind, {}):
            return self._replace_missing(kind, manifest, manager)
        before = self._there(kind, key_of(manifest))
        _check(before, metadata(manifest))
        if not metadata(manifest).get("resourceVersion") and wants_version(kind):
            raise Invalid("metadata.resourceVersion: must be specified for an update")
        return self._update(kind, before, copied(manifest), manager, subresource)

    def patch(
        self,
        kind: Kind,
        key: ObjectKey,
        patch: Mapping[str, object],
        *,
        manager: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        before = self._there(kind, key)
        named = patch.get("metadata")
        given = named if isinstance(named, Mapping) else {}
        _check(before, {"resourceVersion": given.get("resourceVersion")})
        # The real one ignores the uid in a patch of the status.
        is_other = given.get("uid", metadata(before)["uid"]) != metadata(before)["uid"]
        if is_other and not (subresource and is_own(kind)):
            raise Invalid("metadata.uid: field is immutable")
        patched: Manifest = copied(merged(copied(before), patch))
        return self._update(kind, before, patched, manager, subresource, dry_run=dry_run)

    def apply(self, kind: Kind, manifest: Manifest, manager: str = "") -> Manifest:
        """What it names is set; what its manager named before and does not any more is removed."""
        key = key_of(manifest)
        before = self._objects.get(kind, {}).get(key)
        if before is None and metadata(manifest).get("uid"):
            raise Conflict("uid mismatch: the object has a uid, and no object is there")
        if before is None:
            return self.apply_new(kind, manifest, manager)
        _check(before, metadata(manifest))
        mixed: Manifest = copied(merged(copied(before), manifest))
        after, owned = applied(self._owned[kind, key], manager, before, mixed, manifest)
        made = self._update(kind, before, after, manager, owned=owned)
        owned = self._owned.get((kind, key), NOBODY)
        if (all_applied := as_applied(owned, manager)) != owned:
            self._owned[kind, key] = all_applied
            made = self._store(kind, copied(made), EventType.MODIFIED)
        return made

    def apply_new(self, kind: Kind, manifest: Manifest, manager: str = "") -> Manifest:
        """Like `apply` where nothing is there, else `AlreadyExists`."""
        made = self.create(kind, manifest, manager=manager)
        owned = applied(NOBODY, manager, {}, copied(made), manifest).owned
        self._owned[kind, key_of(manifest)] = owned
        return made

    def delete(self, kind: Kind, key: ObjectKey, *, uid: str = "", version: str = "") -> None:
        before = self._there(kind, key)
        _check(before, {"uid": uid, "resourceVersion": version})
        if not metadata(before).get("finalizers") and kind not in self.held:
            self._remove(kind, before)
        elif "deletionTimestamp" not in metadata(before):
            ending = copied(before)
            metadata(ending)["deletionTimestamp"] = self._moment()
            metadata(ending)["deletionGracePeriodSeconds"] = 0
            if counts_generations(kind):
                metadata(ending)["generation"] = metadata(before)["generation"] + 1
            self._store(kind, ending, EventType.MODIFIED)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """Delete the object without regard to finalizers, as the kubelet does with a pod that has
        ended."""
        self._remove(kind, self._there(kind, key))

    # -- inside

    def _replace_missing(self, kind: Kind, manifest: Manifest, manager: str) -> Manifest:
        """A Lease is made by this, whatever version was seen; but not one that is named by uid."""
        made = copied(manifest)
        if metadata(made).get("uid"):
            raise Conflict("Precondition failed: UID in precondition, and no object")
        metadata(made).pop("resourceVersion", None)
        return self.create(kind, made, manager=manager)

    def _there(self, kind: Kind, key: ObjectKey) -> Manifest:
        try:
            return self._objects[kind][key]
        except KeyError:
            raise NotFound(f'{kind.plural} "{key.name}" not found') from None

    def _update(  # noqa: PLR0913
        self,
        kind: Kind,
        before: Manifest,
        after: Manifest,
        manager: str,
        subresource: str = "",
        *,
        owned: Owned | None = None,
        dry_run: bool = False,
    ) -> Manifest:
        after = _only(before, after, subresource)
        _leave_out_what_is_empty(kind, after)
        kept, meta = metadata(before), metadata(after)
        for name in SERVERS_METADATA:
            if name in kept:
                meta[name] = kept[name]
        if counts_generations(kind) and after.get("spec") != before.get("spec"):
            meta["generation"] = kept.get("generation", 1) + 1
        meta["resourceVersion"] = kept["resourceVersion"]
        if "deletionTimestamp" in meta and set(_finalizers(meta)) - set(_finalizers(kept)):
            raise Invalid("metadata.finalizers: no new ones while the object is being deleted")
        if dry_run:
            return after
        if "deletionTimestamp" in meta and not meta.get("finalizers") and kind not in self.held:
            return self._remove(kind, after)
        owned_before = self._owned[kind, key_of(before)]
        if owned is None:
            owned = changed(owned_before, manager, before, after)
        if after == before and owned == owned_before:
            return copied(before)  # a write that changes nothing is none
        self._owned[kind, key_of(before)] = owned
        return self._store(kind, after, EventType.MODIFIED)

    def _store(self, kind: Kind, made: Manifest, event: EventType) -> Manifest:
        before = self._objects.get(kind, {}).get(key_of(made))
        self.version += 1
        metadata(made)["resourceVersion"] = str(self.version)
        made.setdefault("apiVersion", kind.api_version)
        made.setdefault("kind", kind.kind)
        self._objects.setdefault(kind, {})[key_of(made)] = made
        self._note(Change(self.version, kind, event, made, before))
        return copied(made)

    def _remove(self, kind: Kind, last: Manifest) -> Manifest:
        before = self._objects[kind].pop(key_of(last))
        del self._owned[kind, key_of(last)]
        self.version += 1
        gone = copied(last)
        metadata(gone)["resourceVersion"] = str(self.version)
        self._note(Change(self.version, kind, EventType.DELETED, gone, before))
        return copied(last)  # the answer to removing the last finalizer is the version before

    def _note(self, change: Change) -> None:
        self._history.append(change)
        self._kept_versions.append(change.version)
        if len(self._history) > KEPT_CHANGES:
            self.compacted = self._history[KEPT_CHANGES // 2 - 1].version
            del self._history[: KEPT_CHANGES // 2], self._kept_versions[: KEPT_CHANGES // 2]
        for notify in self.on_change:
            notify(change)

    def _moment(self) -> str:
        return self.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _check(before: Manifest, given: Mapping[str, Any]) -> None:
    for name in ("uid", "resourceVersion"):
        if given.get(name) and given[name] != metadata(before)[name]:
            raise Conflict(f"the object has been modified: its {name} is another")


def _leave_out_what_is_empty(kind: Kind, manifest: Manifest) -> None:
    """Remove empty fields, as the server does when it writes its own types."""
    meta = metadata(manifest)
    for name in OWNED_METADATA:
        if name in meta and not meta[name]:
            del meta[name]
    if not is_own(kind) and "data" in manifest and not manifest["data"]:
        del manifest["data"]


def _finalizers(meta: Mapping[str, Any]) -> list[str]:
    return meta.get("finalizers") or []


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
