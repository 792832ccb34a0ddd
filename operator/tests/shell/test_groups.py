"""A whole operator that asks pretended brokers about groups: what it writes, and what not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from chiplog_core.groups.placement import partition_of
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.group_exchange import (
    FACTS_PATH,
    POSITIONS_PATH,
    RETENTION_PATH,
    GroupFacts,
    GroupsAnswer,
    GroupsRequest,
    PartitionAnswer,
    PartitionOffset,
    PartitionPosition,
    Positions,
    PositionsRequest,
    RetentionAnswer,
    RetentionRequest,
    RetentionStored,
    TopicOffsets,
    TopicPositions,
    request_from_body,
    to_body,
)
from chiplog_core.model.group_status import GroupState
from chiplog_core.naming import names
from chiplog_core.observed.processes import Identity
from chiplog_kube import kinds
from chiplog_operator.groups.loop import GroupPorts
from chiplog_operator.groups.port import Access, NoAnswer, WrongSecret
from chiplog_operator.metrics import Metrics
from chiplog_operator.resources.secret import password_of
from tests.shell.pod_network import PodNetwork

NAMESPACE, CLUSTER = "shop", "demo"


@dataclass
class Brokers:
    """All brokers of the cluster, for the operator's questions: one topic, `orders`."""

    bench: Any
    committed: dict[str, int] = field(default_factory=dict)
    """By group, in partition 0 of `orders`."""
    end: int = 0
    retention_ms: dict[str, int | None] = field(default_factory=dict)
    away: bool = False
    a_page: int = 1_000
    asked: Counter[str] = field(default_factory=Counter)

    async def ask(self, whom: Identity, access: Access, path: str, body: bytes) -> bytes:
        self.asked[path] += 1
        if self.away:
            raise NoAnswer("it is away")
        stored = self.bench.one(kinds.SECRETS, names.internal_secret(CLUSTER))
        if access.secret != password_of(stored):
            raise WrongSecret("another secret")
        answer: dict[str, Callable[[Any], object]] = {
            FACTS_PATH: self._facts,
            POSITIONS_PATH: self._positions,
            RETENTION_PATH: self._retention,
        }
        asked = {
            FACTS_PATH: GroupsRequest,
            POSITIONS_PATH: PositionsRequest,
            RETENTION_PATH: RetentionRequest,
        }[path]
        return to_body(answer[path](request_from_body(asked, body)))

    def _facts(self, asked: GroupsRequest) -> GroupsAnswer:
        numbers = [one.partition for one in asked.partitions]
        wanted = asked.groups or [one for one in self.committed if partition_of(one, 50) in numbers]
        left = sorted(one for one in wanted if one > (asked.after or ""))
        told = left[: self.a_page]
        return GroupsAnswer(
            groups=tuple(self._group(one) for one in told),
            partitions=tuple(PartitionAnswer(partition=number) for number in numbers),
            next_after=told[-1] if len(told) < len(left) else None,
            time_ms=self.asked.total(),
        )

    def _group(self, group_id: str) -> GroupFacts:
        if group_id not in self.committed:
            return GroupFacts(group_id=group_id, state=GroupState.DEAD)
        offset = PartitionOffset(
            partition=PartitionIndex(0), committed_offset=self.committed[group_id]
        )
        return GroupFacts(
            group_id=group_id,
            state=GroupState.EMPTY,
            topics=(TopicOffsets(topic="orders", partitions=(offset,)),),
            offset_retention_ms=self.retention_ms.get(group_id),
        )

    def _positions(self, asked: PositionsRequest) -> Positions:
        position = PartitionPosition(partition=PartitionIndex(0), end_offset=Offset(self.end))
        return Positions(
            topics=tuple(
                TopicPositions(topic=one.topic, partitions=(position,)) for one in asked.topics
            ),
            time_ms=self.asked.total(),
        )

    def _retention(self, asked: RetentionRequest) -> RetentionAnswer:
        self.retention_ms |= {one.group_id: one.retention_ms for one in asked.groups}
        return RetentionAnswer(
            groups=tuple(RetentionStored(group_id=one.group_id) for one in asked.groups)
        )


