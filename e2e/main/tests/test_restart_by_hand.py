"""Brokers are restarted when somebody asks: one at a time, and once."""

from collections.abc import Callable

import pytest

from chiplog_core.naming import labels
from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import pod_of, wait_in_sync

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

ONE = 3
RESTART_LIMIT_S = 90

Ask = Callable[[BrokerClusterUnderTest], object]


def rollout_restart(cluster: BrokerClusterUnderTest) -> object:
    name = pod_of(cluster, ONE).removesuffix("-0")
    return cluster.kubectl("rollout", "restart", f"statefulset/{name}")


def annotate_stateful_set(cluster: BrokerClusterUnderTest) -> object:
    name = pod_of(cluster, ONE).removesuffix("-0")
    return cluster.kubectl("annotate", "sts", name, f"{labels.MANUAL_ROLLING_UPDATE}=true")


def annotate_pod(cluster: BrokerClusterUnderTest) -> object:
    pod = pod_of(cluster, ONE)
    return cluster.kubectl("annotate", "pod", pod, f"{labels.MANUAL_ROLLING_UPDATE}=true")


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (rollout_restart, "RolloutRestart"),
        (annotate_stateful_set, "ManualRollingUpdate"),
        (annotate_pod, "ManualRollingUpdate"),
    ],
)
def test_a_restart_that_is_asked_for_happens_once(
    cluster: BrokerClusterUnderTest, ask: Ask, reason: str
) -> None:
    wait_in_sync(cluster)
    before, pod = cluster.broker_pods(), pod_of(cluster, ONE)
    ask(cluster)

    def is_restarted() -> bool:
        now = cluster.broker_pods()
        assert pod in now, "it is being made again"
        assert now[pod].uid != before[pod].uid, "it is still the same pod"
        return True

    took_s = eventually("the broker is restarted", is_restarted, RESTART_LIMIT_S)
    cluster.wait_cluster_ready()
    took_s += wait_in_sync(cluster)
    measured.note(f"{reason}: in every ISR again after {took_s:.1f} s")
    after = cluster.broker_pods()
    assert {name for name in before if after[name] != before[name]} == {pod}
    events = cluster.kubectl.get("events", "--field-selector", f"involvedObject.name={pod}")
    assert reason in {one["reason"] for one in events["items"]}
    left = cluster.kubectl.get("sts", pod.removesuffix("-0"))["metadata"]["annotations"]
    assert labels.MANUAL_ROLLING_UPDATE not in left
