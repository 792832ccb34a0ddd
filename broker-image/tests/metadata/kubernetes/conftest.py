"""A broker as a member of a cluster, an API server in memory, an operator played by the test."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.kubernetes import admin_requests, lease_keeper, maps, store
from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership, MemberPorts
from chiplog_broker.metadata.kubernetes.process import Process, new_incarnation
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.checksum_line import with_checksum, without_checksum
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.security.credentials import Credentials, FixedCredentials
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker as BrokerObject
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.naming import labels, names
from chiplog_kube.api import (
    Conflict,
    EventType,
    KubeApi,
    Manifest,
    NotFound,
    ObjectList,
    Unavailable,
    WatchEvent,
)
from chiplog_kube.kinds import ACCESS_LISTS, BROKERS, LEASES, PARTITION_MAPS, Kind
from e2e.sim.api_store import merged
from tests.metadata.kubernetes.brokers_kit import Brokers
from tests.metadata.kubernetes.isolation_kit import SteppedCluster, stepped_cluster

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

CLUSTER = "c1"
NAMESPACE = "ns"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
OTHER_ID = "CCCCCCCCCCCCCCCCCCCCCQ"
OWNER = "00000000-0000-0000-0000-000000000001"
INTERNAL = Credentials("internal", "the secret of the cluster's processes")


class Held:
    """Patches that do not reach the server before a test lets them."""

    def __init__(self) -> None:
        self._reached, self._free = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self._reached.set()
        await self._free.wait()

    def is_reached(self) -> bool:
        return self._reached.is_set()

    def let_go(self) -> None:
        self._free.set()


class MemoryApi:
    """As much of a `KubeApi` as brokers use. `away` makes it fail and breaks every watch."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.patches: list[tuple[str, Mapping[str, object]]] = []
        self.unlisted: set[str] = set()
        """Kinds of which a list fails."""
        self._held: dict[str, Held] = {}
        self._version = 0
        self._watchers: dict[str, set[asyncio.Queue[WatchEvent | None]]] = {}
        self._away = False

    @property
    def away(self) -> bool:
        return self._away

    @away.setter
    def away(self, away: bool) -> None:
        self._away = away
        for watchers in self._watchers.values() if away else ():
            for queue in watchers:
                queue.put_nowait(None)

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Write an object as its owner would."""
        self._version += 1
        meta = manifest["metadata"]
        meta["resourceVersion"] = str(self._version)
        meta.setdefault("uid", f"uid-{self._version}")
        key = (kind.plural, meta["name"])
        is_new = key not in self.objects
        self.objects[key] = manifest
        self._tell(kind, EventType.ADDED if is_new else EventType.MODIFIED, manifest)
        return copy.deepcopy(manifest)

    def hold_patches(self, plural: str) -> Held:
        """From now on, of this kind."""
        self._held[plural] = Held()
        return self._held[plural]

    def remove(self, kind: Kind, name: str) -> None:
        self._version += 1
        gone = self.objects.pop((kind.plural, name))
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell(kind, EventType.DELETED, gone)

    def _tell(self, kind: Kind, event: EventType, manifest: Manifest) -> None:
        for queue in self._watchers.get(kind.plural, ()):
            queue.put_nowait(WatchEvent(event, copy.deepcopy(manifest)))

    def _check(self) -> None:
        if self._away:
            raise Unavailable("connection refused")

    async def list_(
        self, kind: Kind, _namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        self._check()
        if kind.plural in self.unlisted:
            raise Unavailable("etcdserver: request timed out")
        named = kind is ACCESS_LISTS
        assert labels == ("" if named else f"chiplog.dev/cluster={CLUSTER}")
        assert fields == (f"metadata.name={CLUSTER}" if named else "")
        found = [one for (plural, _), one in self.objects.items() if plural == kind.plural]
        return ObjectList(copy.deepcopy(found), str(self._version))

    async def watch(
        self, kind: Kind, _namespace: str = "", *, resource_version: str, **_: str
    ) -> AsyncIterator[WatchEvent]:
        self._check()
        assert int(resource_version) == self._version, "a list comes directly before"
        queue: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._watchers.setdefault(kind.plural, set()).add(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
            raise Unavailable("connection lost")
        finally:
            self._watchers[kind.plural].discard(queue)

    async def get(self, kind: Kind, _namespace: str, name: str) -> Manifest:
        self._check()
        if (kind.plural, name) not in self.objects:
            raise NotFound(name)
        return copy.deepcopy(self.objects[kind.plural, name])

    async def patch(
        self,
        kind: Kind,
        _namespace: str,
        name: str,
        patch: Mapping[str, object],
        *,
        field_manager: str,
        subresource: str = "",
        **_: Any,
    ) -> Manifest:
        await asyncio.sleep(0)
        if kind.plural in self._held:
            await self._held[kind.plural].wait()
        self._check()
        assert field_manager == "chiplog-broker"
        assert set(patch) - {"metadata"} == ({"status"} if subresource else {"spec"})
        if (kind.plural, name) not in self.objects:
            raise NotFound(name)
        given = cast("Mapping[str, str]", patch.get("metadata", {}))
        there = self.objects[kind.plural, name]["metadata"]
        fixed = ("uid", "resourceVersion")
        if any(given[one] != there[one] for one in fixed if one in given):
            raise Conflict("the object has been modified")
        self.patches.append((kind.plural, patch))
        return self.put(kind, merged(copy.deepcopy(self.objects[kind.plural, name]), patch))


@dataclass
class Machine:
    """A machine whose kernel starts anew when a test says so."""

    boot: str = "boot-1"
    told: list[str] = field(default_factory=list)

    def boot_id(self) -> str:
        return self.boot

    def leave(self, termination_message: str) -> None:
        self.told.append(termination_message)


def partition(session: int, epoch: int, index: int = 0, **more: Any) -> dict[str, Any]:
    """A partition that broker 1 leads alone, in this session."""
    own = f"1@{session}"
    wanted = {
        "partition": index,
        "replicas": [1],
        "isr": [own],
        "leader": own,
        "leaderEpoch": epoch,
        "partitionEpoch": epoch,
    }
    return {name: value for name, value in (wanted | more).items() if value is not None}


class Operator:
    """What a test has the operator do."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api
        self.add_broker(1)
        meta = {"name": names.broker_lease(CLUSTER, BrokerId(1)), "namespace": NAMESPACE}
        api.put(LEASES, {"metadata": meta, "spec": {}})

    def add_broker(self, broker_id: int, **spec: Any) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Broker",
            "metadata": self._metadata(names.broker(CLUSTER, BrokerId(broker_id))),
            "spec": {
                "cluster": CLUSTER,
                "clusterId": CLUSTER_ID,
                "brokerId": broker_id,
                "intent": "Serve",
                "endpoints": [{"listener": "plain", "host": f"b{broker_id}", "port": 9092}],
                **spec,
            },
        }
        self.api.put(BROKERS, manifest)

    def _metadata(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": NAMESPACE, "labels": {labels.CLUSTER: CLUSTER}}

    def write_broker(self, broker_id: int = 1, **spec: Any) -> None:
        found = copy.deepcopy(self.api.objects["brokers", f"{CLUSTER}-{broker_id}"])
        self.api.put(BROKERS, merged(found, {"spec": spec}))

    def admit(self, session: int) -> None:
        """Whoever registered last."""
        self.write_broker(
            admittedIncarnation=self.status.incarnation, session=session, fenced=False
        )

    def write_map(self, topic: str, partitions: list[dict[str, Any]] | None, **spec: Any) -> None:
        topic_id = spec.pop("topic_id", TOPIC_ID)
        name = names.partition_map(CLUSTER, topic)
        found: dict[str, Any] = {
            "cluster": CLUSTER,
            "topicName": topic,
            "ownerUID": OWNER,
            "minIsr": 1,
            "durability": "Fsync",
        }
        if partitions is not None:
            found["current"] = topic_id
            found["generations"] = [{"topicId": topic_id, "partitions": partitions}]
        self.api.put(
            PARTITION_MAPS,
            {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "PartitionMap",
                "metadata": self._metadata(name) | {"uid": f"uid-of-{name}"},
                "spec": found | spec,
            },
        )

    def remove_map(self, topic: str) -> None:
        self.api.remove(PARTITION_MAPS, names.partition_map(CLUSTER, topic))

    @property
    def status(self) -> BrokerStatus:
        """Of broker 1; it must read as the operator reads it."""
        return BrokerObject.from_manifest(self.api.objects["brokers", f"{CLUSTER}-1"]).status

    def answer(
        self, request_id: str, code: int = 0, uid: str | None = OWNER, **more: object
    ) -> None:
        assert request_id in [one.id for one in self.status.requests]
        result = {"topic": "orders", "errorCode": code, "errorMessage": "told so", **more}
        if uid:
            result["topicUID"] = uid
        self.write_broker(answers=[{"id": request_id, "results": [result]}])


class MemberKit:
    """Processes of broker 1, one after another, on one folder."""

    def __init__(self, kit: "Kit", directory: Path) -> None:
        self.kit = kit
        self.directory = directory
        self.api = MemoryApi()
        self.operator = Operator(self.api)
        self.machine = Machine()
        self.broker: Broker
        self.membership: KubernetesMembership
        self.more_listeners: list[Listener] = []
        self.config: dict[str, str] = {}
        self._disks: list[SystemDisk] = []

    @staticmethod
    def partition(session: int, epoch: int, index: int = 0, **more: Any) -> dict[str, Any]:
        """A partition that broker 1 leads alone, in this session; None takes a field out."""
        return partition(session, epoch, index, **more)

    @staticmethod
    async def eventually(holds: Callable[[], Any]) -> None:
        """Wait until it holds."""
        await eventually(holds)

    def new_process(self) -> Broker:
        self.let_go()
        data, metadata = (
            SystemDisk(self.directory / "data"),
            SystemDisk(self.directory / "metadata"),
        )
        self._disks = [data, metadata]
        clock, rng = SystemClock(), SystemRng()
        config = {"node.id": "1", **self.config}
        process = Process(
            cluster=CLUSTER,
            namespace=NAMESPACE,
            broker_id=BrokerId(1),
            incarnation=new_incarnation(rng),
            version="1.2.3",
        )

        async def close_api() -> None:
            """Nothing to close."""

        self.membership = KubernetesMembership(
            process,
            MemberPorts(
                api=cast("KubeApi", self.api),
                clock=clock,
                rng=rng,
                metadata=metadata,
                data=data,
                machine=self.machine,
                close_api=close_api,
                internal=FixedCredentials(INTERNAL),
            ),
            config,
        )
        listener = Listener("plain", "127.0.0.1", 0, "127.0.0.1", 0)
        self.broker = Broker(
            Ports(clock, rng, data, metadata),
            config,
            [listener, *self.more_listeners],
            "data",
            self.membership,
        )
        return self.broker

    def let_go(self) -> None:
        """The locks of a process go with it."""
        for disk in self._disks:
            disk.close()

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[asyncio.Task[None]]:
        """A process that has begun and is not admitted yet."""
        broker = self.new_process()
        start = asyncio.get_running_loop().create_task(broker.start())
        incarnation = self.membership._process.incarnation
        try:
            await eventually(lambda: self.operator.status.incarnation == incarnation)
            yield start
        finally:
            if start.done() and not start.cancelled() and start.exception() is None:
                await broker.stop()
            else:
                start.cancel()
                await asyncio.wait([start])

    @asynccontextmanager
    async def admitted(self, session: int) -> AsyncIterator["Client"]:
        """A process that serves, and a client of it."""
        async with self.starting() as start:
            self.operator.admit(session)
            await start
            client = await self.client()
            try:
                yield client
            finally:
                self.kit.close_clients()

    async def client(self) -> "Client":
        """On the address that was bound; the one clients are told leads nowhere here."""
        self.kit.broker = self.broker
        return await self.kit.client("plain")

    @property
    def store(self) -> store.KubernetesStore:
        found = self.membership._store
        assert found is not None
        return found

    def replica(self, topic: str = "orders", index: int = 0) -> Partition:
        """A replica that is here."""
        found = self.broker._replicas.get(topic, index)
        assert found is not None
        return found

    def kept_session(self) -> dict[str, Any]:
        """What the next process would find of this one."""
        content = without_checksum((self.directory / "metadata/session.json").read_bytes())
        found: dict[str, Any] = json.loads(content)
        return found

    def change_kept_session(self, **changes: object) -> None:
        """Let the next process find something else, written as brokers write it."""
        text = json.dumps(self.kept_session() | changes) + "\n"
        path = self.directory / "metadata/session.json"
        path.write_bytes(with_checksum(text.encode()))

    async def crash(self) -> None:
        """End the process without a word: nothing is closed in order."""
        await self.membership.leave()

    def run(self, scenario: Callable[[], Any]) -> None:
        self.kit.run(scenario)


async def eventually(holds: Callable[[], Any], within_s: float = 5.0) -> None:
    """Wait until it holds; what it says last is in the failure."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, f"never held: {holds()!r}"
        await asyncio.sleep(0.005)


@pytest.fixture
def member(kit: "Kit", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemberKit]:
    monkeypatch.setattr(lease_keeper, "RENEW_INTERVAL_S", 0.02)
    monkeypatch.setattr(maps, "RETRY_S", 0.05)
    monkeypatch.setattr(store, "DRAINING_WRITE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(admin_requests, "SHORTEST_TIMEOUT_MS", 100)
    monkeypatch.setattr(admin_requests, "SEEN_WITHIN_S", 0.3)
    one = MemberKit(kit, tmp_path)
    yield one
    one.let_go()


@pytest.fixture
def brokers(member: MemberKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(store, "DRAIN_S", 0.1)
    return Brokers(member, tmp_path)


@pytest.fixture
def cluster(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> SteppedCluster:
    return stepped_cluster(brokers, monkeypatch)
