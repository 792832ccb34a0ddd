"""A process's `KubeApi`, which reaches the simulated API server over an unreliable network.

A request may get lost, may be refused for a moment (429, 500), and may be carried out without
an answer. A watch may be late, break, or fall silent because of a network partition.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeVar

from chiplog_kube.api import ApiError, EventType, Manifest, ObjectList, Unavailable, WatchEvent
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, key_of
from e2e.sim.api_store import ApiStore, Change, Selection, copied
from e2e.sim.loop import SimLoop
from e2e.sim.network import Network

T = TypeVar("T")
HOST: Final = "api"
REQUEST_TIMEOUT_S: Final = 10.0
LATEST_S: Final = 20.0
"""The longest delay of a late write."""
SILENCE_S: Final = 20.0
"""A client closes a watch whose connection has been cut for longer than this."""
WATCH_S: Final = 300.0
"""The server ends each watch after this time."""
STEP_S: Final = 0.5


class ApiServer:
    """The API server of a run, and the faults that are in effect."""

    def __init__(
        self,
        loop: SimLoop,
        store: ApiStore,
        network: Network,
        chance: random.Random,
        faults: "Counter[str]",
    ) -> None:
        self.loop, self.store, self.network = loop, store, network
        self.chance, self.faults = chance, faults
        self.is_away = False
        self.refused_share = 0.0
        """Share of requests that are answered with 429 or 500."""
        self.lost_answer_share = 0.0
        """Share of writes that are carried out but never answered."""
        self.late_share = 0.0
        """Share of writes that arrive late, after writes that were sent later."""
        self.watch_delay_s = 0.0
        """The longest additional delay of watch events."""
        self.watches: dict[_Watch, None] = {}
        """The running watches; a dict, because a set would have a random order."""
        self.on_write: list[Callable[[str, str, str, str], None]] = []
        """Called for each write with its verb, kind, object name and field manager."""
        self.on_delivery: list[Callable[[Kind, Manifest], None]] = []
        """Called with each object that a process gets from a watch, a list or a get, in the context
        of this process."""
        store.on_change.append(self._changed)

    def client(self, host: str) -> "ApiClient":
        return ApiClient(self, host)

    def reaches(self, host: str) -> bool:
        """Whether requests from this host arrive."""
        return not self.is_away and self.network.is_open(host, HOST)

    def answers(self, host: str) -> bool:
        """Whether answers and watch events arrive at this host."""
        return not self.is_away and self.network.is_open(HOST, host)

    def go_away(self) -> None:
        """Refuse all requests and break all watches, until `is_away` is set to False."""
        self.is_away = True
        self.break_watches(1.0)

    def delivered(self, kind: Kind, manifest: Manifest) -> None:
        """The current process has got this object."""
        for notify in self.on_delivery:
            notify(kind, manifest)

    def ended(self, host: str) -> None:
        """End the watches of the process on this host, which has ended."""
        self.watches = {one: None for one in self.watches if one.host != host}

    def break_watches(self, share: float) -> None:
        """Break the connection of about this share of the watches."""
        for one in list(self.watches):
            if self.chance.random() < share:
                one.fail(Unavailable("the connection broke"))

    def stop_watches(self) -> None:
        """End all watches without an error, before `WATCH_S` is over."""
        for one in list(self.watches):
            one.stop()

    def _changed(self, change: Change) -> None:
        """Offer a change of the store to all running watches."""
        for one in self.watches:
            one.enqueue(change)


class _Watch(AsyncIterator[WatchEvent]):
    """One watch of a client.

    It is not an async generator, because the garbage collector would end an abandoned generator at
    a random moment.
    """

    def __init__(self, server: ApiServer, host: str, wanted: Selection, version: str) -> None:
        self._server, self.host, self._wanted = server, host, wanted
        self._version = int(version)
        self._due: deque[tuple[float, WatchEvent]] = deque()
        """Queued events with the times at which they arrive, in order."""
        self._last_s = 0.0
        self._ends_s: float | None = None
        """When the server ends this watch; None until the first event is requested."""
        self._failed: ApiError | None = None
        self._news: asyncio.Future[None] | None = None
        """Completed when something happens to a waiting watch."""

    def __aiter__(self) -> "_Watch":
        return self

    async def __anext__(self) -> WatchEvent:
        """Wait for the next event and its delivery. Raises if the watch has ended or failed."""
        loop = self._server.loop
        if self._ends_s is None:
            await self._begin()
        while not self._due:
            left_s = (self._ends_s or 0.0) - loop.time()
            if self._failed is not None or left_s <= 0:
                self._end()
            await self._wait(left_s)
        at_s, event = self._due[0]
        if at_s > loop.time():
            await asyncio.sleep(at_s - loop.time())
        await self._wait_until_reachable()
        if self._failed is not None:
            self._end()
        self._due.popleft()
        if event.type is not EventType.DELETED:
            self._server.delivered(self._wanted.kind, event.object)
        return event

    async def _begin(self) -> None:
        """Connect, and enqueue the changes since the version from which the client watches."""
        server = self._server
        await travel(server, self.host)
        for change in server.store.since(self._version):
            self.enqueue(change)
        self._ends_s = server.loop.time() + WATCH_S
        server.watches[self] = None

    def _end(self) -> None:
        """Raise the error that broke this watch, or `StopAsyncIteration`."""
        self._server.watches.pop(self, None)
        if self._failed is not None:
            raise self._failed
        raise StopAsyncIteration

    async def _wait(self, seconds: float) -> None:
        """Wait up to `seconds` for an event or the end of this watch.

        If answers do not reach the client for more than `SILENCE_S`, the watch fails: as on a real
        connection that is cut, no end is notified, and only a timeout of the client notices it.
        """
        silent_s = 0.0
        self._news = self._server.loop.create_future()
        while not self._news.done() and seconds > 0:
            await asyncio.wait({self._news}, timeout=min(seconds, SILENCE_S))
            seconds -= SILENCE_S
            silent_s = 0.0 if self._server.answers(self.host) else silent_s + SILENCE_S
            if silent_s > SILENCE_S:
                self.fail(Unavailable("the watch is silent"))

    async def _wait_until_reachable(self) -> None:
        """Wait until an event can arrive at the client, or fail the watch after a long silence."""
        waited_s = 0.0
        while not self._server.answers(self.host) and self._failed is None:
            if waited_s > SILENCE_S:
                self.fail(Unavailable("the watch is silent"))
                return
            await asyncio.sleep(STEP_S)
            waited_s += STEP_S

    def enqueue(self, change: Change) -> None:
        """Queue the event for a change with a random delay, if the watch selects its object."""
        event = self._wanted.sees(change)
        if event is None or change.version <= self._version:
            return  # the watch began at this version or a later one
        server = self._server
        late_s = server.chance.uniform(0.001, 0.005 + server.watch_delay_s)
        self._last_s = max(self._last_s, server.loop.time() + late_s)
        self._due.append((self._last_s, event))
        self._wake()

    def stop(self) -> None:
        """End this watch without an error, after the events that are queued."""
        self._ends_s = self._server.loop.time()
        self._server.watches.pop(self, None)
        self._wake()

    def fail(self, why: ApiError) -> None:
        """End this watch with an error; queued events are lost."""
        self._failed = self._failed or why
        self._server.watches.pop(self, None)
        self._wake()

    def _wake(self) -> None:
        """Let a waiting `__anext__` look again: an event was queued, or the watch has ended."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def travel(server: ApiServer, host: str) -> None:
    """Wait for as long as a request takes to the server. Raises `Unavailable` if it gets lost."""
    await asyncio.sleep(server.chance.uniform(0.0005, 0.004))
    if server.is_away:
        await asyncio.sleep(server.chance.choice((0.0, 0.0, 3.0)))
        raise Unavailable("connection refused")
    if not server.reaches(host):
        await asyncio.sleep(REQUEST_TIMEOUT_S)
        raise Unavailable("no answer in time")