class Running:
    """A cluster of three brokers with a topic, and questions about groups."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.brokers = Brokers(bench)
        self.metrics = Metrics()
        bench.net = PodNetwork()
        bench.groups = GroupPorts(port=self.brokers, figures_listener=self.metrics.groups)

    async def begin(self, **spec: Any) -> None:
        for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, "shop")):
            await self.bench.api.create(kind, {"metadata": {"name": name}}, field_manager="test")
        await self.bench.apply_cluster(**spec)
        await self.bench.apply_topic("orders", partitions=1)
        await self.bench.clock.advance(1)
        await self.bench.start_brokers()
        for number in (1, 2, 3):
            await self.bench.add_pod(number, f"10.1.0.{number}")
        await self.bench.live(4.5)

    async def apply(self, name: str = "billing", **spec: Any) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"clusterRef": {"name": CLUSTER}, **spec},
        }
        await self.bench.api.create(kinds.CONSUMER_GROUPS, manifest, field_manager="kubectl")

    def status(self, name: str = "billing") -> dict[str, Any]:
        found: dict[str, Any] = self.bench.one(kinds.CONSUMER_GROUPS, name).get("status", {})
        return found

    def groups(self) -> list[str]:
        return sorted(
            one["metadata"]["name"] for one in self.bench.api.all_of(kinds.CONSUMER_GROUPS)
        )

    def writes(self) -> int:
        return sum(call.kind == kinds.CONSUMER_GROUPS.kind for call in self.bench.api.writes())

    def scraped(self) -> list[str]:
        text = "".join(self.metrics.groups.slices())
        return [line for line in text.splitlines() if line.startswith("kafka_consumergroup_")]

    def run(self, scenario: Any) -> None:
        async def whole() -> None:
            async with self.bench.running():
                await scenario()

        self.bench.run(whole())


@pytest.fixture
def it(bench: Any) -> Running:
    return Running(bench)


def test_lag_is_shown_and_is_exact_when_it_stops(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"], it.brokers.end = 10, 10
        await it.apply()
        await it.bench.clock.advance(0.2)
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("True", "Ready")
        assert (it.status()["state"], it.status()["totalLag"]) == ("Empty", 0)
        for end in range(20, 1020, 10):
            it.brokers.end = end
            await it.bench.clock.advance(0.01)
        await it.bench.clock.advance(0.8)
        assert it.status()["totalLag"] == 1_000
        assert it.status()["partitions"][0]["endOffset"] == 1_010

    it.run(scenario)
    about = 'cluster="demo",consumergroup="billing",namespace="shop"'
    assert f'kafka_consumergroup_lag{{{about},partition="0",topic="orders"}} 1000' in it.scraped()
    assert f'kafka_consumergroup_lag_sum{{{about},topic="orders"}} 1000' in it.scraped()
    assert f"kafka_consumergroup_members{{{about}}} 0" in it.scraped()


def test_at_rest_nothing_is_written_and_no_plan_is_made(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"] = 0
        await it.apply()
        await it.bench.live(15)
        writes, asked = it.writes(), it.brokers.asked[FACTS_PATH]
        await it.bench.live(30)
        assert it.writes() == writes
        assert 40 < it.brokers.asked[FACTS_PATH] - asked <= 61, "twice a second"

    it.run(scenario)


def test_a_status_wakes_no_plan(it: Running) -> None:
    async def scenario() -> None:
        async with it.bench.running() as system:
            await it.begin()
            it.brokers.committed["billing"] = 0
            await it.apply()
            await it.bench.live(3)
            parts, rounds = system.loops._parts, []
            observe = parts.observer.observe

            async def counted(*given: Any) -> Any:
                rounds.append(given)
                return await observe(*given)

            parts.observer.observe = counted
            writes = it.writes()
            for end in (5, 50, 500):
                it.brokers.end = end
                await it.bench.live(3)
            assert it.writes() >= writes + 3
            assert len(rounds) <= 1, "the periodic look"

    it.bench.run(scenario())


def test_nobody_is_asked_without_a_group_to_ask_about(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"] = 0
        await it.bench.live(120)

    it.run(scenario)
    assert it.brokers.asked.total() == 0
    assert it.groups() == []


def test_brokers_that_are_away_are_told_and_asked_seldom(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"], it.brokers.end = 3, 5
        await it.apply()
        await it.bench.live(3)
        it.brokers.away = True
        await it.bench.live(9)
        before = it.brokers.asked.total()
        await it.bench.live(30)
        assert it.brokers.asked.total() - before <= 7
        ready = it.bench.ready(kinds.CONSUMER_GROUPS, "billing")
        assert ready == ("False", "CoordinatorNotAvailable")
        assert (it.status()["state"], it.status()["totalLag"]) == ("Unknown", 2)
        assert it.scraped() == []
        it.brokers.away = False
        await it.bench.live(6)
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("True", "Ready")

    it.run(scenario)


def test_a_new_secret_is_read_when_brokers_do_not_take_the_old_one(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"] = 0
        await it.apply()
        await it.bench.live(3)
        await it.bench.api.patch(
            kinds.SECRETS,
            NAMESPACE,
            names.internal_secret(CLUSTER),
            {"data": {"password": "bmV3"}},
            field_manager="kubectl",
        )
        it.brokers.end = 7
        await it.bench.live(3)
        assert it.status()["totalLag"] == 7

    it.run(scenario)


def test_groups_are_discovered_over_many_pages(it: Running) -> None:
    async def scenario() -> None:
        it.brokers.a_page = 2
        it.brokers.committed = {f"g-{number:02}": 0 for number in range(20)}
        await it.begin(consumerGroups={"discover": True})
        await it.bench.live(3)
        assert it.groups() == sorted(it.brokers.committed)
        one = it.bench.one(kinds.CONSUMER_GROUPS, "g-07")
        assert one["metadata"]["labels"]["chiplog.dev/discovered"] == "true"
        assert one["spec"] == {"clusterRef": {"name": CLUSTER}, "groupId": "g-07"}
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "g-07") == ("True", "Ready")

    it.run(scenario)


@pytest.mark.parametrize("managers", [["chiplog-operator"], ["chiplog-operator", "kubectl"], []])
def test_what_only_the_operator_wrote_goes_with_its_group(it: Running, managers: list[str]) -> None:
    async def scenario() -> None:
        it.brokers.committed["billing"] = 0
        await it.begin(consumerGroups={"discover": True})
        await it.bench.api.patch(
            kinds.CONSUMER_GROUPS,
            NAMESPACE,
            "billing",
            {"metadata": {"managedFields": [{"manager": one} for one in managers]}},
            field_manager="test",
        )
        del it.brokers.committed["billing"]
        await it.bench.live(90)

    it.run(scenario)
    assert it.groups() == ([] if managers == ["chiplog-operator"] else ["billing"])


def test_a_retention_is_sent_and_comes_true(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"] = 0
        await it.apply(offsetRetention="7d")
        await it.bench.live(30)
        assert it.brokers.retention_ms == {"billing": 604_800_000}
        assert it.brokers.asked[RETENTION_PATH] == 1
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("True", "Ready")

    it.run(scenario)


def test_a_missed_objective_is_an_event(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"], it.brokers.end = 0, 5
        await it.apply(maxLag={"records": 4})
        await it.bench.live(3)

    it.run(scenario)
    (event,) = [
        one
        for one in it.bench.api.all_of(kinds.EVENTS)
        if one["involvedObject"]["kind"] == "ConsumerGroup" and one["type"] == "Warning"
    ]
    assert event["reason"] == "LagTooLarge"


def test_a_group_without_its_cluster_is_told_so(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        await it.apply()
        await it.bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
        await it.bench.live(3)

    it.run(scenario)
    assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("False", "ClusterNotFound")


def test_a_fault_in_here_stops_nothing_else(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chiplog_operator.groups.loop.scene_of", lambda *_: 1 / 0)

    async def scenario() -> None:
        await it.begin()
        await it.apply()
        await it.bench.live(15)
        assert it.bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")

    it.run(scenario)
    assert it.status() == {}
