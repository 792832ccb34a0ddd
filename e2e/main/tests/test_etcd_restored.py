"""etcd is put back to an older copy while brokers run: their disks know better, and win.

Since the copy leaders were killed and records acknowledged. Taken at its word the copy would make
leaders under epochs that were used already, and trust broker processes that ended since.
"""

import os
import time
from functools import partial

import pytest

from e2e import measured
from e2e.cluster import etcd_copy
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.map_watch import MapWatch
from e2e.main.operator import Operator
from e2e.main.replicas import Place, kill, leader_of, places, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

COPY_AGE_S = int(os.environ.get("COPY_AGE_S", "0"))
"""So long nothing happens, but what Kubernetes and operator do by themselves, after the copy."""

pytestmark = [
    pytest.mark.main,
    pytest.mark.timeout(900 + COPY_AGE_S),
    pytest.mark.usefixtures("faults"),
]

PARTITIONS = 3
KILLED = range(PARTITIONS if is_full() else 1)
PATIENCE_MS = 180_000
LIMIT_S = 300
RUNS_LAST = True


def test_the_newest_state_wins(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic
) -> None:
    topic = new_topic("restored", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    operator.wait_whole()
    wait_in_sync(cluster)

    def has_new_epoch(before: Place) -> bool:
        return places(cluster, topic)[before.partition].leader_epoch > before.leader_epoch

    def has_won(newest: list[Place]) -> bool:
        now = places(cluster, topic)
        return all(now[n].leader_epoch > newest[n].leader_epoch for n in KILLED)

    with etcd_copy.taken() as put_back:
        copied_s, copied = time.monotonic(), places(cluster, topic)
        time.sleep(COPY_AGE_S)
        with Traffic(cluster.bootstrap, topic, PARTITIONS, PATIENCE_MS) as traffic:
            for partition in KILLED:
                kill(cluster, leader_of(cluster, topic, partition))
                eventually(
                    "a new leader epoch begins", partial(has_new_epoch, copied[partition]), 60
                )
                wait_in_sync(cluster)
            newest = places(cluster, topic)
            age_s = time.monotonic() - copied_s
            with MapWatch(cluster, topic) as watch:
                put_back()
                watch.seen.clear()
                # The copy says that all is well: only a leader epoch above all of them can be from
                # the brokers.
                took_s = eventually("the newest state has won", partial(has_won, newest), LIMIT_S)
                took_s += wait_in_sync(cluster)
        traffic.check_records()
    measured.note(
        f"etcd put back by {age_s:.0f} s, to before {len(KILLED)} leaders died: all in sync again "
        f"{took_s:.0f} s later, {traffic.sent} records, longest gap "
        f"{max(traffic.noticed.longest_gaps_s().values()):.0f} s, none lost"
    )
    for n in KILLED:
        for now in (seen[n] for seen in watch.seen):
            # Either still as in the copy, or elected since by what the brokers know.
            is_copy = now.leader_epoch == copied[n].leader_epoch
            assert is_copy or now.leader_epoch > newest[n].leader_epoch, (now, newest[n], copied[n])
