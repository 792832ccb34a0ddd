"""A broker that was away while others were written to: how soon it is in sync again."""

import os
import time

import pytest
from confluent_kafka import Producer

from e2e import measured
from e2e.clients.by_librdkafka import QUIET, must_arrive
from e2e.clients.topics import end_offsets
from e2e.cluster import cut
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places, pod_of, wait_in_sync
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(900), pytest.mark.usefixtures("faults")]

MIB = 1 << 20
COPIED_MIB = 1024 if is_full() else 64
LIMIT_S = 60
OUT_LIMIT_S = 300  # a hang guard: a Lease of 6 s and an election, on a busy machine
PARTITIONS = 6
RECORD_BYTES = 64 * 1024
AWAY = 2


def write(bootstrap: str, topic: str, mib: int) -> None:
    """Random bytes in equal shares to all partitions, every one acknowledged by all in sync."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, **QUIET})
    value = os.urandom(RECORD_BYTES)
    for number in range(mib * MIB // RECORD_BYTES):
        while True:
            try:
                where = number % PARTITIONS
                producer.produce(topic, value, partition=where, on_delivery=must_arrive)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert not producer.flush(300), "records are not acknowledged"


def test_a_broker_copies_what_it_missed(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("missed", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    wait_in_sync(cluster)
    pod = cluster.kubectl.get("pod", pod_of(cluster, AWAY))

    def is_out() -> bool:
        return all(AWAY not in one.in_sync for one in places(cluster, topic))

    with cut.off(pod["status"]["podIP"]):
        eventually(f"broker {AWAY} is out of sync", is_out, OUT_LIMIT_S)
        write(cluster.bootstrap, topic, COPIED_MIB)
    since_s = time.monotonic()
    wait_in_sync(cluster, 5 * LIMIT_S)
    measured.note(
        f"broker {AWAY} back with {COPIED_MIB} MiB to copy: in every ISR after "
        f"{time.monotonic() - since_s:.1f} s (limit {LIMIT_S} s for 1024 MiB)"
    )
    records = COPIED_MIB * MIB // RECORD_BYTES
    assert sum(end_offsets(cluster.bootstrap, topic, range(PARTITIONS))) == records
    held = [sum(cluster.segments(pod_of(cluster, AWAY), topic, n).values()) for n in range(6)]
    assert sum(held) >= COPIED_MIB * MIB, f"on broker {AWAY}: {held}"
