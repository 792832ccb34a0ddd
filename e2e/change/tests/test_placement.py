"""Partitions are where Kafka's tool or the Topic places them."""

import json
from collections.abc import Iterator

import pytest

from e2e.change.gaps import check_gaps
from e2e.change.kafkas_tool import plan_of, reassign
from e2e.change.moved import wait_quiesced
from e2e.cluster.kubectl import eventually
from e2e.kafka.tools import run_tool
from e2e.kafka.topic_lines import described
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(300)]

TOLD = "told"
MOVED_LIMIT_S = 60


@pytest.fixture
def told(cluster: BrokerClusterUnderTest) -> Iterator[str]:
    """The name of a topic that the test creates; it is deleted after the test."""
    yield TOLD
    cluster.kubectl("delete", "ct", TOLD, "--ignore-not-found", "--wait=false")


def topics(cluster: BrokerClusterUnderTest, *arguments: str, check: bool = True) -> str:
    """Run kafka-topics.sh; returns what it printed."""
    return run_tool(
        "kafka-topics.sh", "--bootstrap-server", cluster.bootstrap, *arguments, check=check
    )


def shown(cluster: BrokerClusterUnderTest, topic: str) -> list[list[int]]:
    """The replicas of every partition as `--describe` shows them."""
    _, lines = described(topics(cluster, "--describe", "--topic", topic))
    return [
        [int(one) for one in line["replicas"].split(",")]
        for line in sorted(lines, key=lambda line: int(line["number"]))
    ]


def test_kafkas_tool_places_new_partitions_once(cluster: BrokerClusterUnderTest, told: str) -> None:
    topics(cluster, "--create", "--topic", told, "--replica-assignment", "3:1,3:2")
    assert shown(cluster, told) == [[3, 1], [3, 2]]
    grown = ("--partitions", "4", "--replica-assignment", "3:1,3:2,2:3,2:1")
    topics(cluster, "--alter", "--topic", told, *grown)
    assert shown(cluster, told) == [[3, 1], [3, 2], [2, 3], [2, 1]]
    said = topics(
        cluster, "--create", "--topic", "nowhere", "--replica-assignment", "1:9", check=False
    )
    assert "InvalidReplicaAssignmentException" in said, said
    moved = reassign(cluster, plan_of(told, {0: [1, 2]}), "--execute", check=False)
    assert "Successfully started partition reassignment" in moved, moved
    wait_quiesced(cluster)
    assert shown(cluster, told) == [[1, 2], [3, 2], [2, 3], [2, 1]], "nothing moves it back"


def test_replicas_move_to_where_the_topic_places_them(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("placed", 2, replicas=2)
    first = shown(cluster, topic)[0]
    target = [first[1], next(one for one in (1, 2, 3) if one not in first)]
    with Traffic(cluster.bootstrap, topic, 2) as traffic:
        assignment = {"partition": 0, "replicas": target}
        change = json.dumps({"spec": {"assignments": [assignment]}})
        cluster.kubectl("patch", "ct", topic, "--type=merge", "-p", change)

        def is_there() -> bool:
            assert list(places(cluster, topic)[0].replicas) == target
            return True

        took_s = eventually(
            "partition 0 is where it should be", is_there, MOVED_LIMIT_S, every_s=0.2
        )
        wait_quiesced(cluster)
    check_gaps(traffic, f"a partition moved to spec.assignments in {took_s:.1f} s")
    assert shown(cluster, topic)[0] == target

    said = reassign(cluster, plan_of(topic, {0: first}), "--execute", check=False)
    assert f"spec.assignments of Topic {cluster.kubectl.namespace}/{topic}" in said, said
    assert shown(cluster, topic)[0] == target
