"""Stored bits change under brokers that run: what was acknowledged stays, and nobody serves them.

The reader is librdkafka, which by default does not check what it gets.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.members import wait_for, wait_whole
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.loopback.damage import flip_a_bit, replicas

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"
CONFIG = {"segment.bytes": str(2**20), "min.insync.replicas": "2"}
SETTINGS = {"chiplog.scrub.interval.ms": "2000"}
RECORD_BYTES = 100_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster", SETTINGS) as one:
        yield one


def test_damaged_replicas_never_lead_and_are_rebuilt(cluster: LoopbackCluster) -> None:
    chance = random.Random(7)  # noqa: S311 - not for secrets
    client, records = Librdkafka(), []

    def produce(count: int) -> None:
        new = [Record(chance.randbytes(RECORD_BYTES)) for _ in range(count)]
        for start in range(0, count, 5):
            client.produce(cluster.bootstrap, TOPIC, new[start : start + 5], partition=0)
        records.extend(new)

    create_topic(cluster.bootstrap, TOPIC, 1, CONFIG, replicas=SIZE)
    produce(35)
    wait_whole(cluster, SIZE, replicas=SIZE)
    _, (follower, _) = replicas(cluster, TOPIC, 0)
    sealed = follower.segments()[1]
    before = follower.last_damage(sealed.name)
    flip_a_bit(sealed, chance)
    follower.wait_rebuilt(sealed.name, before)
    produce(5)
    leader, followers = replicas(cluster, TOPIC, 0)
    active = leader.segments()[-1]
    before = leader.last_damage(active.name)
    flip_a_bit(active, chance)
    leader.wait_rebuilt(active.name, before)
    produce(5)
    found = client.consume(cluster.bootstrap, TOPIC, 0, len(records))
    assert [one.record.value for one in found] == [one.value for one in records]

    def are_alike() -> bool:
        stored = {
            b"".join(path.read_bytes() for path in one.segments()) for one in (leader, *followers)
        }
        return len(stored) == 1

    wait_for("all replicas have the same bytes", are_alike)
