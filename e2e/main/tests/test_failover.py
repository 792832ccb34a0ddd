"""The container of a leader is killed by force: how soon a producer with acks=all goes on.

The same measurement is made of Apache Kafka with three brokers in the long form, by the same
client on the same machine, and printed beside.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from e2e import measured
from e2e.clients.failover import Failover, measure_failover
from e2e.clients.topics import create_topic
from e2e.kafka.cluster import SIZE, KafkaCluster
from e2e.kafka.members import leader_of as leader_in
from e2e.kafka.members import wait_whole
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.replicas import kill, leader_of, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

KILLS = 30 if is_full() else 3
# Each kill, the container's return, and copying what it missed.
KILL_LIMIT_S = 120

pytestmark = [pytest.mark.main, pytest.mark.timeout(300 + KILLS * KILL_LIMIT_S)]

PARTITIONS = 3
P50_LIMIT_S, WORST_LIMIT_S = 1.0, 3.0
# A hang guard. The figure beside its limit is what is printed.
HANG_LIMIT_S = 5 * WORST_LIMIT_S
DELIVERY_LIMIT_MS = int(2_000 * HANG_LIMIT_S)
"""A failover that is within the guard must not fail because a record was given up."""
SAFE = {"min.insync.replicas": 2}


def show(title: str, found: list[Failover], limits: str) -> None:
    """The figures of one system."""
    times_s = sorted(one.seconds for one in found)
    measured.note(
        f"{title}: leader killed {len(found)} times, first acknowledged record after "
        f"p50 {median(times_s):.2f} s, worst {times_s[-1]:.2f} s{limits}"
    )


def check(found: Failover) -> None:
    assert not found.lost, f"{len(found.lost)} of {len(found.acknowledged)} are lost"
    assert not found.refused, found.refused[:3]


@pytest.mark.usefixtures("faults")
def test_a_killed_leader_has_a_successor(
    cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic
) -> None:
    topic = new_topic("failover", PARTITIONS, replicas=3, config=SAFE)
    beside = new_topic("failover-beside", PARTITIONS, replicas=3, config=SAFE)
    operator.wait_whole()
    bootstrap, found = cluster.bootstrap, []
    with Traffic(bootstrap, beside, PARTITIONS, DELIVERY_LIMIT_MS) as traffic:
        for number in range(KILLS):
            wait_in_sync(cluster)
            partition = number % PARTITIONS
            leader = leader_of(cluster, topic, partition)
            one = measure_failover(bootstrap, topic, partition, partial(kill, cluster, leader))
            check(one)
            print(f"kill {number + 1}, of broker {leader}: {one.seconds:.2f} s")
            found.append(one)
        wait_in_sync(cluster)
    show("Chiplog", found, f" (limits {P50_LIMIT_S:.0f} s and {WORST_LIMIT_S:.0f} s)")
    assert max(one.seconds for one in found) < HANG_LIMIT_S
    # An idempotent producer beside them: nothing lost, nothing twice.
    traffic.check_records()


@pytest.mark.skipif(not is_full(), reason="the long form measures Apache Kafka beside ours")
def test_apache_kafka_beside(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path) as kafka:
        create_topic(
            kafka.bootstrap, "failover", PARTITIONS, {"min.insync.replicas": "2"}, replicas=SIZE
        )
        found = [measured_kill(kafka, number % PARTITIONS) for number in range(KILLS)]
    show("Apache Kafka 4.3.1", found, "")


def measured_kill(kafka: KafkaCluster, partition: int) -> Failover:
    wait_whole(kafka, SIZE, replicas=SIZE)
    leader = leader_in(kafka, "failover", partition)
    end: Callable[[], object] = partial(kafka.kill, leader)
    found = measure_failover(kafka.bootstrap, "failover", partition, end)
    kafka.start_again(leader)
    return found
