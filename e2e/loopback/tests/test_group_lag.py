"""ConsumerGroups on a Kubernetes API without nodes: lag of real brokers, by the real operator."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import measured
from e2e.clients.topics import create_topic
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.loopback.cluster import NAME, NAMESPACE, LoopbackCluster
from e2e.main.group_lag import Group, produce, seconds_until_shown

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC, PARTITIONS = "orders", 3
SHOWN_LIMIT_S = 1.0
# A hang guard. The figure beside its limit is what is printed.
HANG_LIMIT_S = 5 * SHOWN_LIMIT_S


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def test_lag_is_reported_exactly_and_soon(cluster: LoopbackCluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    kubectl = Kubectl(cluster.server.administrator(), NAMESPACE)
    group = Group(kubectl, cluster.bootstrap, "billing", TOPIC, PARTITIONS)
    produce(group.bootstrap, TOPIC, PARTITIONS, 300)
    group.commit({0: 60, 1: 0})
    group.apply(NAME, offsetRetention="7d")
    expected = {0: 60, 1: 0}

    def agree() -> bool:
        with urllib.request.urlopen(f"http://{cluster.metrics}/metrics", timeout=10) as found:
            metrics = found.read().decode()
        assert group.reported() == group.by_kafka() == group.measured(metrics) == expected
        assert group.status()["conditions"][0]["reason"] == "Ready"  # type: ignore[index]
        return True

    eventually("Kafka, status and metrics agree", agree, 30)
    group.commit(dict.fromkeys(range(PARTITIONS), 0))
    eventually("all is consumed", lambda: group.status().get("totalLag") == 0, 30)
    seconds = seconds_until_shown(group, HANG_LIMIT_S)
    measured.note(
        f"loopback: a lag of 1000 records shown {seconds:.2f} s after the load's end "
        f"(limit {SHOWN_LIMIT_S:.0f} s)"
    )
