"""Replicas move under load: clients lose nothing, and wait for no longer than for a new leader."""

import pytest

from e2e import measured
from e2e.change.gaps import check_gaps
from e2e.change.kafkas_tool import ongoing, plan_of, reassign
from e2e.change.moved import broker_ids, wait_pods, wait_quiesced
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(400)]

PARTITIONS = 6


def test_brokers_are_added_and_removed(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("scaled", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        cluster.kubectl("scale", f"cbc/{cluster.name}", "--replicas=5")
        cluster.wait_cluster_ready(180)
        spread = new_topic("spread", 10, replicas=3)
        added = broker_ids(cluster) - {1, 2, 3}
        assert len(added) == 2
        assert added <= {one for place in places(cluster, spread) for one in place.replicas}
        cluster.kubectl("scale", f"cbc/{cluster.name}", "--replicas=3")
        took_s = wait_quiesced(cluster, 180)
        took_s += wait_pods(cluster, 1, 2, 3)
        measured.note(f"two of five brokers emptied and removed in {took_s:.1f} s")
    check_gaps(traffic, "brokers 3 to 5 to 3")
    assert {one for place in places(cluster, spread) for one in place.replicas} == {1, 2, 3}


def test_kafkas_tool_moves_partitions(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("reassigned", 2, replicas=1)
    before = [place.replicas for place in places(cluster, topic)]
    targets = [[one % 3 + 1] for (one,) in before]
    moved = plan_of(topic, dict(enumerate(targets)))
    with Traffic(cluster.bootstrap, topic, 2) as traffic:
        said = reassign(cluster, moved, "--execute")
        assert "Successfully started partition reassignments" in said, said
        wait_quiesced(cluster, 60)
    check_gaps(traffic, "two partitions moved by kafka-reassign-partitions.sh")
    assert [list(place.replicas) for place in places(cluster, topic)] == targets
    said = reassign(cluster, moved, "--verify")
    assert said.count("is completed") == 2, said
    assert "No partition reassignments found" in ongoing(cluster)
