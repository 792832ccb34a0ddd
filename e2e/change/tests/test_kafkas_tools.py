"""What Kafka's tools do with moves: generate, execute, list, cancel and verify; elect leaders."""

import json
import time

import pytest

from chiplog_cli import topic_view
from chiplog_cli.librdkafka.admin import LibrdkafkaTopics
from chiplog_cli.librdkafka.connecting import Connection
from e2e import measured
from e2e.change.kafkas_tool import (
    ongoing,
    plan_of,
    reassign,
    throttled_rates,
    throttled_replicas,
)
from e2e.change.moved import fill, wait_quiesced, wait_replicas
from e2e.clients.topics import stored
from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places, wait_in_sync, wait_preferred
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(300)]

PARTITIONS = 3
MIB = 1024 * 1024
SIZE_BYTES = 12 * MIB
"""More than a copy gets in its first answer, which no throttle delays."""
TOO_SLOW = 1024
"""Bytes per second with which the copy would take more than an hour."""


def test_a_generated_plan_is_executed_and_verified(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("generated", PARTITIONS, replicas=1)
    said = run_tool(
        "kafka-reassign-partitions.sh",
        *("--bootstrap-server", cluster.bootstrap, "--generate"),
        *("--topics-to-move-json-file", "/dev/stdin", "--broker-list", "2,3"),
        input_text=json.dumps({"version": 1, "topics": [{"topic": topic}]}),
    )
    current, proposed = plans_in(said)
    assert replicas_in(current) == replicas_of(cluster, topic)
    assert {one for target in replicas_in(proposed) for one in target} == {2, 3}

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        said = reassign(cluster, proposed, "--execute")
        assert "Successfully started partition reassignments" in said, said
        # The tool prints the plan with which the move is taken back.
        assert replicas_in(plans_in(said)[0]) == replicas_in(current)
        wait_quiesced(cluster, 60)
    traffic.check_records()
    assert replicas_of(cluster, topic) == replicas_in(proposed)
    said = reassign(cluster, proposed, "--verify")
    assert said.count("is completed") == PARTITIONS, said
    assert "No partition reassignments found" in ongoing(cluster)


def test_a_move_is_cancelled(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("cancelled", replicas=1)
    values = fill(cluster, topic, SIZE_BYTES)
    (source,) = places(cluster, topic)[0].replicas
    target = source % 3 + 1
    plan = plan_of(topic, {0: [target]})
    said = reassign(cluster, plan, "--execute", "--throttle", str(TOO_SLOW))
    assert "Successfully started" in said, said
    assert f"{topic}-0: replicas: {target},{source}. adding: {target}" in ongoing(cluster)
    assert len(throttled_rates(cluster)) == 4
    assert len(throttled_replicas(cluster, topic)) == 2
    assert has_data(cluster, topic) == {source, target}
    by_us = LibrdkafkaTopics(Connection(bootstrap_servers=cluster.bootstrap, timeout_s=10))
    ((moving,),) = (found.partitions for found in by_us.describe_topics([topic]))
    assert (moving.adding, moving.removing) == ((target,), (source,))
    for line in (topic_view.partition_line(topic, moving), describe(cluster, topic)):
        moved = f"Adding Replicas: {target}\tRemoving Replicas: {source}\t"
        assert f"Replicas: {target},{source}\tIsr: {source}\t{moved}" in line, line
    # A replica that is being added is not missing.
    assert not describe(cluster, topic, "--under-replicated-partitions").strip()
    assert not topic_view.under_replicated(moving)

    began_s = time.monotonic()
    said = reassign(cluster, plan, "--cancel")
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in said, said
    assert "No partition reassignments found" in ongoing(cluster)
    described = describe(cluster, topic)
    assert f"Replicas: {source}\tIsr: {source}\t" in described, described
    assert "Adding Replicas" not in described, described
    # The broker that got a part of the data confirms that it has deleted it.
    wait_replicas(cluster, topic, 1)
    measured.note(f"a move cancelled by the tool in {time.monotonic() - began_s:.1f} s")
    assert has_data(cluster, topic) == {source}
    assert not throttled_rates(cluster)
    assert not throttled_replicas(cluster, topic)
    said = reassign(cluster, plan, "--verify")
    assert f"but replica set is {source} rather than {target}" in said, said
    (records,) = stored(cluster.bootstrap, topic, range(1))
    assert {one.record.value for one in records} == values
    assert len(records) == len(values)


def test_preferred_leaders_are_elected_by_the_tool(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("elected", PARTITIONS, replicas=3)
    wait_preferred(cluster)
    # Another first replica is another preferred leader; the present one keeps its leadership.
    turned = [[*replicas[1:], replicas[0]] for replicas in replicas_of(cluster, topic)]
    reassign(cluster, plan_of(topic, dict(enumerate(turned))), "--execute")
    wait_quiesced(cluster, 60)
    wait_in_sync(cluster)
    assert replicas_of(cluster, topic) == turned
    said = run_tool(
        "kafka-leader-election.sh",
        *("--bootstrap-server", cluster.bootstrap, "--election-type", "preferred"),
        *("--topic", topic, "--partition", "0"),
    )
    assert "Successfully completed leader election" in said or "Valid replica" in said, said
    assert places(cluster, topic)[0].leader == turned[0][0]


def describe(cluster: BrokerClusterUnderTest, topic: str, *arguments: str) -> str:
    """What `kafka-topics.sh --describe` prints about a topic."""
    return run_tool(
        *("kafka-topics.sh", "--bootstrap-server", cluster.bootstrap),
        *("--describe", "--topic", topic, *arguments),
    )


def plans_in(said: str) -> list[str]:
    """The plans that the tool printed, each on a line of its own."""
    return [line for line in said.splitlines() if line.startswith('{"version"')]


def replicas_in(plan: str) -> list[list[int]]:
    """The brokers of each partition of a plan, in the order of the partitions."""
    found = sorted(json.loads(plan)["partitions"], key=lambda one: one["partition"])
    return [one["replicas"] for one in found]


def has_data(cluster: BrokerClusterUnderTest, topic: str) -> set[int]:
    """The brokers on whose disks the topic has a directory, as `kafka-log-dirs.sh` says."""
    said = run_tool(
        *("kafka-log-dirs.sh", "--bootstrap-server", cluster.bootstrap, "--describe"),
        *("--topic-list", topic),
    )
    (answer,) = (line for line in said.splitlines() if line.startswith("{"))
    return {
        broker["broker"]
        for broker in json.loads(answer)["brokers"]
        if any(directory["partitions"] for directory in broker["logDirs"])
    }


def replicas_of(cluster: BrokerClusterUnderTest, topic: str) -> list[list[int]]:
    """The brokers of each partition of a topic."""
    return [list(place.replicas) for place in places(cluster, topic)]
