"""Apache Kafka as a cluster of three: what ours is compared with is whole, loses nothing, heals."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.clients.failover import measure_failover
from e2e.clients.topics import create_topic
from e2e.cluster.processes import process
from e2e.kafka.cluster import SIZE, KafkaCluster
from e2e.kafka.members import leader_of, wait_whole
from e2e.measured import note

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path) as one:
        yield one


def test_a_killed_member_is_replaced_and_comes_back(cluster: KafkaCluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, 3, {"min.insync.replicas": "2"}, replicas=SIZE)
    wait_whole(cluster, SIZE, replicas=SIZE)
    leader = leader_of(cluster, TOPIC, 0)
    pid = cluster.nodes[leader].pid
    found = measure_failover(cluster.bootstrap, TOPIC, 0, partial(cluster.kill, leader))
    assert process(pid) is None
    assert leader not in cluster.ports()
    assert not found.lost
    assert not found.refused
    note(f"Apache Kafka, kill -9 of a leader to the next acknowledgement: {found.seconds:.1f} s")
    cluster.start_again(leader)
    wait_whole(cluster, SIZE, replicas=SIZE)
    pids = [node.pid for node in cluster.nodes.values()]
    cluster.stop()
    assert [process(one) for one in pids] == [None] * SIZE
