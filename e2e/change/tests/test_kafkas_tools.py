"""What Kafka's tools do with moves: generate, execute, list, cancel and verify; elect leaders."""

import json

import pytest

from e2e.change.kafkas_tool import ongoing, plan_of, reassign
from e2e.change.moved import wait_quiesced
from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places, wait_in_sync, wait_preferred
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(300)]

PARTITIONS = 3


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


def plans_in(said: str) -> list[str]:
    """The plans that the tool printed, each on a line of its own."""
    return [line for line in said.splitlines() if line.startswith('{"version"')]


def replicas_in(plan: str) -> list[list[int]]:
    """The brokers of each partition of a plan, in the order of the partitions."""
    found = sorted(json.loads(plan)["partitions"], key=lambda one: one["partition"])
    return [one["replicas"] for one in found]


def replicas_of(cluster: BrokerClusterUnderTest, topic: str) -> list[list[int]]:
    """The brokers of each partition of a topic."""
    return [list(place.replicas) for place in places(cluster, topic)]
