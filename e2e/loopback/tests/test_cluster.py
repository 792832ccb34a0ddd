"""Operator and brokers without nodes: whole, used by a client, and whole again after a kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog_core.naming import api
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.members import ask, wait_for, wait_whole
from e2e.loopback.cluster import NAME, SIZE, LoopbackCluster, own_path

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def session_of(cluster: LoopbackCluster, broker_id: int) -> int:
    found = cluster.server.ask("GET", f"{own_path(api.BROKER)}/{NAME}-{broker_id}")
    return int(found["spec"]["session"])


def test_brokers_serve_and_one_that_was_killed_is_admitted_again(cluster: LoopbackCluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, SIZE)
    leaders = ask(cluster).leaders[TOPIC]
    assert set(leaders.values()) == {1, 2, 3}
    records = [Record(b"first"), Record(b"second")]
    Librdkafka().produce(cluster.bootstrap, TOPIC, records, partition=0)
    killed = leaders[0]
    before = session_of(cluster, killed)
    cluster.kill(killed)
    assert killed not in cluster.ports()
    wait_for("it is known to be gone", lambda: killed not in ask(cluster).brokers)
    cluster.start_again(killed)
    wait_whole(cluster, SIZE, replicas=1)
    assert session_of(cluster, killed) == before + 1
    found = Librdkafka().consume(cluster.bootstrap, TOPIC, 0, len(records))
    assert [one.record for one in found] == records
