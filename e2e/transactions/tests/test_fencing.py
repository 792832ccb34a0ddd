"""One producer at a time has a transactional id, and its transaction may not stay open for long."""

import pytest

from e2e.kafka.members import wait_for
from e2e.transactions.client import (
    LIMIT_S,
    FencedError,
    Isolation,
    Producer,
    TransactionalClient,
    TransactionFailedError,
)
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
JAVA = CLIENTS[0]
TIMEOUT_MS = 1_000


@EACH
def test_a_second_producer_fences_the_first(
    cluster: ThreeBrokers, new_topic: NewTopic, client: TransactionalClient
) -> None:
    topic = new_topic(1)
    with client.producer(cluster.bootstrap, topic) as first:
        first.begin()
        first.send(topic, 0, [b"fenced"])
        first.flush()
        with client.producer(cluster.bootstrap, topic) as second:
            second.begin()
            second.send(topic, 0, [b"second"])
            with pytest.raises(FencedError):
                first.commit()
            second.commit()
    found = client.read(cluster.bootstrap, topic, 0, 1, Isolation.COMMITTED)
    assert found == [b"second"]
    found = client.read(cluster.bootstrap, topic, 0, 2, Isolation.UNCOMMITTED)
    assert found == [b"fenced", b"second"]


@EACH
def test_a_transaction_that_times_out_is_aborted(
    cluster: ThreeBrokers, new_topic: NewTopic, client: TransactionalClient
) -> None:
    topic = new_topic(1)
    with client.producer(cluster.bootstrap, topic, TIMEOUT_MS) as producer:
        time_out(cluster, producer, topic)
        with pytest.raises(TransactionFailedError):
            producer.commit()
    with client.producer(cluster.bootstrap, topic) as recovered:
        recovered.begin()
        recovered.send(topic, 0, [b"recovered"])
        recovered.commit()
    found = client.read(cluster.bootstrap, topic, 0, 1, Isolation.COMMITTED)
    assert found == [b"recovered"]


def test_in_the_second_generation_the_producer_aborts_and_continues(
    cluster: ThreeBrokers, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with JAVA.producer(cluster.bootstrap, topic, TIMEOUT_MS) as producer:
        time_out(cluster, producer, topic)
        producer.abort()
        producer.begin()
        producer.send(topic, 0, [b"continued"])
        producer.commit()
    found = JAVA.read(cluster.bootstrap, topic, 0, 1, Isolation.COMMITTED)
    assert found == [b"continued"]


def time_out(cluster: ThreeBrokers, producer: Producer, topic: str) -> None:
    """Begin a transaction and wait until its coordinator has aborted it.

    The transactional id is the topic's name.
    """
    producer.begin()
    producer.send(topic, 0, [b"late"])
    wait_for(
        "the coordinator has aborted it",
        lambda: cluster.state_of(topic) == "CompleteAbort",
        LIMIT_S,
    )
