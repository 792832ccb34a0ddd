"""The coordinator of five groups is killed, without nodes; and when a group counts as back.

On the local Kubernetes: `e2e/main/tests/test_coordinator_killed.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import measured
from e2e.chaos.coordinator_failover import CoordinatorFailover, back_s
from e2e.chaos.group_history import NEVER_S, Committed, GroupHistory, Place
from e2e.clients.topics import create_topic
from e2e.kafka.members import wait_whole
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.main.traffic import Traffic

TOPIC, PARTITIONS = "taken-over", 8
LABELS = ["orders-0", "orders-1"]
LIMIT_S = 10
HANG_LIMIT_S = 5 * LIMIT_S
PATIENCE_MS = 60_000


def committed(label: str, offset: int, asked_s: float, answered_s: float = NEVER_S) -> Committed:
    return Committed(asked_s, answered_s, Place("first", label), offset, "first.0")


def test_a_group_is_back_when_it_has_committed_what_came_after_the_kill() -> None:
    wanted = {Place("first", label): 9 for label in LABELS}
    groups = GroupHistory(
        commits=[
            committed("orders-0", 12, 1.9, 2.1),  # the old coordinator may have answered
            committed("orders-0", 9, 2.5, 2.6),  # read before the kill
            committed("orders-0", 10, 3.0, 3.5),
            committed("orders-0", 11, 4.0, 4.1),
            committed("orders-1", 10, 3.0),
        ]
    )
    assert back_s(groups, wanted, 2.0) is None
    groups.commits.append(committed("orders-1", 10, 4.0, 4.5))
    assert back_s(groups, wanted, 2.0) == 4.5
    assert back_s(groups, {Place("first", "orders-0"): 9}, 2.0) == 3.5
    assert back_s(groups, {Place("second", "orders-0"): 9}, 2.0) is None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        create_topic(one.bootstrap, TOPIC, PARTITIONS, {"min.insync.replicas": "2"}, replicas=SIZE)
        wait_whole(one, SIZE, replicas=SIZE)
        yield one


@pytest.mark.clients
@pytest.mark.timeout(600)
def test_groups_go_on_without_their_coordinator(cluster: LoopbackCluster, tmp_path: Path) -> None:
    traffic = Traffic(cluster.bootstrap, TOPIC, PARTITIONS, PATIENCE_MS)
    with CoordinatorFailover(cluster.bootstrap, TOPIC, PARTITIONS, tmp_path) as groups:
        with traffic:
            took_s = groups.kill_coordinator(cluster.kill, HANG_LIMIT_S)
            cluster.start_again(groups.broker)
            wait_whole(cluster, SIZE, replicas=SIZE)
        groups.check()
    shown = ", ".join(f"{one:.1f}" for one in took_s.values())
    measured.note(
        f"coordinator killed on loopback: its five groups commit again after {shown} s "
        f"(limit {LIMIT_S} s)"
    )
    traffic.check_records()
