"""Two brokers run on each node, and a whole node stops: no partition loses two replicas with it."""

import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import yaml

from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.cluster.target import Target
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.replicas import kill, places, pod_of, wait_in_sync
from e2e.main.setting_up import cluster_in, make_topic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(400), LONG_FORM]

NAMESPACE = "e2e-nodes"
TOPIC = "apart"
BROKERS, PARTITIONS, REPLICAS, MIN_ISR = 6, 12, 3, 2
LIMIT_S = 60
DOWN_S = 5
GAP_LIMIT_S = 15.0
"""A node that stops reports no process as ended: brokers are deposed when their Leases expire."""


@pytest.fixture(scope="module")
def crowded(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """Six brokers on the three nodes, which are in no known racks."""
    cluster, topic = yaml.safe_load_all(example({}))
    cluster["spec"]["replicas"] = BROKERS
    del cluster["spec"]["rack"]
    manifests = yaml.safe_dump_all([cluster, topic])
    with cluster_in(target, NAMESPACE, manifests, operator=operator) as one:
        yield one


def brokers_by_node(cluster: BrokerClusterUnderTest) -> dict[str, set[int]]:
    """The brokers on each node, as the Broker objects have them; the pods must agree."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number in range(1, BROKERS + 1):
        node = cluster.kubectl.get("brk", f"{cluster.name}-{number}")["spec"]["node"]
        assert cluster.kubectl.get("pod", pod_of(cluster, number))["spec"]["nodeName"] == node
        found[node].add(number)
    return dict(found)


def test_a_node_with_several_brokers_takes_one_replica_of_each_partition(
    crowded: BrokerClusterUnderTest,
) -> None:
    config = {"min.insync.replicas": MIN_ISR}
    make_topic(crowded, TOPIC, PARTITIONS, replicas=REPLICAS, config=config)
    by_node = brokers_by_node(crowded)
    node, lost = max(by_node.items(), key=lambda one: (len(one[1]), one[0]))
    assert len(by_node) == 3, by_node
    assert len(lost) >= BROKERS / 3, by_node
    together = [len(lost & set(place.replicas)) for place in places(crowded, TOPIC)]
    assert max(together) == 1, places(crowded, TOPIC)
    wait_in_sync(crowded)

    def is_served() -> bool:
        for place in places(crowded, TOPIC):
            assert place.leader not in {None, *lost}, place
            assert len(set(place.in_sync) - lost) >= MIN_ISR, place
        return True

    with Traffic(crowded.bootstrap, TOPIC, PARTITIONS, delivery_limit_ms=30_000) as traffic:
        time.sleep(1)
        stopped_s = time.monotonic()
        try:
            with ThreadPoolExecutor() as pool:  # all at the same moment, like those of a node
                list(pool.map(partial(kill, crowded), lost))
            crowded.kubectl("cordon", node)
            pods = [pod_of(crowded, number) for number in sorted(lost)]
            crowded.kubectl("delete", "pod", *pods, "--force", "--grace-period=0")
            eventually("other nodes serve", is_served, LIMIT_S, every_s=0.1)
            took_s = time.monotonic() - stopped_s
            acknowledged = len(traffic.noticed.acknowledged)
            time.sleep(DOWN_S)
            acknowledged = len(traffic.noticed.acknowledged) - acknowledged
        finally:
            crowded.kubectl("uncordon", node)
        whole_s = crowded.wait_cluster_ready(120)
        whole_s += wait_in_sync(crowded)
    gaps_s = traffic.noticed.longest_gaps_s()
    gap_s = max(gaps_s.values())
    shown = {name: sorted(numbers) for name, numbers in sorted(by_node.items())}
    measured.note(
        f"brokers by node {shown}; {node} stops: {PARTITIONS} partitions lose one replica of "
        f"{REPLICAS} each, others lead them after {took_s:.1f} s, {acknowledged} records with "
        f"acks=all in the next {DOWN_S} s without the node, longest gap {gap_s:.2f} s "
        f"(limit {GAP_LIMIT_S:.0f} s), all in sync {whole_s:.1f} s after the node's return"
    )
    traffic.check_records()
    assert set(gaps_s) == set(range(PARTITIONS))
    assert gap_s < GAP_LIMIT_S
    assert acknowledged > 0
