"""A leader that hangs, or is cut off from the cluster, is replaced, and acknowledges no more.

What it is asked over connections that were open before is where a design without fencing in the
request path goes wrong: the old leader wakes, knows of no other, and has the client before it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from e2e import measured
from e2e.cluster import containers, cut, processes
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.open_connection import OpenConnection
from e2e.main.replicas import leader_of, pod_of, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(400), pytest.mark.usefixtures("faults")]

LIMIT_S = 8
HANG_LIMIT_S = 5 * LIMIT_S
PARTITIONS = 3
PLAIN_PORT = 9092
CONNECTIONS = 3
# What a client has asked the old leader it learns of when that one answers or ends.
PATIENCE_MS = 60_000


@contextmanager
def frozen(pod: Manifest) -> Iterator[None]:
    """Every process of the pod is stopped, as in a pause of its virtual machine."""
    stopped = containers.in_pod(pod["metadata"]["uid"])
    assert stopped, "the pod has no process"
    with processes.paused(stopped):
        yield
        assert all(one.alive for one in stopped), "the kubelet ended it meanwhile"


def cut_off(pod: Manifest) -> AbstractContextManager[None]:
    """Neither the API server nor another pod, but clients of this machine still reach it."""
    return cut.off(pod["status"]["podIP"])


@pytest.mark.parametrize("disable", [frozen, cut_off], ids=["frozen", "cut-off"])
def test_a_successor_leads_and_the_old_one_acknowledges_nothing(
    cluster: BrokerClusterUnderTest,
    new_topic: NewTopic,
    disable: Callable[[Manifest], AbstractContextManager[None]],
) -> None:
    topic = new_topic(f"old-leader-{disable.__name__.replace('_', '-')}", PARTITIONS, replicas=3)
    wait_in_sync(cluster)
    leader = leader_of(cluster, topic, 0)
    pod = cluster.kubectl.get("pod", pod_of(cluster, leader))
    before = cluster.broker_pods()[pod_of(cluster, leader)]
    address = (pod["status"]["podIP"], PLAIN_PORT)

    def succeeded() -> bool:
        return leader_of(cluster, topic, 0) != leader

    answers: list[int | None] = []
    with (
        Traffic(cluster.bootstrap, topic, PARTITIONS, PATIENCE_MS) as traffic,
        ExitStack() as opened,
    ):
        open_ones = [
            opened.enter_context(OpenConnection(address, topic, 0)) for _ in range(CONNECTIONS)
        ]
        assert all(one.is_acknowledged(b"before") for one in open_ones)
        with disable(pod):
            since_s = time.monotonic()
            # One is asked at once: its answer may wait until the leader wakes.
            open_ones[0].send(b"zombie at once")
            eventually("another broker leads", succeeded, HANG_LIMIT_S)
            took_s = time.monotonic() - since_s
            open_ones[1].send(b"zombie before it wakes")
            if disable is not frozen:
                answers += [one.error(10) for one in open_ones[:2]]
        if disable is frozen:
            answers += [one.error(10) for one in open_ones[:2]]
        assert not open_ones[2].is_acknowledged(b"zombie awake")
        wait_in_sync(cluster)
    measured.note(
        f"leader {disable.__name__}: another leads after {took_s:.1f} s (limit {LIMIT_S} s); the "
        f"old one answers acks=all with {answers}"
    )
    assert 0 not in answers, "the old leader acknowledged a record"
    assert cluster.broker_pods()[pod_of(cluster, leader)] == before, "it was restarted"
    traffic_records_only(traffic)


def traffic_records_only(traffic: Traffic) -> None:
    """All records of the clients that find their leader; those of the old one's may be there."""
    for value in [one for one in traffic.noticed.read if one.startswith((b"zombie", b"before"))]:
        del traffic.noticed.read[value]
    traffic.check_records()
