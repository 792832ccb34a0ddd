"""The power of all brokers fails at once: with `Fsync` nothing acknowledged is lost, ever.

Neither is what groups committed: `__consumer_offsets` is as durable as topics are by default.

With `PageCache` something is, or the cuts are none and the first test proves nothing. Long form:
`make power-cut`.
"""

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from e2e import measured
from e2e.chaos.power import PoweredCluster
from e2e.chaos.run import judged
from e2e.chaos.workload import PARTITIONS, Workload
from e2e.clients.crash_disk import CrashDisk
from e2e.clients.topics import create_topic
from e2e.cluster.processes import wait_until
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE
from e2e.sim.checkers import check

CUTS = int(os.environ.get("ALL_POWER_CUTS", "200" if is_full() else "3"))
# So that the history of a run, which is in memory, does not grow without end.
CUTS_A_RUN = 50
FEWEST, MOST = 200, 2_000
HEAL_LIMIT_S = 120

Cluster: TypeAlias = PoweredCluster[CrashDisk]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(900 + 60 * CUTS),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if why := CrashDisk.refusal(tmp_path):
        pytest.skip(why)
    # Segments roll every few cuts, so that cuts meet rolls too.
    settings = {"log.segment.bytes": str(2**20)}
    with PoweredCluster(tmp_path / "cluster", settings, lambda _, at: CrashDisk(at)) as one:
        yield one


def new_topic(cluster: Cluster, name: str, durability: str) -> str:
    config = {"min.insync.replicas": "2", **cluster.durability(durability)}
    create_topic(cluster.bootstrap, name, PARTITIONS, config, replicas=SIZE)
    cluster.wait_whole()
    return name


def wait_acknowledged(load: Workload, more: int) -> None:
    enough = load.ledger.acknowledged() + more

    def has_enough() -> bool:
        return load.ledger.acknowledged() >= enough

    wait_until(f"{more} records more are acknowledged", has_enough, HEAL_LIMIT_S)


def test_with_fsync_nothing_acknowledged_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311 - moments, not secrets
    for begun in range(0, CUTS, CUTS_A_RUN):
        cuts = min(CUTS_A_RUN, CUTS - begun)
        topic = new_topic(cluster, f"cut-{begun}", "Fsync")
        with Workload(cluster.bootstrap, topic, tmp_path / "clients") as load:
            for _ in range(cuts):
                wait_acknowledged(load, chance.randint(FEWEST, MOST))
                cluster.cut_power()
                cluster.power_again()
                cluster.wait_whole()
            load.all_is_well()
            wait_acknowledged(load, FEWEST)
        found = judged("power cut", cuts, load, cluster.volumes(), tmp_path)
        measured.note(
            f"power of all brokers cut {cuts} times: {found.acknowledged:,} records acknowledged, "
            f"{len(found.anomalies)} anomalies; {found.commits:,} offsets committed by groups, "
            f"{len(found.group_anomalies)} anomalies; {found.transactions.text}, "
            f"{len(found.transaction_anomalies)} anomalies; a partition unavailable for at most "
            f"{found.unavailable_s:.1f} s"
        )
        found.check()


def test_without_fsync_the_cut_is_felt(cluster: Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster, "cached", "PageCache")
    with Workload(cluster.bootstrap, topic, tmp_path / "clients") as load:
        wait_acknowledged(load, MOST)
        cluster.cut_power()
        load.abandon()
        promised = load.ledger.acknowledged()
        cluster.power_again()
        wait_until("it is led", partial(cluster.is_led, topic), HEAL_LIMIT_S)
        history = load.what_became_of_it()
    lost = [one for one in check(history) if one.name == "lost-write"]
    measured.note(f"the control with PageCache: {len(lost)} of {promised} acknowledged lost")
    assert lost, "the cuts are none: what survives them proves nothing"
