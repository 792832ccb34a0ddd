"""Bits flip and files lose their end, on one replica at a time, under load: `make damages` for 100.

Operator and brokers are processes of this machine (`e2e.loopback`), so that the long form is one
of minutes. A damaged replica is found by the scrub or by a read, and fetched again from the others.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog_wire.records.batch import iter_batches
from e2e import measured
from e2e.chaos.run import judged
from e2e.chaos.scene import check_effect
from e2e.chaos.workload import PARTITIONS, Workload
from e2e.clients.topics import create_topic
from e2e.kafka.members import wait_for, wait_whole
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.loopback.damage import Replica, flip_a_bit, replicas

DAMAGES = int(os.environ.get("DAMAGES", "100" if is_full() else "4"))
TOPIC = "damaged"
SETTINGS = {"chiplog.scrub.interval.ms": "2000", "log.segment.bytes": str(2**20)}
CONFIG = {"min.insync.replicas": "2"}
ENOUGH_BYTES = 50_000

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900 + 60 * DAMAGES)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster", SETTINGS) as one:
        create_topic(one.bootstrap, TOPIC, PARTITIONS, CONFIG, replicas=SIZE)
        wait_whole(one, SIZE, replicas=SIZE)
        yield one


def whole_batches_bytes(path: Path) -> int:
    """How much of a file that is being written to is written."""
    content = path.read_bytes()
    return max((at + one.size_bytes for at, one in iter_batches(content)), default=0)


def damage(path: Path, chance: random.Random) -> str:
    """Flip any bit, or cut any number of bytes from the end; says what it did."""
    size = whole_batches_bytes(path)
    check_effect(f"content in {path.name} to damage", size)
    if chance.random() < 0.5:
        return f"bit of byte {flip_a_bit(path, chance, range(size))} flipped"
    left = chance.randrange(size)
    os.truncate(path, left)
    return f"cut to {left} of {size} bytes"


def least_bytes(cluster: LoopbackCluster) -> int:
    """What the smallest replica of all has stored."""
    every = (
        Replica(cluster, TOPIC, at, one) for at in range(PARTITIONS) for one in cluster.brokers
    )
    return min(sum(path.stat().st_size for path in one.segments()) for one in every)


def drawn(cluster: LoopbackCluster, chance: random.Random) -> tuple[Replica, Path]:
    """A replica, a leader's as often as a follower's, and one of its files."""
    leader, followers = replicas(cluster, TOPIC, chance.randrange(PARTITIONS))
    replica = leader if chance.random() < 0.5 else chance.choice(followers)
    return replica, chance.choice(replica.segments())


def test_damaged_replicas_never_lead_and_nothing_is_lost(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    chance = random.Random(5)  # noqa: S311 - places, not secrets
    leaders = 0
    with Workload(cluster.bootstrap, TOPIC, tmp_path / "clients") as load:
        wait_for("there is something to damage", lambda: least_bytes(cluster) >= ENOUGH_BYTES)
        for number in range(1, DAMAGES + 1):
            replica, path = drawn(cluster, chance)
            leaders += replica.leads()
            before, what = replica.last_damage(path.name), damage(path, chance)
            print(f"{number}: {replica.topic}-{replica.partition} on {replica.broker_id}: {what}")
            replica.wait_rebuilt(path.name, before)
        load.all_is_well()
    volumes = {number: cluster.volume(number) for number in cluster.brokers}
    found = judged("damage", DAMAGES, load, volumes, tmp_path)
    measured.note(
        f"{DAMAGES} bits flipped or files cut, {leaders} on leaders: all found and built "
        f"anew; {found.acknowledged:,} records acknowledged, {len(found.anomalies)} anomalies"
    )
    found.check()
