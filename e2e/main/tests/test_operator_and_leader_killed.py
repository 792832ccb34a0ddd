"""The active operator and a leader are killed together: the standby elects the new leader.

Either another broker leads then, or the same one in its next session, where its container was
back before the standby was active: both are a new leader epoch.
"""

import time

import pytest

from e2e import measured
from e2e.cluster import containers
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.replicas import kill, places, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(400), pytest.mark.usefixtures("faults")]

PARTITIONS = 3
LIMIT_S = 15
HANG_LIMIT_S = 5 * LIMIT_S
PATIENCE_MS = 60_000


def test_the_standby_acts(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic
) -> None:
    topic = new_topic("without-operator", PARTITIONS, replicas=3)
    operator.wait_whole()
    wait_in_sync(cluster)
    before = places(cluster, topic)[0]
    assert before.leader is not None
    active = operator.leader()["metadata"]

    def succeeded() -> bool:
        return places(cluster, topic)[0].leader_epoch > before.leader_epoch

    with Traffic(cluster.bootstrap, topic, PARTITIONS, PATIENCE_MS) as traffic:
        time.sleep(2)
        since_s = time.monotonic()
        assert containers.kill(active["uid"]), "the operator has no process"
        kill(cluster, before.leader)
        eventually("a new leader epoch begins", succeeded, HANG_LIMIT_S)
        took_s = time.monotonic() - since_s
        operator.wait_whole()
        wait_in_sync(cluster)
    measured.note(
        f"operator and leader killed together: a new leader epoch after {took_s:.1f} s "
        f"(limit {LIMIT_S} s); longest gap {max(traffic.noticed.longest_gaps_s().values()):.1f} s"
    )
    traffic.check_records()
