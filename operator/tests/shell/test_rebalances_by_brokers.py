"""A whole operator that rebalances by the brokers' own counters, with no Spark anywhere."""

import asyncio
from collections.abc import Callable

import pytest

from chiplog_core.model.spark_result import Result
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_operator.spark import measuring
from tests.shell.broker_loads import LoadedBrokers
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.test_rebalances import NAME, TOPIC, Spark


@pytest.fixture
def it(bench: Bench) -> Spark:
    return Spark(bench)


@pytest.fixture
def brokers(it: Spark) -> LoadedBrokers:
    return LoadedBrokers(it.bench)


async def begin(it: Spark, brokers: LoadedBrokers) -> None:
    """A cluster, made by an operator that ends."""
    async with it.bench.running():
        await it.begin()
    it.bench.groups = brokers.ports()


@pytest.mark.parametrize("bytes_per_second", [0, 5_000], ids=["idle", "written to"])
def test_it_is_measured_approved_and_carried_out(
    it: Spark, brokers: LoadedBrokers, bytes_per_second: int
) -> None:
    brokers.bytes_per_second, brokers.a_page = bytes_per_second, 1

    async def scenario() -> None:
        await begin(it, brokers)
        async with it.bench.running():
            await it.apply(measure="Brokers")
            assert (it.state(), it.ready()) == ("PendingProposal", ("False", "BrokersCount"))
            await it.bench.live(15)
            assert it.state() == "ProposalReady"
            proposal = it.status()["proposal"]
            before = {one["broker"]: one for one in proposal["figures"]["before"]}
            assert before[1]["leaders"] > 5
            rate = before[1].get("bytesPerSecond", 0)
            assert rate == pytest.approx(bytes_per_second * before[1]["leaders"], abs=10)
            assert before[2]["bytes"] == 6_000, "the leader's size counts for each replica"
            assert proposal["monitoredPartitionsPercentage"] == 100
            asked = brokers.asked.total()
            await it.bench.live(60)
            assert brokers.asked.total() == asked, "nobody is asked while it waits for approval"

            await it.say("approve")
            await it.bench.live(6)
            assert (it.state(), it.ready()) == ("Ready", ("True", "Ready"))
            assert max(it.counts().values()) <= 3
            assert it.bench.api.all_of(kinds.JOBS) == []
            assert "application" not in it.status()

    it.bench.run(scenario())


def test_it_waits_for_the_broker_that_does_not_answer_and_names_it(
    it: Spark, brokers: LoadedBrokers
) -> None:
    async def scenario() -> None:
        await begin(it, brokers)
        async with it.bench.running():
            brokers.away = {1}
            await it.apply(measure="Brokers")
            await it.bench.live(60)
            assert (it.state(), it.ready()) == ("PendingProposal", ("False", "BrokerNotAnswering"))
            (message,) = [
                one["message"] for one in it.status()["conditions"] if one["type"] == "Ready"
            ]
            assert "broker 1, which leads" in message
            assert "it is away" in message
            brokers.away, brokers.garbled = set(), True
            await it.bench.live(9)
            assert it.ready() == ("False", "BrokerNotAnswering")
            brokers.garbled = False
            await it.bench.live(18)
            assert it.state() == "ProposalReady"

    it.bench.run(scenario())


def test_a_broker_without_a_process_is_waited_for_too(it: Spark, brokers: LoadedBrokers) -> None:
    async def scenario() -> None:
        await begin(it, brokers)
        async with it.bench.running():
            pod = it.bench.one(kinds.PODS, "demo-broker-1-0")["metadata"]
            await it.bench.api.delete(kinds.PODS, pod["namespace"], pod["name"])
            await it.apply(measure="Brokers")
            await it.bench.live(15)
            assert it.ready() == ("False", "BrokerNotAnswering")
            await it.bench.add_pod(1, "10.1.0.9")
            await it.bench.live(18)
            assert it.state() == "ProposalReady"

    it.bench.run(scenario())


def test_an_operator_that_dies_while_they_count_begins_to_count_again(
    it: Spark, brokers: LoadedBrokers
) -> None:
    async def scenario() -> None:
        await begin(it, brokers)
        async with it.bench.running():
            await it.apply(measure="Brokers")
        async with it.bench.running():
            await it.bench.live(6)
            assert it.state() == "PendingProposal"
            await it.bench.live(12)
            assert (it.state(), it.status()["runs"]) == ("ProposalReady", 1)

    it.bench.run(scenario())


