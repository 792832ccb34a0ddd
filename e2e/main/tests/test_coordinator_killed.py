"""The broker that coordinates five groups is killed by force while all of them commit.

It leads partitions of their topic too, as every broker does. Neither is announced to members: they
find the new coordinator, and the new leaders, and go on where they were.
"""

from functools import partial
from pathlib import Path

import pytest

from e2e import measured
from e2e.chaos.coordinator_failover import GROUPS, MEMBERS_EACH, CoordinatorFailover
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.replicas import kill, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

KILLS = 10 if is_full() else 1
PARTITIONS = 8
LIMIT_S = 10
HANG_LIMIT_S = 5 * LIMIT_S
PATIENCE_MS = 60_000

pytestmark = [
    pytest.mark.main,
    pytest.mark.timeout(400 + 240 * KILLS),
    pytest.mark.usefixtures("faults"),
]


def test_every_group_consumes_again(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic, tmp_path: Path
) -> None:
    config = {"min.insync.replicas": 2}
    operator.wait_whole()
    found: list[float] = []
    for number in range(KILLS):
        topic = new_topic(f"coordinated-{number}", PARTITIONS, replicas=3, config=config)
        wait_in_sync(cluster)
        groups = CoordinatorFailover(cluster.bootstrap, topic, PARTITIONS, tmp_path / str(number))
        traffic = Traffic(cluster.bootstrap, topic, PARTITIONS, PATIENCE_MS)
        with groups:
            with traffic:
                took_s = groups.kill_coordinator(partial(kill, cluster), HANG_LIMIT_S)
                wait_in_sync(cluster)
            groups.check()
        traffic.check_records()
        shown = ", ".join(f"{one:.1f}" for one in took_s.values())
        print(f"kill {number + 1}, of broker {groups.broker}: {shown} s")
        found += took_s.values()
    measured.note(
        f"coordinator of {GROUPS} groups of {MEMBERS_EACH} members killed {KILLS} times: every "
        f"group commits in all {PARTITIONS} partitions again within {max(found):.1f} s "
        f"(limit {LIMIT_S} s), none lost or skipped"
    )
