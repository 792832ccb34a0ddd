"""The API server's store: objects, a numbered history of changes, and owners of fields.

It implements compare-and-set, finalizers, uids, label selectors and the graceful deletion of pods,
but no schemas. Nothing here waits: `api_server.py` adds delays and faults.
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
"""Half of the history is forgotten when it is longer than this."""
SERVERS_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""Fields of the metadata that only the server sets."""
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
    """A deep copy of an object of dicts, lists, texts and numbers; faster than `deepcopy`."""
    made: Manifest = marshal.loads(marshal.dumps(manifest))  # noqa: S302 - our own bytes
    return made


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history; `before` is None for a new object. Its objects never change."""

    version: int
    kind: Kind
    type: EventType
    object: Manifest
    before: Manifest | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or a watch selects."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def takes(self, manifest: Manifest) -> bool:
        """Whether this object, of the right kind, is selected."""
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
        """The watch event for a change; None if this selection is not concerned.

        An object that begins to match is ADDED; one that stops matching is DELETED, with its last
        content that matched.
        """
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
    """Whether this is one of Chiplog's own kinds, all of which have a status subresource."""
    return kind.api_version.partition("/")[0].endswith("chiplog.dev")


def counts_generations(kind: Kind) -> bool:
    """Whether its objects have a `metadata.generation`."""
    return kind not in WITHOUT_GENERATION


def wants_version(kind: Kind) -> bool:
    """Whether replacing an object of this kind requires its `resourceVersion`."""
    return is_own(kind) or kind in {kinds.LEASES, kinds.DISRUPTION_BUDGETS}


