"""What a client commits, every client reads; what it aborts, none does."""

import pytest
from confluent_kafka import IsolationLevel

from e2e.clients.topics import create_topic
from e2e.loopback.cluster import SIZE
from e2e.transactions.client import Isolation, TransactionalClient
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
PARTITIONS = 2
FIRST, ABORTED, LAST = ([b"%b-%d" % (name, n) for n in range(5)] for name in (b"a", b"b", b"c"))
MARKER = 1
"""Offsets that the end of a transaction takes in each of its partitions."""


@pytest.fixture(scope="module")
def written(cluster: ThreeBrokers) -> dict[str, str]:
    """Client -> a topic that it wrote: a transaction committed, one aborted, one committed."""
    topics = {}
    for client in CLIENTS:
        topic = topics[client.name] = f"written-by-{client.name}"
        create_topic(cluster.bootstrap, topic, PARTITIONS, replicas=SIZE)
        with client.producer(cluster.bootstrap, topic) as producer:
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, partition, FIRST)
            producer.commit()
            producer.begin()
            producer.send(topic, 0, ABORTED)
            producer.flush()
            check_open(cluster, client, topic)
            producer.abort()
            producer.begin()
            producer.send(topic, 0, LAST)
            producer.commit()
    return topics


def check_open(cluster: ThreeBrokers, client: TransactionalClient, topic: str) -> None:
    """The second transaction is open: only a consumer that reads anything reads it."""
    expected = FIRST + ABORTED
    found = client.read(cluster.bootstrap, topic, 0, len(expected), Isolation.UNCOMMITTED)
    assert found == expected
    stable = len(FIRST) + MARKER
    assert cluster.end(topic, 0, IsolationLevel.READ_COMMITTED) == stable
    assert cluster.end(topic, 0, IsolationLevel.READ_UNCOMMITTED) == stable + len(ABORTED)


@EACH
@pytest.mark.parametrize("writer", [one.name for one in CLIENTS])
def test_committed_records_are_read_and_aborted_ones_are_not(
    cluster: ThreeBrokers, written: dict[str, str], writer: str, client: TransactionalClient
) -> None:
    topic, bootstrap = written[writer], cluster.bootstrap
    expected = FIRST + LAST
    assert client.read(bootstrap, topic, 0, len(expected), Isolation.COMMITTED) == expected
    assert client.read(bootstrap, topic, 1, len(FIRST), Isolation.COMMITTED) == FIRST
    everything = FIRST + ABORTED + LAST
    assert client.read(bootstrap, topic, 0, len(everything), Isolation.UNCOMMITTED) == everything
