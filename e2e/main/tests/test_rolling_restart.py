"""Every broker is restarted under load, for a change that needs it: clients do not notice."""

import json

import pytest

from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.replicas import wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(400)]

PARTITIONS = 6
GAP_LIMIT_S = 1.0
ROLL_LIMIT_S = 240


def test_no_send_fails(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic
) -> None:
    topic = new_topic("rolled", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    operator.wait_whole()
    wait_in_sync(cluster)
    before = cluster.broker_pods()

    def restarted() -> bool:
        now = cluster.broker_pods()
        same = {name for name in before if name not in now or now[name].uid == before[name].uid}
        assert not same, f"not restarted yet: {sorted(same)}"
        return True

    # It stays: to take it back would be another restart of all.
    change = json.dumps({"spec": {"config": {"socket.request.max.bytes": 100_000_000}}})
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", change)
        took_s = eventually("all brokers were restarted", restarted, ROLL_LIMIT_S)
        cluster.wait_cluster_ready()
        took_s += wait_in_sync(cluster)
    gaps_s = traffic.noticed.longest_gaps_s()
    shown = ", ".join(f"{one:.2f}" for one in gaps_s.values())
    measured.note(
        f"rolling restart of {len(before)} brokers in {took_s:.0f} s: {traffic.sent} records, "
        f"longest gaps per partition {shown} s (limit {GAP_LIMIT_S:.0f} s)"
    )
    traffic.check_records()
    assert len(gaps_s) == PARTITIONS
    assert max(gaps_s.values()) < 5 * GAP_LIMIT_S