def has_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether the labels match a selector like `a=b,c`, where `c` may have any value."""
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
    """All objects. Its methods raise the exceptions that `KubeApi` documents."""

    now: Callable[[], datetime]
    held: frozenset[Kind] = frozenset({PODS})
    """Kinds whose deleted objects stay until `remove` is called: the kubelet does so for pods."""
    on_change: list[Callable[[Change], None]] = field(default_factory=list)
    version: int = 0
    """The resourceVersion of the last change."""
    compacted: int = 0
    """Changes up to this version are no longer in the history."""
    born: int = 0
    """How many objects were ever created; a restore does not reset it, so uids stay unique."""
    _objects: dict[Kind, dict[ObjectKey, Manifest]] = field(default_factory=dict)
    _owned: dict[tuple[Kind, ObjectKey], Owned] = field(default_factory=dict)
    """The field managers of each object, with the fields that they own."""
    _history: list[Change] = field(default_factory=list)
    _kept_versions: list[int] = field(default_factory=list)
    """The version of each change in `_history`, for binary search."""

    def compact(self) -> None:
        """Forget the history, as etcd's compaction does: watches from older versions get `Gone`."""
        self.compacted = self.version
        self._history.clear()
        self._kept_versions.clear()

    def backup(self) -> Backup:
        """A copy of all objects, as `etcdctl snapshot save` writes it."""
        objects = {kind: dict(all_) for kind, all_ in self._objects.items()}
        return Backup(self.version, objects, dict(self._owned))

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Replace all objects by those of the backup, without events for watches: these get `Gone`.

        The version goes back, too; with `bump` it is raised by that much above the present one,
        as `etcdutl snapshot restore --bump-revision` does.
        """
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
        """All changes after this version. Raises `Gone` if the history no longer has them."""
        if version < self.compacted:
            raise Gone(f"too old resource version: {version} ({self.compacted})")
        return self._history[bisect_right(self._kept_versions, version) :]

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return copied(self._stored_object(kind, ObjectKey(namespace, name)))

    # -- writes

    def create(
        self, kind: Kind, manifest: Manifest, *, manager: str = "", dry_run: bool = False
    ) -> Manifest:
        """Create an object; `manager` owns its fields. A `dry_run` stores nothing."""
        made = copied(manifest)
        meta = made.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self.version + 1:x}"
        key = key_of(made)
        if is_own(kind):
            made.pop("status", None)
        _drop_empty_fields(kind, made)
        if meta.get("resourceVersion"):
            # The real API server also answers with 500 here.
            raise Unavailable("resourceVersion should not be set on objects to be created")
        if key in self._objects.get(kind, {}):
            raise AlreadyExists(f'{kind.plural} "{key.name}" already exists')
        self.born += 1
        meta |= {"uid": f"uid-{self.born}", "creationTimestamp": self._timestamp()}
        if counts_generations(kind):
            meta["generation"] = 1
        if dry_run:
            return made
        self._owned[kind, key] = changed(NOBODY, manager, {}, made)
        return self._store(kind, made, EventType.ADDED)

    def replace(
        self, kind: Kind, manifest: Manifest, subresource: str = "", *, manager: str = ""
    ) -> Manifest:
        """Replace an object, or only its status with the subresource `status`."""
        if kind is kinds.LEASES and key_of(manifest) not in self._objects.get(kind, {}):
            return self._replace_missing(kind, manifest, manager)
        before = self._stored_object(kind, key_of(manifest))
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
        """Merge a JSON merge patch into an object, or into its status."""
        before = self._stored_object(kind, key)
        named = patch.get("metadata")
        given = named if isinstance(named, Mapping) else {}
        _check(before, {"resourceVersion": given.get("resourceVersion")})
        # The real API server ignores the uid in a patch of the status.
        is_other = given.get("uid", metadata(before)["uid"]) != metadata(before)["uid"]
        if is_other and not (subresource and is_own(kind)):
            raise Invalid("metadata.uid: field is immutable")
        patched: Manifest = copied(merged(copied(before), patch))
        return self._update(kind, before, patched, manager, subresource, dry_run=dry_run)

    def apply(self, kind: Kind, manifest: Manifest, manager: str = "") -> Manifest:
        """Server-side apply with force, which creates a missing object.

        Fields in the manifest are set; fields that only this manager applied before, and that are
        missing now, are removed.
        """
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
        """Create an object by server-side apply. Raises `AlreadyExists` if it is there."""
        made = self.create(kind, manifest, manager=manager)
        owned = applied(NOBODY, manager, {}, copied(made), manifest).owned
        self._owned[kind, key_of(manifest)] = owned
        return made

    def delete(self, kind: Kind, key: ObjectKey, *, uid: str = "", version: str = "") -> None:
        """Delete an object, or mark it as being deleted while it has finalizers or is `held`.

        `uid` and `version` are preconditions, empty for none.
        """
        before = self._stored_object(kind, key)
        _check(before, {"uid": uid, "resourceVersion": version})
        if not metadata(before).get("finalizers") and kind not in self.held:
            self._remove(kind, before)
        elif "deletionTimestamp" not in metadata(before):
            ending = copied(before)
            metadata(ending)["deletionTimestamp"] = self._timestamp()
            metadata(ending)["deletionGracePeriodSeconds"] = 0
            if counts_generations(kind):
                metadata(ending)["generation"] = metadata(before)["generation"] + 1
            self._store(kind, ending, EventType.MODIFIED)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object despite its finalizers, as the kubelet deletes a pod that has ended."""
        self._remove(kind, self._stored_object(kind, key))

    # -- inside

    def _replace_missing(self, kind: Kind, manifest: Manifest, manager: str) -> Manifest:
        """Create a Lease that a client wanted to replace, as the real API server does.

        The manifest's `resourceVersion` does not matter, but a uid in it leads to `Conflict`.
        """
        made = copied(manifest)
        if metadata(made).get("uid"):
            raise Conflict("Precondition failed: UID in precondition, and no object")
        metadata(made).pop("resourceVersion", None)
        return self.create(kind, made, manager=manager)

    def _stored_object(self, kind: Kind, key: ObjectKey) -> Manifest:
        """The stored object itself. Raises `NotFound`."""
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
        """Store `after` in place of `before`, by the rules for every write; returns the object.

        Without a subresource the status stays as it is. `owned` are the owners of fields if the
        caller knows them, as for an apply. The write that removes the last finalizer of an object
        that is being deleted removes the object.
        """
        after = _within_subresource(before, after, subresource)
        _drop_empty_fields(kind, after)
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
            return copied(before)  # a write without a change gets no new version and no event
        self._owned[kind, key_of(before)] = owned
        return self._store(kind, after, EventType.MODIFIED)

    def _store(self, kind: Kind, made: Manifest, event: EventType) -> Manifest:
        """Store an object with the next version, and notify of the change; returns a copy."""
        before = self._objects.get(kind, {}).get(key_of(made))
        self.version += 1
        metadata(made)["resourceVersion"] = str(self.version)
        made.setdefault("apiVersion", kind.api_version)
        made.setdefault("kind", kind.kind)
        self._objects.setdefault(kind, {})[key_of(made)] = made
        self._note(Change(self.version, kind, event, made, before))
        return copied(made)

    def _remove(self, kind: Kind, last: Manifest) -> Manifest:
        """Remove an object, with `last` as its final content; returns that."""
        before = self._objects[kind].pop(key_of(last))
        del self._owned[kind, key_of(last)]
        self.version += 1
        gone = copied(last)
        metadata(gone)["resourceVersion"] = str(self.version)
        self._note(Change(self.version, kind, EventType.DELETED, gone, before))
        return copied(last)  # as the real server: without the version of the deletion

    def _note(self, change: Change) -> None:
        """Append a change to the history, shorten a history that is too long, and notify."""
        self._history.append(change)
        self._kept_versions.append(change.version)
        if len(self._history) > KEPT_CHANGES:
            self.compacted = self._history[KEPT_CHANGES // 2 - 1].version
            del self._history[: KEPT_CHANGES // 2], self._kept_versions[: KEPT_CHANGES // 2]
        for notify in self.on_change:
            notify(change)

    def _timestamp(self) -> str:
        return self.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _check(before: Manifest, given: Mapping[str, Any]) -> None:
    """Raises `Conflict` if a uid or resourceVersion in `given` is not that of the object."""
    for name in ("uid", "resourceVersion"):
        if given.get(name) and given[name] != metadata(before)[name]:
            actual = metadata(before)[name]
            raise Conflict(
                f"the object has been modified: its {name} is {actual}, not {given[name]}"
            )


def _drop_empty_fields(kind: Kind, manifest: Manifest) -> None:
    """Remove empty fields, as the server does when it writes its own types."""
    meta = metadata(manifest)
    for name in OWNED_METADATA:
        if name in meta and not meta[name]:
            del meta[name]
    if not is_own(kind) and "data" in manifest and not manifest["data"]:
        del manifest["data"]


def _finalizers(meta: Mapping[str, Any]) -> list[str]:
    return meta.get("finalizers") or []


def _within_subresource(before: Manifest, after: Manifest, subresource: str) -> Manifest:
    """The object to store: writes to the subresource "status" change only the status, and all other
    writes change everything except the status."""
    mine, others = (after, before) if subresource == "status" else (before, after)
    made = copied(others)
    made.pop("status", None)
    if "status" in mine:
        made["status"] = copied(mine["status"])
    return made


def merged(before: Any, patch: Any) -> Any:
    """`before` with a JSON merge patch (RFC 7396) merged into it."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