def test_without_an_image_for_jobs_the_remedy_is_named(it: Spark, brokers: LoadedBrokers) -> None:
    async def scenario() -> None:
        await begin(it, brokers)
        it.bench.spark_image = ""
        async with it.bench.running():
            await it.apply()
            assert (it.state(), it.ready()) == ("New", ("False", "NoImage"))
            (message,) = [
                one["message"] for one in it.status()["conditions"] if one["type"] == "Ready"
            ]
            assert message.endswith(
                "or set spec.measure of the Rebalance to Brokers, which needs no job"
            )
            await it.patch({"spec": {"measure": "Brokers"}})
            await it.bench.live(18)
            assert it.state() == "ProposalReady"

    it.bench.run(scenario())


def test_partitions_that_their_topic_places_stay_also_while_the_cluster_is_paused(
    it: Spark, brokers: LoadedBrokers
) -> None:
    async def scenario() -> None:
        await begin(it, brokers)
        async with it.bench.running():
            api, paused = it.bench.api, {labels.PAUSE: "true"}
            await api.patch(
                kinds.BROKER_CLUSTERS,
                NAMESPACE,
                CLUSTER,
                {"metadata": {"annotations": paused}},
                field_manager="kubectl",
            )
            pinned = [{"partition": one, "replicas": [1, 2, 3]} for one in range(4)]
            patch = {"spec": {"assignments": pinned}}
            await api.patch(kinds.TOPICS, NAMESPACE, TOPIC, patch, field_manager="kubectl")
            await it.apply(measure="Brokers")
            await it.bench.live(15)
            assert it.state() == "ProposalReady"
            proposal = it.status()["proposal"]
            assert proposal["numPinnedPartitions"] == 4
            assert {one["partition"] for one in proposal["leaderMoves"]} <= {4, 5}

    it.bench.run(scenario())


def test_the_loop_does_not_wait_for_a_long_computation(
    it: Spark, brokers: LoadedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        finished, begun = asyncio.Event(), []

        async def slow(compute: Callable[[], Result]) -> Result:
            begun.append(compute)
            await finished.wait()
            return compute()

        await begin(it, brokers)
        monkeypatch.setattr(measuring, "PATIENCE_S", 0)
        monkeypatch.setattr(asyncio, "to_thread", slow)
        async with it.bench.running():
            await it.apply(measure="Brokers")
            await it.bench.live(30)
            assert (it.state(), it.ready()) == ("PendingProposal", ("False", "Computing"))
            it.name = "another"
            await it.apply(measure="Brokers")
            assert it.ready() == ("False", "BrokersCount"), "the loop goes on"
            it.name = NAME
            finished.set()
            await it.bench.live(6)
            assert (it.state(), len(begun)) == ("ProposalReady", 1)

    it.bench.run(scenario())


def test_a_computation_that_fails_begins_again(
    it: Spark, brokers: LoadedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        begun = []

        async def fails_once(compute: Callable[[], Result]) -> Result:
            begun.append(compute)
            if len(begun) == 1:
                raise MemoryError
            return compute()

        await begin(it, brokers)
        monkeypatch.setattr(asyncio, "to_thread", fails_once)
        async with it.bench.running():
            await it.apply(measure="Brokers")
            await it.bench.live(40)
            assert (it.state(), len(begun)) == ("ProposalReady", 2)

    it.bench.run(scenario())


@pytest.mark.parametrize("seconds", [3, 30], ids=["counting", "computing"])
def test_nothing_is_kept_of_a_rebalance_that_was_deleted(
    it: Spark, brokers: LoadedBrokers, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def slow(_compute: Callable[[], Result]) -> bool:
            return await never.wait()

        await begin(it, brokers)
        monkeypatch.setattr(measuring, "PATIENCE_S", 0)
        monkeypatch.setattr(asyncio, "to_thread", slow)
        async with it.bench.running() as system:
            assert system.spark is not None
            kept = system.spark._measuring
            await it.apply(measure="Brokers")
            await it.bench.live(seconds)
            assert kept._first or kept._computing
            await it.bench.api.delete(kinds.REBALANCES, NAMESPACE, NAME)
            await it.bench.live(18)
            assert (kept._first, kept._computing) == ({}, {})

    it.bench.run(scenario())
