"""A verification of three replicas, of which one has something else on its disk than the others."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chiplog_core.spark.results import Result
from chiplog_spark.verify.hashes import by_crc32
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.members import wait_whole
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.loopback.damage import flip_a_bit, replicas

from .planted import overwrite, records_in

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"
PARTITIONS = 2
KEYS = [f"customer-{number:03}".encode() for number in range(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def told(result: Result) -> set[tuple[str, int, int | None, int | None]]:
    return {(one.check.value, one.partition, one.offset, one.replica) for one in result.violations}


def test_damage_on_one_replica_is_named(
    cluster: LoopbackCluster, verified: Callable[..., Result]
) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=SIZE)
    records = [Record(b"%06d" % at, KEYS[at % len(KEYS)]) for at in range(1_500)]
    for start in range(0, len(records), 500):
        Librdkafka().produce(cluster.bootstrap, TOPIC, records[start : start + 500])
    wait_whole(cluster, SIZE, replicas=SIZE)
    result = verified(cluster.bootstrap, TOPIC, records_per_split=200)
    assert told(result) == set()
    assert result.summary["refused"] == result.summary["skipped"] == []
    assert result.summary["coverage"]["replicas"] == PARTITIONS * SIZE
    assert result.summary["coverage"]["records"] == len(records) * SIZE

    # Other bytes under a right checksum, which no broker can know: another value, a foreign key.
    _, (follower, other) = replicas(cluster, TOPIC, 0)
    cluster.kill(follower.broker_id)
    (path,) = follower.segments()
    stored = {one.offset: one for one in records_in(path)}
    base = overwrite(path, 3, stored[3].value or b"", b"999999")
    stranger = next(key for key in KEYS if by_crc32(key, PARTITIONS) != 0)
    at = 400
    second = overwrite(path, at, stored[at].key or b"", stranger)
    cluster.start_again(follower.broker_id)
    wait_whole(cluster, SIZE, replicas=SIZE)
    result = verified(cluster.bootstrap, TOPIC, records_per_split=200)
    assert base != second, "two batches, so two of them differ"
    assert told(result) == {
        ("ReplicaMismatch", 0, base, follower.broker_id),
        ("ReplicaMismatch", 0, second, follower.broker_id),
        ("KeyPlacement", 0, at, follower.broker_id),
    }

    # What is cut off a broker fetches again before it counts as in sync, so nothing is missing.
    cluster.kill(other.broker_id)
    (path,) = other.segments()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    cluster.start_again(other.broker_id)
    wait_whole(cluster, SIZE, replicas=SIZE)
    assert {replica for *_, replica in told(verified(cluster.bootstrap, TOPIC))} == {
        follower.broker_id
    }

    # A flipped bit a broker finds itself when it reads: it refuses, and that is what is told.
    chance = random.Random(7)  # noqa: S311 - not for secrets
    flip_a_bit(path, chance)
    result = verified(cluster.bootstrap, TOPIC)
    crc = {one for one in told(result) if one[0] == "Crc"}
    assert {(partition, replica) for _, partition, _, replica in crc} == {(0, other.broker_id)}
    assert [one["replica"] for one in result.summary["refused"]] == [other.broker_id]
