"""A whole operator that measures, asks and moves leaderships, with an API server in memory."""

import json
from typing import Any

import pytest

from chiplog_core.naming import labels
from chiplog_core.rebalance.documents import leader_move_json
from chiplog_core.rebalance.leaders import leader_moves
from chiplog_core.rebalance.measured import Broker, Measured, Partition, PartitionName
from chiplog_core.rebalance.settings import Settings
from chiplog_core.spark.signing import signature
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Manifest, Unavailable
from chiplog_operator.spark.collector import VerificationsCollector
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.memory_api import Call
from tests.shell.test_groups import Running
from tests.shell.test_verifications import key_of, no_quota

NAME, TOPIC = "even", "clicks"
WRITES = {"create", "patch", "apply", "replace"}


class Spark:
    """A cluster whose topic has all its leaders on broker 1, and whoever runs Jobs."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.name = NAME
        bench.verifications = VerificationsCollector()
        bench.api.missing_kinds = {"SparkApplication"}

    async def begin(self) -> None:
        running = Running(self.bench)
        self.bench.groups = None
        await running.begin()
        await self.bench.apply_topic(TOPIC, partitions=6, replicas=3)
        await self.bench.live(3)
        await self.lead_all(1)

    async def lead_all(self, broker: int) -> None:
        """As nobody but an operator would do it: the first of all replicas, and the leader."""
        found = self.map()
        for state in found["spec"]["generations"][0]["partitions"]:
            state["replicas"] = sorted(state["replicas"], key=lambda one: one != broker)
            state["isr"] = sorted(state["isr"], key=lambda one: not one.startswith(f"{broker}@"))
            state["leader"] = state["isr"][0]
            state["leaderEpoch"] += 1
            state["partitionEpoch"] += 1
        await self.bench.api.replace(kinds.PARTITION_MAPS, found, field_manager="kubectl")
        await self.bench.live(3)
        assert self.counts() == {1: 6}

    async def apply(self, **spec: Any) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Rebalance",
            "metadata": {"namespace": NAMESPACE, "name": self.name},
            "spec": {"clusterRef": {"name": CLUSTER}, **spec},
        }
        await self.bench.api.create(kinds.REBALANCES, manifest, field_manager="kubectl")
        await self.bench.live(3)

    def map(self) -> Manifest:
        return self.bench.one(kinds.PARTITION_MAPS, f"{CLUSTER}.{TOPIC}")

    def counts(self) -> dict[int, int]:
        """How many partitions each broker leads."""
        found: dict[int, int] = {}
        for leader in self.bench.leaders(TOPIC):
            broker = int(str(leader).split("@", maxsplit=1)[0])
            found[broker] = found.get(broker, 0) + 1
        return dict(sorted(found.items()))

    def object(self) -> Manifest:
        return self.bench.one(kinds.REBALANCES, self.name)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.object().get("status", {})
        return found

    def state(self) -> str:
        return str(self.status().get("state"))

    def ready(self) -> tuple[str, str]:
        return self.bench.ready(kinds.REBALANCES, self.name)

    def annotation(self) -> str | None:
        found = self.object()["metadata"].get("annotations") or {}
        value = found.get(labels.REBALANCE)
        return None if value is None else str(value)

    async def say(self, value: str) -> None:
        await self.patch({"metadata": {"annotations": {labels.REBALANCE: value}}})

    async def patch(self, patch: dict[str, Any]) -> None:
        api = self.bench.api
        await api.patch(kinds.REBALANCES, NAMESPACE, self.name, patch, field_manager="kubectl")
        await self.bench.live(3)

    async def answer(self) -> None:
        """What the driver writes: a proposal for the maps as they are."""
        moves = [leader_move_json(one) for one in self.proposed()]
        name = self.status()["application"]["name"]
        told = {
            "version": 1,
            "application": name,
            "state": "Succeeded",
            "reason": "Measured",
            "summary": {
                "leaderMoves": moves,
                "figures": {"before": [], "after": []},
                "numLeaderMovements": len(moves),
            },
        }
        text, key = json.dumps(told), key_of(self.bench.one(kinds.SECRETS, f"{name}-result-key"))
        signed = signature(key, name, text)
        patch = {"data": {"result.json": text, "result.signature": signed}}
        await self.bench.api.patch(
            kinds.CONFIG_MAPS, NAMESPACE, f"{name}-result", patch, field_manager="driver"
        )
        ended = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        await self.bench.api.patch(
            kinds.JOBS, NAMESPACE, name, ended, field_manager="kcm", subresource="status"
        )
        await self.bench.live(3)

    def proposed(self) -> Any:
        ids = (1, 2, 3)
        partitions = [
            Partition(
                name=PartitionName(TOPIC, state["partition"]),
                replicas=tuple(state["replicas"]),
                isr=tuple(int(one.split("@")[0]) for one in state["isr"]),  # type: ignore[misc]
                leader=int(state["leader"].split("@")[0]),  # type: ignore[arg-type]
                leader_epoch=state["leaderEpoch"],
            )
            for state in self.map()["spec"]["generations"][0]["partitions"]
        ]
        measured = {one.name: Measured(bytes=1, records=1) for one in partitions}
        brokers = [Broker(broker_id=one) for one in ids]  # type: ignore[arg-type]
        return leader_moves(brokers, partitions, measured, Settings())

    def events(self) -> set[str]:
        found = self.bench.api.all_of(kinds.EVENTS)
        about = [one for one in found if one["involvedObject"]["kind"] == "Rebalance"]
        return {one["reason"] for one in about}


@pytest.fixture
def it(bench: Bench) -> Spark:
    return Spark(bench)


def test_a_job_that_is_refused_is_told_of_and_not_tried_for_ever(it: Spark) -> None:
    tries: list[Call] = []

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            it.bench.api.fault = no_quota(tries)
            await it.apply()
            await it.bench.live(60)
            assert it.ready() == ("False", "LaunchRefused")
            assert len(tries) == 1

    it.bench.run(scenario())


def test_of_two_that_are_approved_at_once_one_waits_and_names_the_other(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            for name in (NAME, "other"):
                it.name = name
                await it.apply()
                await it.answer()
                assert it.state() == "ProposalReady"
            # Nobody carries an order out, so that the first one goes on.
            it.bench.api.fault = lambda call: (
                Unavailable("not now") if call.kind == "PartitionMap" else None
            )
            approve = {"metadata": {"annotations": {labels.REBALANCE: "approve"}}}
            for name in (NAME, "other"):
                await it.bench.api.patch(
                    kinds.REBALANCES, NAMESPACE, name, approve, field_manager="kubectl"
                )
            await it.bench.live(6)
            states = {}
            for it.name in (NAME, "other"):
                states[it.name] = it.state()
            assert sorted(states.values()) == ["ProposalReady", "Rebalancing"]
            (first,) = [name for name, state in states.items() if state == "Rebalancing"]
            (it.name,) = set(states) - {first}
            assert it.ready() == ("False", "WaitsForAnother")
            assert f"{NAMESPACE}/{first}" in it.status()["conditions"][0]["message"]
            it.bench.api.fault = lambda _: None
            await it.bench.live(30)
            # It was to do what the first one has done by then.
            assert it.ready() == ("True", "Ready")
            assert it.counts() == {1: 2, 2: 2, 3: 2}

    it.bench.run(scenario())


def test_it_is_measured_approved_and_carried_out(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply()
            (job,) = it.bench.api.all_of(kinds.JOBS)
            name = job["metadata"]["name"]
            request = it.bench.one(kinds.CONFIG_MAPS, f"{name}-request")
            asked = json.loads(request["data"]["request.json"])
            assert asked["kind"] == "Rebalance"
            assert asked["job"]["topics"] == [TOPIC, "orders"]
            assert asked["job"]["brokers"] == [1, 2, 3]
            assert it.state() == "PendingProposal"

            await it.answer()
            assert it.state() == "ProposalReady"
            assert it.status()["proposal"]["executable"] is True
            await it.bench.live(300)
            assert it.counts() == {1: 6}, "nothing was approved"

            await it.say("approve")
            assert it.counts() == {1: 2, 2: 2, 3: 2}
            await it.bench.live(3)
            assert (it.state(), it.ready()) == ("Ready", ("True", "Ready"))
            assert it.annotation() is None
            moves = it.status()["moves"]
            assert (moves["proposal"], moves["done"], moves["total"]) == (name, 4, 4)
            writes = len(it.bench.api.writes())
            await it.bench.live(120)
            assert it.counts() == {1: 2, 2: 2, 3: 2}, "leaderships went back"
            rebalances = [call for call in it.bench.api.writes()[writes:] if "Reb" in call.kind]
            assert rebalances == []
        assert it.events() == {"RunBegun", "ProposalReady", "Approved", "Rebalanced"}

    it.bench.run(scenario())


def test_approved_by_the_spec_few_at_a_time(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(concurrentLeaderMovements=1)
            await it.answer()
            await it.patch({"spec": {"approvedProposal": it.status()["proposal"]["id"]}})
            await it.bench.live(6)
            assert (it.state(), it.counts()) == ("Ready", {1: 2, 2: 2, 3: 2})

    it.bench.run(scenario())


def test_a_leader_that_changes_before_the_approval_makes_it_outdated(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply()
            await it.answer()
            await it.bench.live(30, without=(1,))
            assert 1 not in it.counts()
            before = it.counts()
            await it.say("approve")
            assert (it.state(), it.ready()) == ("ProposalReady", ("False", "ProposalOutdated"))
            assert (it.counts(), it.annotation()) == (before, None)
            assert "ProposalOutdated" in it.events()

    it.bench.run(scenario())


def test_a_partition_that_is_placed_by_hand_stays_where_it_is(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply()
            await it.answer()
            moved = it.status()["proposal"]["leaderMoves"][0]
            kept = [{"partition": moved["partition"], "replicas": moved["expectedReplicas"]}]
            await it.bench.api.patch(
                kinds.TOPICS,
                NAMESPACE,
                TOPIC,
                {"spec": {"assignments": kept}},
                field_manager="kubectl",
            )
            await it.bench.live(3)
            await it.say("approve")
            assert it.ready() == ("False", "ProposalOutdated")
            assert it.counts() == {1: 6}
            await it.say("refresh")
            name = it.status()["application"]["name"]
            request = it.bench.one(kinds.CONFIG_MAPS, f"{name}-request")
            asked = json.loads(request["data"]["request.json"])["job"]
            number = moved["partition"]
            assert asked["pinnedPartitions"] == [{"topic": TOPIC, "first": number, "last": number}]

    it.bench.run(scenario())


def test_stopped_before_all_is_moved_the_rest_stays(it: Spark) -> None:
    moved: list[Call] = []

    def refuse_after_first(call: Call) -> ApiError | None:
        if call.kind == "PartitionMap" and call.verb == "replace":
            moved.append(call)
            return Unavailable("overloaded") if len(moved) > 1 else None
        return None

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(concurrentLeaderMovements=1)
            await it.answer()
            it.bench.api.fault = refuse_after_first
            await it.say("approve")
            await it.bench.live(6)
            assert it.state() == "Rebalancing"
            assert it.status()["moves"]["done"] == 1
            await it.say("stop")
            it.bench.api.fault = lambda _: None
            await it.bench.live(60)
            assert it.state() == "Stopped"
            assert it.counts()[1] == 5
            assert "1 of 4 moves" in it.status()["outcome"]["message"]

    it.bench.run(scenario())


def test_an_operator_that_dies_at_any_write_measures_once_and_moves_all(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
        for step in (it.apply, it.answer, lambda: it.say("approve"), lambda: it.bench.live(6)):
            for number, kind in enumerate(("Rebalance", "ConfigMap", "Job", "PartitionMap")):
                broken: list[Call] = []

                def break_after(
                    call: Call, kind: str = kind, broken: list[Call] = broken
                ) -> ApiError | None:
                    by_operator = call.field_manager not in {"kubectl", "driver", "broker"}
                    if call.kind == kind and by_operator and call.verb in WRITES:
                        broken.append(call)
                        return Unavailable("the answer is lost")
                    return None

                async with it.bench.running():
                    it.bench.api.fault_after = break_after
                    if number == 0:
                        await step()
                    await it.bench.live(3)
                it.bench.api.fault_after = lambda _: None
            async with it.bench.running():
                await it.bench.live(9)
        assert (it.state(), it.counts()) == ("Ready", {1: 2, 2: 2, 3: 2})
        assert (it.status()["runs"], it.annotation()) == (1, None)
        assert len(it.bench.api.all_of(kinds.JOBS)) == 1

    it.bench.run(scenario())


def test_what_is_not_built_or_not_allowed_is_told(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(mode="remove-disks", brokers=[3])
            assert (it.state(), it.ready()) == ("NotReady", ("False", "NotSupported"))
            manifest = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "Rebalance",
                "metadata": {"namespace": "elsewhere", "name": "theirs"},
                "spec": {"clusterRef": {"name": CLUSTER, "namespace": NAMESPACE}},
            }
            await it.bench.api.create(kinds.REBALANCES, manifest, field_manager="kubectl")
            await it.bench.live(3)
            assert it.bench.ready(kinds.REBALANCES, "theirs") == ("False", "InvalidConfig")
            assert it.bench.api.all_of(kinds.JOBS) == []

            await it.patch({"spec": {"mode": "full", "brokers": None}})
            await it.bench.live(3)
            assert it.state() == "PendingProposal"
            assert len(it.bench.api.all_of(kinds.JOBS)) == 1

    it.bench.run(scenario())
