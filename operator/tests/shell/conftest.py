"""An operator on an API server in memory, in time that passes only when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_core.planner.plan import plan
from chiplog_core.spark.choices import Allowed
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.caches import JOB_KINDS, USER_KINDS
from chiplog_operator.groups.loop import GroupPorts
from chiplog_operator.health_port import Net
from chiplog_operator.loop import Planner
from chiplog_operator.metrics import Metrics
from chiplog_operator.spark.collector import VerificationsCollector
from chiplog_operator.system import Settings, System
from tests.shell import virtual_clock
from tests.shell.memory_api import MemoryApi
from tests.shell.virtual_clock import VirtualClock

T = TypeVar("T")
NAMESPACE, CLUSTER = "shop", "demo"


class Authorized:
    """In charge until a test says otherwise."""

    held = True

    def is_held(self) -> bool:
        return self.held


@dataclass
class FakeBroker:
    """A broker as the operator sees one: a status, a Lease, a pod."""

    bench: "Bench"
    broker_id: BrokerId
    incarnation: str
    session: int = 0
    renewals: int = 0
    checked: str | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    is_silent: bool = False
    """It says nothing of the maps, whatever it is asked."""

    async def register(self) -> None:
        """As after a start: a new process that has not been admitted."""
        storage = "AAAAAAAAAAAAAAAAAAAA" + f"{self.broker_id}A"
        status = {
            "incarnation": self.incarnation,
            "session": None,
            "mapsChecked": None,
            "version": "1",
            "directories": [{"storageUUID": storage, "tail": "intact", "intactSince": 1}],
        }
        self.checked = None
        await self._patch_status(status)

    async def renew(self) -> None:
        self.renewals += 1
        await self.bench.api.patch(
            kinds.LEASES,
            NAMESPACE,
            names.broker_lease(CLUSTER, self.broker_id),
            {
                "spec": {
                    "holderIdentity": self.incarnation,
                    "renewTime": f"2026-01-01T00:00:{self.renewals:06d}Z",
                    "leaseDurationSeconds": 6,
                }
            },
            field_manager="broker",
        )

    async def serve(self) -> None:
        """Renew, and take the session the operator gave."""
        await self.renew()
        spec = self.bench.one(kinds.BROKERS, names.broker(CLUSTER, self.broker_id))["spec"]
        is_mine = spec.get("admittedIncarnation") == self.incarnation
        if is_mine and spec["session"] != self.session:
            self.session = spec["session"]
            await self._patch_status({"session": self.session})
        if spec.get("mapsCheck") != self.checked and not self.is_silent:
            self.checked = spec.get("mapsCheck")
            await self._patch_status({"mapsChecked": self.checked})
        if is_mine:
            await self._report()

    async def _report(self) -> None:
        """Say what the disk holds of partitions of which the map asks it: nothing, undamaged."""
        reports = [
            {
                "topicId": generation["topicId"],
                "partition": state["partition"],
                "leaderEpoch": state["leaderEpoch"],
                "partitionEpoch": state["partitionEpoch"],
                "isr": state["isr"],
                "logEndOffset": 0,
            }
            for one in self.bench.api.all_of(kinds.PARTITION_MAPS)
            for generation in one["spec"].get("generations", [])
            for state in generation["partitions"]
            if state.get("reportsWanted") and self.broker_id in state["replicas"]
        ]
        if reports != self.reports:
            self.reports = reports
            await self._patch_status({"replicaReports": reports})

    async def _patch_status(self, status: dict[str, Any]) -> None:
        await self.bench.api.patch(
            kinds.BROKERS,
            NAMESPACE,
            names.broker(CLUSTER, self.broker_id),
            {"status": status},
            field_manager="broker",
            subresource="status",
        )


@dataclass
class Bench:
    """What a test of the shell works with."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    api: MemoryApi = field(init=False)
    authority: Authorized = field(default_factory=Authorized)
    brokers: dict[int, FakeBroker] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    """Where the operator looks; everywhere where empty."""
    net: Net | None = None
    """What the operator reaches; no pod here has an address unless a test gives it one."""
    metrics: Metrics = field(default_factory=Metrics)
    groups: GroupPorts | None = None
    """What it asks about groups; nobody where not set."""
    verifications: VerificationsCollector | None = None
    """Where it shows what Spark jobs found; it looks at none where not set."""

    keeps_users: bool = False

    planner: Planner = plan
    """What decides; a test may give one with a bug."""

    spark_image: str = "chiplog/spark:test"

    spark_is_judged: bool = False
    """The API server judges who names an image or an account for Spark jobs."""

    def __post_init__(self) -> None:
        self.api = MemoryApi(now=self.clock.now)

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        return virtual_clock.run(scenario)

    def system(self) -> System:
        """An operator process; its users' kinds are watched as Kopf would."""
        settings = Settings(
            instance="operator-1",
            broker_image="chiplog/broker:test",
            namespaces=self.namespaces,
            watched_users=(*USER_KINDS, *(JOB_KINDS if self.verifications else ())),
            spark_image=self.spark_image,
            spark_allowed=Allowed(is_judged_at_admission=self.spark_is_judged),
        )
        system = System(
            self.api,
            settings,
            clock=self.clock,
            authority=self.authority,
            meter=self.metrics,
            planner=self.planner,
            net=self.net,
            groups=self.groups,
            spark=self.verifications,
            keeps_users=self.keeps_users,
        )
        self.metrics.objects.show(system.caches)
        return system

    @asynccontextmanager
    async def running(self) -> AsyncIterator[System]:
        """An operator that runs while the block does."""
        system = self.system()
        task = asyncio.create_task(system.run())
        try:
            await self.clock.advance(0.5)
            yield system
            assert not task.done(), "the operator ended by itself"
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def apply_cluster(self, replicas: int = 3, **spec: Any) -> Manifest:
        given = {"replicas": replicas, "storage": {"size": "1Gi"}, **spec}
        manifest = manifest_of("BrokerCluster", CLUSTER, given)
        return await self.api.create(kinds.BROKER_CLUSTERS, manifest, field_manager="kubectl")

    async def apply_topic(self, name: str, partitions: int = 3, **spec: Any) -> Manifest:
        given = {"clusterRef": {"name": CLUSTER}, "partitions": partitions, **spec}
        manifest = manifest_of("Topic", name, given)
        return await self.api.create(kinds.TOPICS, manifest, field_manager="kubectl")

    async def add_pod(self, number: int, address: str) -> None:
        """As the StatefulSet's controller makes it."""
        owner = names.stateful_set(CLUSTER, BrokerId(number))
        template = self.one(kinds.STATEFUL_SETS, owner)["spec"]["template"]["metadata"]
        name = names.pod(CLUSTER, BrokerId(number))
        meta = {**template, "namespace": NAMESPACE, "name": name}
        status = {"phase": "Running", "podIP": address}
        manifest = {"metadata": meta, "spec": {"nodeName": ""}, "status": status}
        await self.api.create(kinds.PODS, manifest, field_manager="kubelet")

    async def start_brokers(self, count: int = 3) -> None:
        """New processes for brokers 1 to `count`."""
        for number in range(1, count + 1):
            life = len(self.brokers) + 1
            self.brokers[number] = FakeBroker(self, BrokerId(number), f"{number:08x}{life:024x}")
            await self.brokers[number].register()

    async def live(self, seconds: float, *, without: tuple[int, ...] = ()) -> None:
        """Let time pass in which brokers renew their Leases."""
        for _ in range(max(1, round(seconds / 1.5))):
            for number, broker in self.brokers.items():
                if number not in without:
                    await broker.serve()
            await self.clock.advance(1.5)

    def one(self, kind: Any, name: str) -> Manifest:
        for manifest in self.api.all_of(kind):
            if manifest["metadata"]["name"] == name:
                return manifest
        raise AssertionError(f"there is no {kind.kind} {name}")

    def ready(self, kind: Any, name: str) -> tuple[str, str]:
        """Status and reason of the condition Ready."""
        for condition in self.one(kind, name).get("status", {}).get("conditions", []):
            if condition["type"] == "Ready":
                return condition["status"], condition["reason"]
        return "", ""

    def leaders(self, topic: str) -> list[str | None]:
        """Leaders of the topic's partitions, as broker@session."""
        spec = self.one(kinds.PARTITION_MAPS, f"{CLUSTER}.{topic}")["spec"]
        (generation,) = spec["generations"]
        return [partition.get("leader") for partition in generation["partitions"]]


def manifest_of(kind: str, name: str, spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
    }


@pytest.fixture
def bench() -> Bench:
    return Bench()
