"""A consumer that names its zone reads from the replica there, and gets what everybody gets."""

import pytest

from e2e import measured
from e2e.clients.by_java import JavaConsole
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Landed, Record
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import leader_of, pod_of
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

RECORDS = 300
METRICS = "http://127.0.0.1:9404/metrics"
READ = "chiplog_broker_follower_bytesout_total"
SETTLE_LIMIT_S = 30


def zones(cluster: BrokerClusterUnderTest) -> dict[int, str]:
    """Broker -> the zone that the operator found it in."""
    return {one["spec"]["brokerId"]: one["spec"].get("rack", "") for one in cluster.own("brk")}


def read_as_follower(cluster: BrokerClusterUnderTest, broker_id: int, topic: str) -> float:
    """Bytes of a topic that consumers got from this broker while another one led."""
    script = f"import urllib.request as u; print(u.urlopen({METRICS!r}).read().decode())"
    pod = pod_of(cluster, broker_id)
    wanted = f'{READ}{{topic="{topic}"}} '
    for line in cluster.kubectl.execute(pod, "python3", "-c", script).splitlines():
        if line.startswith(wanted):
            return float(line.removeprefix(wanted))
    return 0.0


@pytest.mark.parametrize("client", [Librdkafka, JavaConsole])
def test_consumers_read_in_their_zone(
    cluster: BrokerClusterUnderTest,
    new_topic: NewTopic,
    client: type[Librdkafka] | type[JavaConsole],
) -> None:
    where = zones(cluster)
    assert len(set(where.values())) == len(where) == 3, where
    topic = new_topic(f"near-{client.name}", replicas=3, config={"min.insync.replicas": 2})
    records = [Record(b"%08d" % number) for number in range(RECORDS)]
    Librdkafka().produce(cluster.bootstrap, topic, records)
    leader = leader_of(cluster, topic, 0)
    follower = min(set(where) - {leader})
    stored = wait_stored(cluster, topic, leader, follower)

    def read(zone: str) -> list[Landed]:
        return client().consume(cluster.bootstrap, topic, 0, RECORDS, rack=zone)

    expected = [Landed(0, offset, one) for offset, one in enumerate(records)]
    assert read(where[follower]) == expected
    got = {one: read_as_follower(cluster, one, topic) for one in where}
    measured.note(f"{client.name} in {where[follower]} of {stored} bytes: {got}; {leader} leads")
    assert got[follower] >= stored
    assert [got[one] for one in where if one != follower] == [0, 0]
    # In the leader's zone, in none, and in one without brokers the leader serves.
    for zone in (where[leader], "", "zone-of-nobody"):
        assert read(zone) == expected
    assert {one: read_as_follower(cluster, one, topic) for one in where} == got


def wait_stored(cluster: BrokerClusterUnderTest, topic: str, leader: int, follower: int) -> int:
    """The bytes of the topic on the follower, when they are as many as on its leader."""

    def size(broker_id: int) -> int:
        return sum(cluster.segments(pod_of(cluster, broker_id), topic, 0).values())

    def equal() -> bool:
        found = size(follower), size(leader)
        assert found[0] == found[1] > 0, found
        return True

    eventually(f"broker {follower} has all of {topic}", equal, SETTLE_LIMIT_S)
    return size(follower)
