"""Moves of replicas take as long as their throttle says, and other topics hardly notice."""

import time

import pytest

from e2e import measured
from e2e.change.kafkas_tool import plan_of, reassign, throttled_rates, throttled_replicas
from e2e.change.moved import fill, wait_replicas
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(300)]

MIB = 1024 * 1024
SIZE_BYTES = (30 if is_full() else 8) * MIB
RATE = MIB
BURST_S = 1.0
# The last answer may be larger than what is left of the limit; nothing waits after it.
LAST_ANSWER_S = 1.0
LEAST_S = SIZE_BYTES / RATE - BURST_S - LAST_ANSWER_S
# A percentile of a few seconds says little: the move's first second alone may decide it.
BEFORE_S = 25.0 if is_full() else 5.0
RECORDS_PER_S = 2_000 if is_full() else 100
P99_LIMIT = 2.0
P99_FLOOR_MS = 50
"""What a busy machine alone may cause."""


def p99_ms(traffic: Traffic) -> float:
    """The 99th percentile of the time to an acknowledgement."""
    waits = sorted(traffic.noticed.acknowledged.values())
    return waits[int(len(waits) * 0.99)]


def test_kafkas_tool_throttles_a_move(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("throttled", replicas=1)
    quiet, beside = (new_topic(name, 3, replicas=3) for name in ("quiet", "beside"))
    fill(cluster, topic, SIZE_BYTES)
    (source,) = places(cluster, topic)[0].replicas
    target = source % 3 + 1
    plan = plan_of(topic, {0: [target]})
    with Traffic(cluster.bootstrap, quiet, 3, records_per_s=RECORDS_PER_S) as before:
        until_s = time.monotonic() + BEFORE_S
        while time.monotonic() < until_s:
            # As often as during the move: kubectl takes a good part of a small machine.
            throttled_replicas(cluster, topic)
            time.sleep(0.2)
    began_s = time.monotonic()
    said = reassign(cluster, plan, "--execute", "--throttle", str(RATE))
    assert "Successfully started" in said, said
    # The tool itself takes all of a small machine's processors, so the clients start after it.
    with Traffic(cluster.bootstrap, beside, 3, records_per_s=RECORDS_PER_S) as during:
        assert throttled_replicas(cluster, topic) == {
            "leader.replication.throttled.replicas": f"0:{source}",
            "follower.replication.throttled.replicas": f"0:{target}",
        }
        assert throttled_rates(cluster) == [str(RATE)] * 4
        wait_replicas(cluster, topic, 1)
        took_s = time.monotonic() - began_s
    measured.note(
        f"a move of {SIZE_BYTES // MIB} MiB at {RATE // MIB} MiB/s took {took_s:.1f} s with the "
        f"tool's start (limit at least {LEAST_S:.1f} s)"
    )
    measured.note(
        f"produce p99 of another topic {p99_ms(before):.1f} ms before ({before.sent:,} records) "
        f"and {p99_ms(during):.1f} ms during a throttled move ({during.sent:,} records; limit "
        f"{P99_LIMIT:.0f} times)"
    )
    for traffic in (before, during):
        traffic.check_records()
    assert took_s >= LEAST_S
    assert p99_ms(during) < 5 * P99_LIMIT * max(p99_ms(before), P99_FLOOR_MS)
    assert list(places(cluster, topic)[0].replicas) == [target]
    said = reassign(cluster, plan, "--verify")
    assert "is completed" in said, said
    assert "Clearing topic-level throttles" in said, said

    def are_cleared() -> bool:
        assert not throttled_rates(cluster)
        assert not throttled_replicas(cluster, topic)
        return True

    eventually("the throttles are cleared", are_cleared, 10)


def test_the_cluster_throttles_moves(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("slow", replicas=1)
    fill(cluster, topic, SIZE_BYTES)
    throttle = '{"spec":{"replicationThrottle":%s}}'
    cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", throttle % RATE)
    try:
        began_s = time.monotonic()
        cluster.kubectl("patch", "ct", topic, "--type=merge", "-p", '{"spec":{"replicas":2}}')
        wait_replicas(cluster, topic, 2)
        took_s = time.monotonic() - began_s
    finally:
        cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", throttle % "null")
    measured.note(
        f"a new replica of {SIZE_BYTES // MIB} MiB under spec.replicationThrottle came after "
        f"{took_s:.1f} s (limit at least {LEAST_S:.1f} s)"
    )
    assert took_s >= LEAST_S