class ApiClient:
    """`KubeApi` for the processes of one host."""

    def __init__(self, server: ApiServer, host: str) -> None:
        self._server, self._host = server, host

    async def close(self) -> None:
        """There is no connection to close."""

    async def _send(self, do: Callable[[], T], write: tuple[str, str, str, str] | None = None) -> T:
        """Send a request, whose effect is `do`, with all faults that may hit it.

        A write names its verb, kind, object and field manager. Raises `Unavailable` and the errors
        of `do`.
        """
        server = self._server
        await travel(server, self._host)
        if server.chance.random() < server.refused_share:
            server.faults["API request refused"] += 1
            raise Unavailable(server.chance.choice(("429: too many requests", "500: etcd")))
        if write is not None and server.late_share and server.chance.random() < server.late_share:
            answer = await self._carry_out_late(do)
        else:
            answer = do()
        if write is not None:
            for notify in list(server.on_write):
                notify(*write)
            if server.chance.random() < server.lost_answer_share:
                server.faults["API answer lost"] += 1
                await asyncio.sleep(server.chance.choice((0.0, REQUEST_TIMEOUT_S)))
                raise Unavailable("the connection broke")
        await asyncio.sleep(server.chance.uniform(0.0005, 0.004))
        if not server.answers(self._host):
            await asyncio.sleep(REQUEST_TIMEOUT_S)
            raise Unavailable("no answer in time")
        return answer

    async def _carry_out_late(self, do: Callable[[], T]) -> T:
        """Carry out a write after a long delay, even if its client has given up or ended."""
        server = self._server
        server.faults["API request late"] += 1
        answer: asyncio.Future[T] = server.loop.create_future()

        def arrived() -> None:
            try:
                found = do()
            except ApiError as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(found)

        delay_s = server.chance.uniform(0.0, LATEST_S)
        server.loop.call_later(delay_s, arrived, context=server.network.context)
        done, _ = await asyncio.wait({answer}, timeout=REQUEST_TIMEOUT_S)
        if not done:
            answer.cancel()
            raise Unavailable("no answer in time")
        return answer.result()

    async def list_(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        wanted = Selection(kind, namespace, labels, fields)
        found = await self._send(lambda: self._server.store.list_(wanted))
        for one in found.items:
            self._server.delivered(kind, one)
        return found

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Watch objects from this version on; it connects when its first event is awaited."""
        wanted = Selection(kind, namespace, labels, fields)
        return _Watch(self._server, self._host, wanted, resource_version)

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        found = await self._send(lambda: self._server.store.get(kind, namespace, name))
        self._server.delivered(kind, found)
        return found

    async def create(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, dry_run: bool = False
    ) -> Manifest:
        given = copied(manifest)
        name = str(given.get("metadata", {}).get("name", ""))
        return await self._send(
            lambda: self._server.store.create(kind, given, manager=field_manager, dry_run=dry_run),
            ("create", kind.kind, name, field_manager),
        )

    async def replace(
        self, kind: Kind, manifest: Manifest, *, field_manager: str, subresource: str = ""
    ) -> Manifest:
        given = copied(manifest)
        return await self._send(
            lambda: self._server.store.replace(kind, given, subresource, manager=field_manager),
            ("replace", kind.kind, key_of(given).name, field_manager),
        )

    async def patch(  # noqa: PLR0913 - the port's
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
        given = copied(dict(patch))
        key = ObjectKey(namespace, name)
        return await self._send(
            lambda: self._server.store.patch(
                kind,
                key,
                given,
                manager=field_manager,
                subresource=subresource,
                dry_run=dry_run,
            ),
            ("patch", kind.kind, name, field_manager),
        )

    async def apply(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        given = copied(manifest)
        return await self._send(
            lambda: self._server.store.apply(kind, given, field_manager),
            ("apply", kind.kind, key_of(given).name, field_manager),
        )

    async def apply_new(self, kind: Kind, manifest: Manifest, *, field_manager: str) -> Manifest:
        given = copied(manifest)
        return await self._send(
            lambda: self._server.store.apply_new(kind, given, field_manager),
            ("apply", kind.kind, key_of(given).name, field_manager),
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
        del orphan  # nothing is collected here
        key = ObjectKey(namespace, name)
        await self._send(
            lambda: self._server.store.delete(kind, key, uid=uid, version=resource_version),
            ("delete", kind.kind, name, ""),
        )
