"""A whole operator that has damaged replicas fetched anew: by policy, once, and told."""

from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Manifest, Unavailable
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.memory_api import Call
from tests.shell.test_groups import Running
from tests.shell.test_verifications import Spark


class Repairs(Spark):
    """Runs that accuse replicas, and brokers that follow orders."""

    async def begin(self) -> None:
        running = Running(self.bench)
        self.bench.groups = None
        await running.begin(config={"default.replication.factor": 3, "min.insync.replicas": 2})

    async def begin_with_damaged(self, *replicas: int, **spec: Any) -> None:
        """A run has just proven these to be damaged."""
        await self.begin()
        await self.apply(topics=["orders"], **spec)
        await self.prove(*replicas)

    def topic_id(self) -> str:
        spec = self.bench.one(kinds.PARTITION_MAPS, f"{CLUSTER}.orders")["spec"]
        found: str = spec["current"]
        return found

    async def prove(self, *replicas: int, name: str = "all") -> Manifest:
        """The run of a Verification ends and accuses these."""
        run = self.status(name)["application"]["name"]
        job = self.bench.one(kinds.JOBS, run)
        accused = [
            {
                "topic": "orders",
                "topicId": self.topic_id(),
                "partition": 0,
                "replica": replica,
                "checks": ["Crc"],
            }
            for replica in replicas
        ]
        coverage = {"topics": 1, "partitions": 1, "replicas": 3, "records": 3, "bytes": 9}
        summary = {"coverage": coverage, "accused": accused, "accusedTotal": len(accused)}
        violation = {"check": "Crc", "topic": "orders", "partition": 0, "message": "bad"}
        await self.answer(
            job, violations=[violation], violationsTotal=len(accused), summary=summary
        )
        return job

    def orders(self, broker_id: int) -> list[dict[str, Any]]:
        name = names.broker(CLUSTER, BrokerId(broker_id))
        found: list[dict[str, Any]] = self.bench.one(kinds.BROKERS, name)["spec"].get(
            "refetches", []
        )
        return found

    async def obey(self, broker_id: int) -> None:
        """As a broker does: put aside, answer."""
        (order,) = self.orders(broker_id)
        asked = {key: order[key] for key in ("run", "topicId", "partition")}
        await self.say(broker_id, refetches=[asked])

    async def say(self, broker_id: int, **status: Any) -> None:
        await self.bench.api.patch(
            kinds.BROKERS,
            NAMESPACE,
            names.broker(CLUSTER, BrokerId(broker_id)),
            {"status": status},
            field_manager="broker",
            subresource="status",
        )

    def repairs(self, name: str = "all") -> list[tuple[int, str]]:
        return [
            (one["replica"], one.get("state", "Waiting"))
            for one in self.status(name).get("repairs", [])
        ]


@pytest.fixture
def it(bench: Bench) -> Repairs:
    return Repairs(bench)


def test_a_replica_is_ordered_and_the_order_withdrawn_when_it_is_done(it: Repairs) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin_with_damaged(3, repair="Refetch")
            await it.bench.live(6)
            assert it.repairs() == [(3, "Ordered")]
            (order,) = it.orders(3)
            assert order["session"] == it.bench.brokers[3].session
            assert (it.orders(1), it.orders(2)) == ([], [])

            await it.obey(3)
            await it.bench.live(6)
            assert it.repairs() == [(3, "Done")]
            await it.bench.live(21)
            assert it.orders(3) == []
            writes = len(it.bench.api.writes())
            await it.bench.live(30)
            later = it.bench.api.writes()[writes:]
            told = [one for one in later if one.kind in {"Broker", "Verification"}]
            assert [one for one in told if one.field_manager != "broker"] == []
        assert it.events()[-2:] == ["RefetchOrdered", "ReplicaRepaired"]

    it.bench.run(scenario())


def test_nothing_is_ordered_where_the_policy_does_not_say_so(it: Repairs) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin_with_damaged(3)
            await it.bench.live(30)
            assert it.status()["phase"] == "ViolationsFound"
            assert (it.repairs(), it.orders(3)) == ([], [])

    it.bench.run(scenario())


def test_two_of_a_partition_are_told_and_left(it: Repairs) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin_with_damaged(2, 3, repair="Refetch")
            await it.bench.live(30)
            assert it.repairs() == [(2, "Waiting"), (3, "Waiting")]
            assert [it.orders(one) for one in (1, 2, 3)] == [[], [], []]
            assert "undamaged and in sync" in it.status()["repairs"][0]["message"]

    it.bench.run(scenario())


def test_two_verifications_do_not_take_two_replicas_of_a_partition(it: Repairs) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply("all", topics=["orders"], repair="Refetch")
            await it.apply("more", topics=["orders"], repair="Refetch")
            await it.prove(2, name="all")
            await it.prove(3, name="more")
            await it.bench.live(30)
            assert sum(len(it.orders(one)) for one in (1, 2, 3)) <= 1

    it.bench.run(scenario())


def test_an_order_of_a_verification_that_is_deleted_is_withdrawn(it: Repairs) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin_with_damaged(3, repair="Refetch")
            await it.bench.live(6)
            assert it.orders(3)
            await it.bench.api.delete(kinds.VERIFICATIONS, NAMESPACE, "all")
            await it.bench.live(21)
            assert it.orders(3) == []

    it.bench.run(scenario())


@pytest.mark.parametrize("kind", ["Verification", "Broker"])
def test_an_operator_that_dies_at_any_write_orders_once(it: Repairs, kind: str) -> None:
    died: list[Call] = []
    given: list[Any] = []

    def break_after(call: Call) -> ApiError | None:
        is_ours = call.field_manager not in {"kubectl", "broker", "driver", "kcm"}
        if call.kind == kind and is_ours and call.verb in {"patch", "replace", "apply"}:
            died.append(call)
            return Unavailable("the answer is lost")
        return None

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin_with_damaged(3, repair="Refetch")
            it.bench.api.fault_after = break_after
            await it.bench.live(4.5)
        assert died
        it.bench.api.fault_after = lambda _: None
        async with it.bench.running():
            await it.bench.live(12)
            given.extend(it.orders(3))
            assert len(given) == 1
            await it.obey(3)
            await it.bench.live(30)
            assert it.repairs() == [(3, "Done")]
            assert it.orders(3) == []

    it.bench.run(scenario())
