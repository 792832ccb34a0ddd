"""A whole operator that rebalances a cluster by itself when brokers were added."""

from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import labels
from chiplog_core.spark import auto_rebalance
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Unavailable
from chiplog_operator.spark import auto_rebalancing
from tests.shell.broker_loads import LoadedBrokers
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench, FakeBroker
from tests.shell.memory_api import Call
from tests.shell.test_rebalances import Spark


class Auto:
    """Three brokers with a topic of which each partition is on two of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.spark = Spark(bench)
        self.brokers = LoadedBrokers(bench, sizes=lambda _topic, _partition: 2**30)

    async def begin(self, *auto: dict[str, Any]) -> None:
        """By operators that end."""
        async with self.bench.running():
            await self.spark.begin()
        self.bench.groups = self.brokers.ports()
        async with self.bench.running():
            await self.patch({"spec": {"autoRebalance": list(auto)}})
            await self.bench.live(18)

    async def patch(self, patch: dict[str, Any]) -> None:
        await self.bench.api.patch(
            kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, patch, field_manager="kubectl"
        )

    async def scale_out(self) -> None:
        """To four brokers, of which the last one starts."""
        await self.patch({"spec": {"replicas": 4}})
        await self.bench.live(3)
        fourth = FakeBroker(self.bench, BrokerId(4), f"{4:032x}")
        self.bench.brokers[4] = fourth
        await fourth.register()
        await self.bench.add_pod(4, "10.1.0.4")
        await self.bench.live(9)

    def status(self) -> dict[str, Any]:
        found = self.bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]
        return dict(found.get("autoRebalance", {}))

    def made(self) -> list[dict[str, Any]]:
        return [
            one
            for one in self.bench.api.all_of(kinds.REBALANCES)
            if labels.REBALANCE_AUTO_APPROVAL in one["metadata"].get("annotations", {})
        ]

    def events(self) -> list[str]:
        found = self.bench.api.all_of(kinds.EVENTS)
        return [one["reason"] for one in found if one["reason"].startswith("AutoRebalance")]

    def warning(self) -> str:
        found = self.bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]["conditions"]
        return "".join(one["message"] for one in found if one["type"] == "Warning")


@pytest.fixture
def it(bench: Bench) -> Auto:
    return Auto(bench)


def test_a_new_broker_gets_its_share_without_anybody(it: Auto) -> None:
    async def scenario() -> None:
        await it.begin({"mode": "add-brokers"})
        assert it.status()["balancedBrokers"] == [1, 2, 3]
        async with it.bench.running():
            await it.scale_out()
            await it.bench.live(60)
            (one,) = it.made()
            (owner,) = one["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("BrokerCluster", CLUSTER)
            assert one["spec"]["measure"] == "Brokers"
            assert one["spec"]["brokers"] == [4]
            assert one["status"]["state"] == "Rebalancing", one["status"]
            assert it.status()["state"] == "RebalanceOnScaleUp"
            assert it.status()["rebalance"] == one["metadata"]["name"]
            replicas = [
                state["replicas"]
                for state in it.spark.map()["spec"]["generations"][0]["partitions"]
                if state.get("adding") == [4]
            ]
            assert replicas, "nothing moves to the new broker"
            assert it.bench.api.all_of(kinds.JOBS) == []
            await it.bench.api.delete(kinds.REBALANCES, NAMESPACE, one["metadata"]["name"])
            await it.bench.live(60)
            assert (it.status()["state"], it.made()) == ("Idle", [])
            assert it.status()["balancedBrokers"] == [1, 2, 3, 4]
        assert it.events() == ["AutoRebalanceBegun"]

    it.bench.run(scenario())


def test_an_operator_that_dies_at_any_write_creates_one(it: Auto) -> None:
    async def scenario() -> None:
        await it.begin({"mode": "add-brokers"})
        async with it.bench.running():
            await it.scale_out()
        for kind in ("BrokerCluster", "Rebalance", "BrokerCluster"):
            broken: list[Call] = []

            def break_after(
                call: Call, kind: str = kind, broken: list[Call] = broken
            ) -> ApiError | None:
                if call.kind == kind and call.verb in {"create", "patch"} and not broken:
                    broken.append(call)
                    return Unavailable("the answer is lost")
                return None

            async with it.bench.running():
                it.bench.api.fault_after = break_after
                await it.bench.live(3)
            it.bench.api.fault_after = lambda _: None
        async with it.bench.running():
            await it.bench.live(60)
        created = [
            call
            for call in it.bench.api.writes()
            if (call.kind, call.verb) == ("Rebalance", "create")
        ]
        assert len(it.made()) == 1
        assert {call.name for call in created} == {it.made()[0]["metadata"]["name"]}

    it.bench.run(scenario())


def test_what_may_not_be_created_is_reported_and_tried_again(it: Auto) -> None:
    def forbid(call: Call) -> ApiError | None:
        is_ours = (call.kind, call.verb) == ("Rebalance", "create")
        return Forbidden("rebalances is forbidden") if is_ours else None

    async def scenario() -> None:
        await it.begin({"mode": "add-brokers"})
        async with it.bench.running():
            it.bench.api.fault = forbid
            await it.scale_out()
            await it.bench.live(60)
            assert (it.status()["state"], it.made()) == ("RebalanceOnScaleUp", [])
            assert it.spark.counts() == {1: 6}
            assert "cannot be created: rebalances is forbidden" in it.warning()
            assert it.events().count("AutoRebalanceFailed") == 1
            it.bench.api.fault = lambda _: None
            await it.bench.live(30)
            assert (len(it.made()), it.warning()) == (1, "")

    it.bench.run(scenario())


def test_one_that_fails_is_in_the_clusters_condition(it: Auto) -> None:
    async def scenario() -> None:
        await it.begin({"mode": "add-brokers", "template": "wanted"})
        async with it.bench.running():
            await it.scale_out()
            await it.bench.live(30)
            assert "there is no Rebalance wanted" in it.warning()
            it.spark.name = "wanted"
            await it.spark.apply(measure="Brokers", goals=["LeaderReplicaDistributionGoal"])
            await it.spark.patch({"metadata": {"annotations": {labels.REBALANCE_TEMPLATE: "true"}}})
            await it.bench.live(60)
            assert it.spark.ready() == ("True", "Template")
            (one,) = it.made()
            assert one["spec"]["goals"] == ["LeaderReplicaDistributionGoal"]
            assert one["status"]["state"] == "Ready", "without its goal no replica moves"
            assert (it.status()["state"], it.warning()) == ("Idle", "")

    it.bench.run(scenario())


def test_load_that_stays_uneven_is_evened_out(it: Auto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_rebalance, "STAYS", timedelta(seconds=40))
    monkeypatch.setattr(auto_rebalancing, "MEASURED_AGAIN_S", 10.0)

    async def scenario() -> None:
        await it.begin({"mode": "imbalance", "threshold": 50, "template": "wanted"})
        async with it.bench.running():
            it.spark.name = "wanted"
            await it.spark.apply(measure="Brokers", goals=["LeaderReplicaDistributionGoal"])
            await it.spark.patch({"metadata": {"annotations": {labels.REBALANCE_TEMPLATE: "true"}}})
            it.brokers.away = {1}
            await it.bench.live(90)
            assert "leadersSkewPercent" not in it.status()
            assert it.spark.counts() == {1: 6}
            it.brokers.away = set()
            await it.bench.live(30)
            assert it.status()["leadersSkewPercent"] > 100
            assert it.made() == []
            await it.bench.live(75)
            (one,) = it.made()
            assert one["spec"].get("mode", "full") == "full"
            assert one["status"]["state"] == "Ready", one["status"]
            assert max(it.spark.counts().values()) <= 3
            asked = it.brokers.asked.total()
            await it.bench.live(60)
            assert 0 < it.brokers.asked.total() - asked <= 3 * 6, "more than every ten seconds"
            assert it.status()["leadersSkewPercent"] == 0
            assert len(it.made()) == 1
            await it.patch({"spec": {"autoRebalance": None}})
            await it.bench.live(30)
            assert it.status() == {}
        assert it.events() == ["AutoRebalanceBegun"]

    it.bench.run(scenario())
