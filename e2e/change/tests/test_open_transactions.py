"""Open transactions survive what an administrator changes, and end as their producers decide."""

import time
from collections.abc import Iterator

import pytest
import yaml

from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from e2e import measured
from e2e.change.changes import (
    CHANGES,
    SCALE_LIMIT_S,
    Change,
    drain_node_of,
    moved_by_kafkas_tool,
    spread,
)
from e2e.change.moved import broker_ids, wait_pods, wait_quiesced, wait_replicas
from e2e.change.open_transactions import opened
from e2e.chaos.scene import Scene
from e2e.cluster.target import Target
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.replicas import places, wait_in_sync
from e2e.main.setting_up import NewTopic, cluster_in, make_topic

pytestmark = [pytest.mark.change, pytest.mark.timeout(1500)]

PARTITIONS = 2
NAMESPACE = "e2e-one-broker"
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)


@pytest.fixture
def scene(cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic) -> Scene:
    topic = new_topic(f"open-{time.time_ns()}", PARTITIONS, replicas=3)
    operator.wait_whole()
    wait_in_sync(cluster)
    return Scene(cluster, operator, topic)


def test_they_survive_moves_of_their_partitions_and_a_drained_coordinator(scene: Scene) -> None:
    began_s = time.monotonic()
    with opened(scene.cluster, scene.topic, "before") as transactions:
        moved_by_kafkas_tool(scene)
        transactions.write("moved")
        before = transactions.coordinated_by()
        assert before.leader is not None
        drain_node_of(scene, before.leader)
        transactions.write("drained")
        transactions.check_open()
        after = transactions.coordinated_by()
        assert after.leader_epoch > before.leader_epoch, "another broker has coordinated them"
        transactions.end("before", "moved", "drained")
    measured.note(
        f"open transactions of two libraries: partitions moved, coordinator {before.leader} "
        f"drained, {after.leader} coordinates, all ended in {time.monotonic() - began_s:.0f} s"
    )


@LONG_FORM
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.name.replace(" ", "-"))
def test_they_survive_every_change(scene: Scene, change: Change) -> None:
    with opened(scene.cluster, scene.topic, "before") as transactions:
        change.make(scene)
        transactions.write("after")
        transactions.check_open()
        transactions.end("before", "after")


@LONG_FORM
def test_they_survive_that_the_internal_topics_move(scene: Scene) -> None:
    """To brokers that are added, and back when these are removed."""
    cluster, before = scene.cluster, sorted(broker_ids(scene.cluster))
    with opened(cluster, scene.topic, "before") as transactions:
        cluster.kubectl("scale", f"cbc/{cluster.name}", f"--replicas={len(before) + 2}")
        cluster.wait_cluster_ready(SCALE_LIMIT_S)
        added = sorted(broker_ids(cluster) - set(before))
        for topic in INTERNAL:
            spread(scene, topic, [*added, *before])
            found = {one for state in places(cluster, topic) for one in state.replicas}
            assert found >= set(added), f"{topic} is on {found}"
        transactions.write("moved")
        cluster.kubectl("scale", f"cbc/{cluster.name}", f"--replicas={len(before)}")
        wait_quiesced(cluster, SCALE_LIMIT_S)
        wait_pods(cluster, *before, limit_s=SCALE_LIMIT_S)
        transactions.write("back")
        transactions.check_open()
        transactions.end("before", "moved", "back")


@pytest.fixture
def lone(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """A cluster of one broker."""
    cluster, _ = yaml.safe_load_all(example({}))
    cluster["spec"]["replicas"] = 1
    with cluster_in(target, NAMESPACE, yaml.safe_dump(cluster), operator=operator) as one:
        yield one


@LONG_FORM
def test_they_survive_the_growth_of_a_cluster_of_one_broker(lone: BrokerClusterUnderTest) -> None:
    """The internal topics get three replicas without being asked for."""
    make_topic(lone, "open", PARTITIONS, replicas=1)
    with opened(lone, "open", "before") as transactions:
        assert [_replicas(lone, topic) for topic in INTERNAL] == [{1}, {1}]
        lone.kubectl("scale", f"cbc/{lone.name}", "--replicas=3")
        lone.wait_cluster_ready(SCALE_LIMIT_S)
        for topic in INTERNAL:
            wait_replicas(lone, topic, 3)
        transactions.write("after")
        transactions.check_open()
        transactions.end("before", "after")


def _replicas(cluster: BrokerClusterUnderTest, topic: str) -> set[int]:
    """The numbers of replicas that partitions of the topic have."""
    return {len(one.replicas) for one in places(cluster, topic)}
