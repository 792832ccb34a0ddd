"""A broker's volume is broken: claim and pod are deleted as the guide says, under load."""

import time
from collections import Counter

import pytest

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import stored
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import pod_of, wait_in_sync
from e2e.main.tests.conftest import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(400)]

LOST = 2
PARTITIONS = 3
RECORDS = [Record(f"before {number:04}".encode()) for number in range(1_000)]
GONE_LIMIT_S = 60


def test_a_lost_volume_is_filled_from_the_others(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("volume-lost", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    Librdkafka().produce(cluster.bootstrap, topic, RECORDS)
    wait_in_sync(cluster)
    pod = pod_of(cluster, LOST)
    claim = f"data-{pod}"
    before, session = cluster.uids("pvc"), cluster.reigns()[f"broker {cluster.name}-{LOST}"][0]

    def is_another() -> bool:
        now = cluster.uids("pvc")
        assert now.get(claim, before[claim]) != before[claim], "the claim is still the first one"
        assert {name: now[name] for name in before if name != claim} == {
            name: uid for name, uid in before.items() if name != claim
        }
        return True

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        began_s = time.monotonic()
        cluster.kubectl("delete", "pvc", claim, "--wait=false")
        cluster.kubectl("delete", "pod", pod)
        eventually("there is another claim", is_another, GONE_LIMIT_S)
        cluster.wait_cluster_ready()
        wait_in_sync(cluster)
        whole_s = time.monotonic() - began_s
    noticed = traffic.noticed
    measured.note(
        f"volume of broker {LOST} lost under load: in every ISR again {whole_s:.1f} s after "
        f"kubectl delete; {traffic.sent} records sent, {len(noticed.errors)} refused"
    )
    assert not noticed.errors, noticed.errors[:5]
    assert len(noticed.acknowledged) == traffic.sent
    found = [one for part in stored(cluster.bootstrap, topic, range(PARTITIONS)) for one in part]
    wanted = [*(one.value for one in RECORDS), *noticed.acknowledged]
    assert Counter(one.record.value for one in found) == Counter(wanted)
    assert int(str(cluster.reigns()[f"broker {cluster.name}-{LOST}"][0])) > int(str(session))
    for partition in range(PARTITIONS):
        sizes = [cluster.segments(pod_of(cluster, one), topic, partition) for one in (1, 2, 3)]
        assert sizes[0] == sizes[1] == sizes[2], "every replica holds the same bytes"
