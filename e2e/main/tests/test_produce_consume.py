"""From outside, any client finds three brokers and six partitions, writes, and reads."""

from collections import Counter

import pytest

from e2e.clients.client import Client, Record
from e2e.clients.clients import CLIENTS
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

PARTITIONS = 6
RECORDS_EACH = 120
KEYS = 24


BACK_LIMIT_S = 120
"""After the cluster was at rest for half a minute leaderships go back to where they belong."""


def test_kcat_lists_brokers_and_leaders_spread_evenly(cluster: BrokerClusterUnderTest) -> None:
    def are_spread() -> bool:
        answer = client_metadata(cluster.bootstrap)
        assert sorted(answer.brokers) == [1, 2, 3]
        assert answer.is_whole("orders", PARTITIONS), answer
        assert answer.led("orders") == {1: 2, 2: 2, 3: 2}
        # Clients' metadata is what the map says.
        leaders = {
            one["partition"]: int(one["leader"].partition("@")[0])
            for one in cluster.partitions_of("orders")
        }
        assert answer.leaders["orders"] == leaders
        return True

    # Other tests restart brokers.
    eventually("leaders are spread evenly", are_spread, BACK_LIMIT_S)


def test_brokers_are_in_three_zones(cluster: BrokerClusterUnderTest) -> None:
    racks = {one["spec"]["rack"] for one in cluster.own("brk")}
    assert racks == {"zone-a", "zone-b", "zone-c"}


def records_of(client: Client) -> list[Record]:
    return [
        Record(f"{client.name} {n:04}".encode(), f"{client.name}-{n % KEYS}".encode())
        for n in range(RECORDS_EACH)
    ]


def test_all_clients_write_and_read_what_all_wrote(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("all-clients", PARTITIONS)
    bootstrap = cluster.bootstrap
    written: list[Record] = []
    for client in CLIENTS:
        client.produce(bootstrap, topic, records_of(client))
        written += records_of(client)

    ends = end_offsets(bootstrap, topic, range(PARTITIONS))
    assert sum(ends) == len(written)
    assert sum(end > 0 for end in ends) > 1, "keys fall into more than one partition"
    expected = Counter((one.key, one.value) for one in written)
    for client in CLIENTS:
        found = [
            landed
            for partition, end in enumerate(ends)
            if end
            for landed in client.consume(bootstrap, topic, partition, end)
        ]
        assert Counter((one.record.key, one.record.value) for one in found) == expected, client.name
        for key in {one.record.key for one in found}:
            of_key = [one.record.value for one in found if one.record.key == key]
            assert of_key == sorted(of_key, key=lambda v: v or b""), f"{client.name}: order"
