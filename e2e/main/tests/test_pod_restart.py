"""A broker's pod is deleted: it comes back, and what it held is there."""

import time

import pytest

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

PARTITIONS = 3
RECORDS = [Record(f"kept {n:03}".encode()) for n in range(100)]
BROKER_ID = 2
SERVES_LIMIT_S = 60


def test_a_deleted_pod_returns_with_its_data(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic, bootstrap = new_topic("kept", PARTITIONS), cluster.bootstrap
    (partition,) = [
        number
        for number, leader in client_metadata(bootstrap).leaders[topic].items()
        if leader == BROKER_ID
    ]
    Librdkafka().produce(bootstrap, topic, RECORDS, partition=partition)
    pod = f"{cluster.name}-broker-{BROKER_ID}-0"
    before, epochs = cluster.broker_pods(), cluster.epochs()

    started_s = time.monotonic()
    cluster.kubectl("delete", "pod", pod, "--wait=false")

    def another_one_serves() -> bool:
        assert cluster.broker_pods()[pod].uid != before[pod].uid
        answer = client_metadata(bootstrap)
        assert answer.is_whole(topic, PARTITIONS), answer
        return answer.leaders[topic][partition] == BROKER_ID

    eventually(f"{pod} serves again", another_one_serves, SERVES_LIMIT_S)
    measured.note(
        f"{pod} serves again {time.monotonic() - started_s:.1f} s after kubectl delete pod"
    )

    found = Librdkafka().consume(bootstrap, topic, partition, len(RECORDS))
    assert [one.record for one in found] == RECORDS
    Librdkafka().produce(bootstrap, topic, [Record(b"one more")], partition=partition)
    assert end_offsets(bootstrap, topic, [partition]) == [len(RECORDS) + 1]

    cluster.wait_cluster_ready()
    after = cluster.epochs()
    broker = f"broker {cluster.name}-{BROKER_ID}"
    assert after[broker][0] == int(str(epochs[broker][0])) + 1, "a new process, a new session"
    others = {name for name in before if name != pod}
    assert {name: cluster.broker_pods()[name] for name in others} == {
        name: before[name] for name in others
    }
