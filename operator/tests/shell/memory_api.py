"""An API server in memory: compare-and-set, finalizers, watches, and the faults of a real one.

It keeps every object as of every change in one numbered history, as etcd does, so that a watch
can begin at any version that was not compacted away. It knows nothing of schemas and nothing of
time; creation and deletion are dated by the clock it is given.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chiplog_kube.api import (
    AlreadyExists,
    ApiError,
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
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, key_of, labels_of, metadata

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history."""

    version: int
    kind: Kind
    type: EventType
    object: Manifest
    labels_before: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as tests ask about it."""

    verb: str
    kind: str
    name: str
    field_manager: str = ""


Fault = Callable[[Call], ApiError | None]


@dataclass(slots=True)
class MemoryApi:
    """`KubeApi` without a network."""

    now: Callable[[], datetime] = lambda: EPOCH
    calls: list[Call] = field(default_factory=list)
    fault: Fault = lambda _: None
    """Asked before each request; what it returns is raised and nothing happens."""
    fault_after: Fault = lambda _: None
    """Asked after each write; what it returns is raised although the write happened."""
    missing_kinds: set[str] = field(default_factory=set)
    _objects: dict[Kind, dict[ObjectKey, Manifest]] = field(default_factory=dict)
    _history: list[Change] = field(default_factory=list)
    _version: int = 0
    _compacted: int = 0
    _changed: asyncio.Condition | None = None
    _broken_watches: int = 0

    # ---- what tests do to it ----

    def compact(self) -> None:
        """Forget the history: older watches get `Gone`."""
        self._compacted = self._version
        self._history.clear()

    async def break_watches(self) -> None:
        """Every watch ends with `Unavailable`, as when the server restarts."""
        self._broken_watches += 1
        await self._wake()

    async def send_bookmarks(self) -> None:
        """A bookmark to every watch: the version moves on without a change."""
        self._version += 1
        await self._wake()

    def all_of(self, kind: Kind) -> list[Manifest]:
        """Every object of a kind, for assertions."""
        return [copy.deepcopy(one) for _, one in sorted(self._objects.get(kind, {}).items())]

    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb not in {"get", "list", "watch"}]

    # ---- KubeApi ----

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        self._begin(Call("list", kind.kind, ""), kind)
        items = [
            copy.deepcopy(one)
            for key, one in sorted(self._objects.get(kind, {}).items())
            if namespace in {"", key.namespace} and _selects(labels, fields, one)
        ]
        return ObjectList(items, str(self._version))

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        self._begin(Call("watch", kind.kind, ""), kind)
        position, broken = int(resource_version), self._broken_watches
        while True:
            if position < self._compacted:
                raise Gone(f"too old resource version: {position} ({self._compacted})")
            for change in [one for one in self._history if one.version > position]:
                position = change.version
                is_there = change.kind == kind and namespace in {
                    "",
                    key_of(change.object).namespace,
                }
                seen = _as_seen(change, labels, fields) if is_there else None
                if seen is not None:
                    yield WatchEvent(seen, copy.deepcopy(change.object))
            if self._broken_watches != broken:
                raise Unavailable("the connection broke")
            if position < self._version:
                position = self._version
                bookmark = {"metadata": {"resourceVersion": str(position)}}
                yield WatchEvent(EventType.BOOKMARK, bookmark)
                continue
            async with self._condition():
                await self._condition().wait()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        self._begin(Call("get", kind.kind, name), kind)
        return copy.deepcopy(self._there(kind, ObjectKey(namespace, name)))

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest:
        made = copy.deepcopy(manifest)
        meta = made.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self._version + 1:x}"
        call = Call("create", kind.kind, meta["name"], field_manager)
        self._begin(call, kind)
        key = key_of(made)
        if key in self._objects.get(kind, {}):
            raise AlreadyExists(f'{kind.plural} "{key.name}" already exists')
        if meta.get("resourceVersion"):
            raise Invalid("resourceVersion should not be set on objects to be created")
        moment = self._moment()
        meta |= {"uid": f"uid-{self._version + 1}", "generation": 1, "creationTimestamp": moment}
        return made if dry_run else await self._store(call, kind, made, EventType.ADDED)

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        key = key_of(manifest)
        call = Call("replace", kind.kind, key.name, field_manager)
        self._begin(call, kind)
        before = self._there(kind, key)
        _check(before, metadata(manifest))
        if not metadata(manifest).get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: must be specified for an update")
        return await self._update(call, kind, before, copy.deepcopy(manifest), subresource)

    async def patch(
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
        call = Call("patch", kind.kind, name, field_manager)
        self._begin(call, kind)
        before = self._there(kind, ObjectKey(namespace, name))
        given = patch.get("metadata")
        _check(before, given if isinstance(given, Mapping) else {})
        patched: Manifest = _merged(before, copy.deepcopy(dict(patch)))
        if dry_run:
            return patched
        return await self._update(call, kind, before, patched, subresource)

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Like the real one as long as one manager owns the object: what it names is set."""
        key = key_of(manifest)
        call = Call("apply", kind.kind, key.name, field_manager)
        before = self._objects.get(kind, {}).get(key)
        if before is None:
            return await self.create(kind, manifest, field_manager=field_manager)
        self._begin(call, kind)
        return await self._update(call, kind, before, _merged(before, copy.deepcopy(manifest)), "")

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
        call = Call("orphan" if orphan else "delete", kind.kind, name)
        self._begin(call, kind)
        before = self._there(kind, ObjectKey(namespace, name))
        _check(before, {"uid": uid, "resourceVersion": resource_version})
        if not metadata(before).get("finalizers"):
            await self._remove(call, kind, before)
        elif "deletionTimestamp" not in metadata(before):
            ending = copy.deepcopy(before)
            metadata(ending)["deletionTimestamp"] = self._moment()
            await self._store(call, kind, ending, EventType.MODIFIED)

    # ---- inside ----

    def _begin(self, call: Call, kind: Kind) -> None:
        self.calls.append(call)
        if (error := self.fault(call)) is not None:
            raise error
        if kind.kind in self.missing_kinds:
            raise NotFound("the server could not find the requested resource")

    def _there(self, kind: Kind, key: ObjectKey) -> Manifest:
        try:
            return self._objects[kind][key]
        except KeyError:
            raise NotFound(f'{kind.plural} "{key.name}" not found') from None

    async def _update(
        self, call: Call, kind: Kind, before: Manifest, after: Manifest, subresource: str
    ) -> Manifest:
        after = _only(before, after, subresource)
        kept = metadata(before)
        meta = metadata(after)
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "generation"):
            if name in kept:
                meta[name] = kept[name]
        if after.get("spec") != before.get("spec"):
            meta["generation"] = kept.get("generation", 1) + 1
        meta["resourceVersion"] = kept["resourceVersion"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return await self._remove(call, kind, after)
        if after == before:
            return copy.deepcopy(before)  # a write that changes nothing is none
        return await self._store(call, kind, after, EventType.MODIFIED)

    async def _store(self, call: Call, kind: Kind, made: Manifest, event: EventType) -> Manifest:
        before = self._objects.get(kind, {}).get(key_of(made))
        self._version += 1
        metadata(made)["resourceVersion"] = str(self._version)
        made.setdefault("apiVersion", kind.api_version)
        made.setdefault("kind", kind.kind)
        self._objects.setdefault(kind, {})[key_of(made)] = made
        labels_before = labels_of(before) if before is not None else None
        self._history.append(Change(self._version, kind, event, made, labels_before))
        await self._finish(call)
        return copy.deepcopy(made)

    async def _remove(self, call: Call, kind: Kind, last: Manifest) -> Manifest:
        del self._objects[kind][key_of(last)]
        self._version += 1
        gone = copy.deepcopy(last)
        metadata(gone)["resourceVersion"] = str(self._version)
        change = Change(self._version, kind, EventType.DELETED, gone, labels_of(last))
        self._history.append(change)
        await self._finish(call)
        return copy.deepcopy(gone)

    async def _finish(self, call: Call) -> None:
        await self._wake()
        if (error := self.fault_after(call)) is not None:
            raise error

    async def _wake(self) -> None:
        async with self._condition():
            self._condition().notify_all()

    def _condition(self) -> asyncio.Condition:
        if self._changed is None:
            self._changed = asyncio.Condition()
        return self._changed

    def _moment(self) -> str:
        return self.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _check(before: Manifest, given: Mapping[str, Any]) -> None:
    for name in ("uid", "resourceVersion"):
        if given.get(name) and given[name] != metadata(before)[name]:
            raise Conflict(f"the object has been modified: its {name} is another")


def _only(before: Manifest, after: Manifest, subresource: str) -> Manifest:
    """A write to the status changes nothing else, and one to the object no status."""
    mine, others = (after, before) if subresource == "status" else (before, after)
    made = copy.deepcopy(others)
    made.pop("status", None)
    if "status" in mine:
        made["status"] = copy.deepcopy(mine["status"])
    return made


def _merged(before: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = copy.deepcopy(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _selects(labels: str, fields: str, manifest: Manifest) -> bool:
    return _has_labels(labels, labels_of(manifest)) and all(
        key_of(manifest).name == one.removeprefix("metadata.name=")
        for one in fields.split(",")
        if one
    )


def _has_labels(selector: str, labels: Mapping[str, str]) -> bool:
    for one in filter(None, selector.split(",")):
        name, _, value = one.partition("=")
        if name not in labels or (value and labels[name] != value):
            return False
    return True


def _as_seen(change: Change, labels: str, fields: str) -> EventType | None:
    """What a watch with selectors sees of a change: entering is ADDED, leaving is DELETED."""
    is_in = change.type is not EventType.DELETED and _selects(labels, fields, change.object)
    was_in = change.labels_before is not None and _has_labels(labels, change.labels_before)
    if is_in:
        return EventType.MODIFIED if was_in else EventType.ADDED
    return EventType.DELETED if was_in else None
