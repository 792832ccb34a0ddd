"""An API server in memory, with the faults of a real one: `KubeApi` on the simulator's store.

It knows nothing of schemas and nothing of time; creation and deletion are dated by the clock it
is given. Tests read every call and let single ones fail.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from chiplog_kube.api import (
    ApiError,
    EventType,
    Manifest,
    NotFound,
    ObjectList,
    Unavailable,
    WatchEvent,
)
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, key_of
from e2e.sim.api_store import ApiStore, Selection

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as tests ask about it."""

    verb: str
    kind: str
    name: str
    field_manager: str = ""
    namespace: str = ""
    """Of lists and watches."""


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
    _store: ApiStore = field(init=False)
    _changed: asyncio.Condition | None = None
    _broken_watches: int = 0

    def __post_init__(self) -> None:
        self._store = ApiStore(self.now, held=frozenset())

    # ---- what tests do to it ----

    def compact(self) -> None:
        """Forget the history: older watches get `Gone`."""
        self._store.compact()

    async def break_watches(self) -> None:
        """Every watch ends with `Unavailable`, as when the server restarts."""
        self._broken_watches += 1
        await self._wake()

    async def send_bookmarks(self) -> None:
        """A bookmark to every watch: the version moves on without a change."""
        self._store.version += 1
        await self._wake()

    def all_of(self, kind: Kind) -> list[Manifest]:
        """Every object of a kind, for assertions."""
        return self._store.all_of(kind)

    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb not in {"get", "list", "watch"}]

    # ---- KubeApi ----

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        self._begin(Call("list", kind.kind, "", namespace=namespace), kind)
        return self._store.list_(Selection(kind, namespace, labels, fields))

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        self._begin(Call("watch", kind.kind, "", namespace=namespace), kind)
        wanted = Selection(kind, namespace, labels, fields)
        position, broken = int(resource_version), self._broken_watches
        while True:
            for change in self._store.since(position):
                position = change.version
                if (event := wanted.sees(change)) is not None:
                    yield event
            if self._broken_watches != broken:
                raise Unavailable("the connection broke")
            if position < self._store.version:
                position = self._store.version
                bookmark = {"metadata": {"resourceVersion": str(position)}}
                yield WatchEvent(EventType.BOOKMARK, bookmark)
                continue
            async with self._condition():
                await self._condition().wait()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        self._begin(Call("get", kind.kind, name), kind)
        return self._store.get(kind, namespace, name)

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest:
        name = manifest["metadata"].get("name") or manifest["metadata"]["generateName"]
        call = Call("create", kind.kind, name, field_manager)
        return await self._write(
            call,
            kind,
            lambda: self._store.create(kind, manifest, manager=field_manager, dry_run=dry_run),
        )

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        call = Call("replace", kind.kind, key_of(manifest).name, field_manager)
        return await self._write(
            call,
            kind,
            lambda: self._store.replace(kind, manifest, subresource, manager=field_manager),
        )

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
        key = ObjectKey(namespace, name)
        return await self._write(
            Call("patch", kind.kind, name, field_manager),
            kind,
            lambda: self._store.patch(
                kind, key, patch, manager=field_manager, subresource=subresource, dry_run=dry_run
            ),
        )

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        key = key_of(manifest)
        is_there = self._store.find(kind, key.namespace, key.name) is not None
        call = Call("apply" if is_there else "create", kind.kind, key.name, field_manager)
        return await self._write(
            call, kind, lambda: self._store.apply(kind, manifest, field_manager)
        )

    async def apply_new(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        call = Call("create", kind.kind, key_of(manifest).name, field_manager)
        return await self._write(
            call, kind, lambda: self._store.apply_new(kind, manifest, field_manager)
        )

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
        key = ObjectKey(namespace, name)
        await self._write(
            Call("orphan" if orphan else "delete", kind.kind, name),
            kind,
            lambda: self._store.delete(kind, key, uid=uid, version=resource_version),
        )

    # ---- inside ----

    def _begin(self, call: Call, kind: Kind) -> None:
        self.calls.append(call)
        if (error := self.fault(call)) is not None:
            raise error
        if kind.kind in self.missing_kinds:
            raise NotFound("the server could not find the requested resource")

    async def _write(self, call: Call, kind: Kind, write: Callable[[], T]) -> T:
        self._begin(call, kind)
        before = self._store.version
        written = write()
        if self._store.version == before:
            return written  # a write that changes nothing is none
        await self._wake()
        if (error := self.fault_after(call)) is not None:
            raise error
        return written

    async def _wake(self) -> None:
        async with self._condition():
            self._condition().notify_all()

    def _condition(self) -> asyncio.Condition:
        if self._changed is None:
            self._changed = asyncio.Condition()
        return self._changed
