"""The power of all brokers fails just after one broker's device did wrong: nothing is lost.

Long form, 50 of each: `make power-cut`.
"""

import os
import random
from collections.abc import Callable, Iterator

import pytest

from e2e import measured
from e2e.chaos.device_cuts import (
    Cluster,
    Load,
    back_first,
    bit_flips,
    device,
    device_fails,
    wait_all_whole,
)
from e2e.chaos.power import BROKERS, PoweredCluster
from e2e.clients.topics import create_topic
from e2e.disks.file_systems import KINDS, refusal
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE

CUTS = int(os.environ.get("DEVICE_CUTS", "50" if is_full() else "1"))
PARTITIONS = 3
FEWEST, MOST = 100, 600
# Segments roll every few cuts, so that cuts meet rolls too.
SETTINGS = {"log.segment.bytes": str(2**20)}
CONFIG = {"min.insync.replicas": "2", "chiplog.durability": "Fsync"}

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900 + 60 * CUTS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("devices")
    for kind in KINDS:
        if why := refusal(kind, directory):
            pytest.skip(why)
    with PoweredCluster(directory / "cluster", SETTINGS, device) as one:
        yield one


def cut_repeatedly(
    cluster: Cluster, name: str, before: Callable[[int], None], after: Callable[[int], None]
) -> None:
    """`before` and `after` a cut get the id of the broker that is hit."""
    create_topic(cluster.bootstrap, name, PARTITIONS, CONFIG, replicas=SIZE)
    wait_all_whole(cluster)
    chance = random.Random(13)  # noqa: S311 - moments, not secrets
    load, cuts, led = Load(cluster.bootstrap, name, PARTITIONS), 0, 0
    with load.at_work():
        while cuts < CUTS and not load.has_given_up():
            hit = chance.choice(BROKERS)
            load.wait_acknowledged(chance.randint(FEWEST, MOST))
            if load.has_given_up():
                break  # nothing would be written to a device that fails
            before(hit)
            load.wait_acknowledged(FEWEST)
            cluster.cut_power()
            after(hit)
            led += back_first(cluster, hit, name)
            cuts += 1
        load.wait_acknowledged(FEWEST)
    found = load.anomalies()
    lost = [one for one in found if one.name == "lost-write"]
    measured.note(
        f"{name}: power of all brokers cut {cuts} times, {load.ledger.acknowledged():,} records "
        f"acknowledged, {len(lost)} lost, {len(found)} anomalies; the broker with the fault, back "
        f"first, led {led} times before the others were back"
    )
    assert not found, found[:3]
    assert not load.ledger.errors, load.ledger.errors[:3]


def test_after_a_device_dropped_writes(cluster: Cluster) -> None:
    cut_repeatedly(cluster, "cut-dropped", lambda hit: device_fails(cluster, hit), lambda _: None)


def test_with_a_flipped_bit_above_the_recovery_point(cluster: Cluster) -> None:
    chance = random.Random(17)  # noqa: S311 - places, not secrets

    def flip(hit: int) -> None:
        print(f"broker {hit}: {bit_flips(cluster, hit, 'cut-flipped', chance)}")

    cut_repeatedly(cluster, "cut-flipped", lambda _: None, flip)
