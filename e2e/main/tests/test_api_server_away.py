"""Without the API server clients notice nothing, and when it returns no leader moves."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from e2e import measured
from e2e.cluster import outage
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.replicas import wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(900), pytest.mark.usefixtures("faults")]

AWAY_S = 300 if is_full() else 20
# More than twice a Lease's duration: a wrong decision would be made by then.
AFTERWARDS_S = 15
PARTITIONS = 6
WAYS = [outage.stopped, outage.frozen] if is_full() else [outage.stopped]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__))
def test_clients_notice_nothing_and_no_leader_moves(
    cluster: BrokerClusterUnderTest,
    operator: Operator,
    new_topic: NewTopic,
    way: Callable[[], AbstractContextManager[None]],
) -> None:
    topic = new_topic(f"outage-{way.__name__}", PARTITIONS)
    operator.wait_whole()
    wait_in_sync(cluster)
    before, pods = cluster.epochs(), cluster.broker_pods()
    assert sum(key.startswith("broker ") for key in before) == 3
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        time.sleep(2)
        assert traffic.noticed.acknowledged, "the load runs before anything happens"
        with way():
            time.sleep(AWAY_S)
        returned_s = time.monotonic()
        eventually("the API server answers", lambda: bool(cluster.epochs()), 30)
        while time.monotonic() - returned_s < AFTERWARDS_S:
            assert cluster.epochs() == before
            time.sleep(1)
    traffic.check()
    measured.note(
        f"API server {way.__name__} for {AWAY_S} s: {traffic.sent} records, none refused, "
        f"slowest {traffic.noticed.slowest_ms():.0f} ms"
    )
    assert cluster.epochs() == before
    assert cluster.broker_pods() == pods
    # Kubernetes itself may call nodes, and so brokers, not ready for a minute: not waited for.
    operator.wait_whole()
