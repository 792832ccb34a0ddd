"""Stored bits change under brokers that run: what was acknowledged stays, and nobody serves them.

The reader is librdkafka, which by default does not check what it gets.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chiplog_core import api
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.members import leader_of, wait_for, wait_whole
from e2e.loopback.cluster import NAME, SIZE, LoopbackCluster, own_path

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC = "orders"
DIRECTORY = f"{TOPIC}-0"
CONFIG = {"segment.bytes": str(2**20), "min.insync.replicas": "2"}
SETTINGS = {"chiplog.scrub.interval.ms": "2000"}
FIRST_CHECKED = 16  # before the magic byte are what a batch cannot vouch for by itself
RECORD_BYTES = 100_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster", SETTINGS) as one:
        yield one


def segments(cluster: LoopbackCluster, broker_id: int) -> list[Path]:
    """The newest is the last one."""
    data = cluster.folder / f"broker-{broker_id}" / "volume" / "data"
    return sorted((data / DIRECTORY).glob("*.log"))


def flip_a_bit(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    at = chance.randrange(FIRST_CHECKED, len(content))
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1 << chance.randrange(8)]))


def condition(cluster: LoopbackCluster) -> str:
    """The message of `ReplicasDamaged`; empty where there is none."""
    found = cluster.server.ask("GET", f"{own_path(api.TOPIC)}/{TOPIC}")
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(one["message"]) for one in conditions if one["type"] == "ReplicasDamaged"), "")


def is_damaged(cluster: LoopbackCluster, broker_id: int) -> bool:
    found = cluster.server.ask("GET", f"{own_path(api.BROKER)}/{NAME}-{broker_id}")
    return any(one.get("damaged") for one in found["status"]["directories"])


def partition(cluster: LoopbackCluster) -> dict[str, Any]:
    """As the map says."""
    found = cluster.server.ask("GET", f"{own_path(api.PARTITION_MAP)}/{NAME}.{TOPIC}")
    state: dict[str, Any] = found["spec"]["generations"][0]["partitions"][0]
    return state


def rebuilt(cluster: LoopbackCluster, broker_id: int, file: str) -> None:
    """Wait until a damaged replica is found, and whole again; it leads at no time in between."""
    told = f"partition 0 on broker {broker_id} is damaged in {DIRECTORY}/{file}"
    wait_for(f"the condition says: {told}", lambda: told in condition(cluster))
    prefix = f"{broker_id}@"
    wait_for(
        "another broker leads",
        lambda: not partition(cluster).get("leader", prefix).startswith(prefix),
    )
    seen: list[bool] = []

    def is_whole() -> bool:
        leader = partition(cluster).get("leader", "")
        seen.append(is_damaged(cluster, broker_id))
        assert not (seen[-1] and leader.startswith(prefix)), "a damaged replica leads"
        return not seen[-1]

    wait_for(f"the replica of broker {broker_id} is whole", is_whole)
    wait_for("the condition is gone", lambda: condition(cluster) == "")
    wait_whole(cluster, SIZE, replicas=SIZE)


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
    leader = leader_of(cluster, TOPIC, 0)
    follower = next(one for one in cluster.brokers if one != leader)
    sealed = segments(cluster, follower)[1]
    flip_a_bit(sealed, chance)
    rebuilt(cluster, follower, sealed.name)
    produce(5)
    leader = leader_of(cluster, TOPIC, 0)
    active = segments(cluster, leader)[-1]
    flip_a_bit(active, chance)
    rebuilt(cluster, leader, active.name)
    produce(5)
    found = client.consume(cluster.bootstrap, TOPIC, 0, len(records))
    assert [one.record.value for one in found] == [one.value for one in records]
    wait_for(
        "all replicas have the same bytes",
        lambda: len({stored(cluster, broker_id) for broker_id in cluster.brokers}) == 1,
    )


def stored(cluster: LoopbackCluster, broker_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in segments(cluster, broker_id))
