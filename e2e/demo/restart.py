"""A broker's pod deleted, and its successor on the same volume."""

import time

from e2e.cluster.console import console, step
from e2e.cluster.kubectl import eventually
from e2e.demo.topic import PARTITIONS, TOPIC
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import told

BROKER_ID = 2
LIMIT_S = 90


def delete_pod(cluster: BrokerClusterUnderTest) -> None:
    """Delete broker 2's pod and wait until another one leads the same partitions."""
    pod = f"{cluster.name}-broker-{BROKER_ID}-0"
    bootstrap = cluster.bootstrap
    before, leaders = cluster.broker_pods()[pod], told(bootstrap).leaders[TOPIC]
    started_s = time.monotonic()

    def serves_again() -> bool:
        after = cluster.broker_pods()
        assert after[pod].uid != before.uid, f"{pod} is still the old one"
        answer = told(bootstrap)
        assert answer.is_whole(TOPIC, PARTITIONS), answer
        return answer.leaders[TOPIC] == leaders

    with step(f"kubectl delete pod {pod}"):
        cluster.kubectl("delete", "pod", pod, "--wait=false")
        eventually(f"{pod} serves again", serves_again, LIMIT_S)
    took_s = time.monotonic() - started_s
    uid = cluster.broker_pods()[pod].uid
    console.print(f"another pod ({before.uid[:8]} → {uid[:8]}) leads again after {took_s:.1f} s")
