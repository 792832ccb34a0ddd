"""What `kubectl describe` and the log say of what an operator did."""

import logging
from typing import Any

import pytest

from chiplog_kube import kinds
from tests.shell.test_system import CLUSTER, NAMESPACE, start


def events(bench: Any, kind: str) -> list[tuple[str, str, str]]:
    return [
        (one["type"], one["reason"], one["message"])
        for one in bench.api.all_of(kinds.EVENTS)
        if one["involvedObject"]["kind"] == kind
    ]


def test_a_healthy_cluster_has_a_story(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with bench.running():
            await start(bench)

    bench.run(scenario())
    told = events(bench, "BrokerCluster")
    assert {reason for _, reason, _ in told} >= {"BrokerAdmitted", "TopicCreated", "Healthy"}
    assert [one for one in told if one[0] == "Warning"] == []
    assert ("Normal", "Ready", "the actual state matches the spec") in events(bench, "Topic")
    logged = [(one.message, getattr(one, "reason", "")) for one in caplog.records]
    assert ("happened", "BrokerAdmitted") in logged
    assert ("happened", "TopicCreated") in logged
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_an_election_is_told_once_for_all_partitions(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            bench.brokers.pop(1)
            await bench.live(12)

    bench.run(scenario())
    told = events(bench, "BrokerCluster")
    assert [reason for _, reason, _ in told].count("BrokerFenced") == 1
    (elected,) = [text for _, reason, text in told if reason == "LeadersElected"]
    assert "from broker 1 to broker" in elected
    (line,) = [
        one
        for one in caplog.records
        if one.message == "leaders_elected" and one.__dict__["topic"] == "orders"
    ]
    assert all(one["from"] == "1@1" for one in line.__dict__["changes"])


def test_a_refused_topic_has_an_event_of_its_own(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.apply_topic("payments", partitions=1, replicas=9)
            await bench.live(3)

    bench.run(scenario())
    told = [one for one in events(bench, "Topic") if one[0] == "Warning"]
    assert len(told) == 1
    assert "spec.replicas" in told[0][2]


def test_a_storm_of_events_is_cut_off_and_counted(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            for number in range(100):
                await bench.apply_topic(f"t-{number}", partitions=1, replicas=9)
            await bench.live(5)

    bench.run(scenario())
    assert len(bench.api.all_of(kinds.EVENTS)) < 100
    assert any(one.message == "events_not_made" for one in caplog.records)
    assert sum(one.message == "happened" for one in caplog.records) >= 100


def test_names_are_those_of_the_cluster(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)

    bench.run(scenario())
    about = [one["involvedObject"] for one in bench.api.all_of(kinds.EVENTS)]
    of_cluster = [one for one in about if one["kind"] == "BrokerCluster"]
    uid = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["metadata"]["uid"]
    assert {(one["namespace"], one["name"], one["uid"]) for one in of_cluster} == {
        (NAMESPACE, CLUSTER, uid)
    }
