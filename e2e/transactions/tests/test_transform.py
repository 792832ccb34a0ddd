"""A program that reads, transforms and writes: each input once in the output, whatever aborts."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.transactions.client import (
    LIMIT_S,
    MAX_POLL_RECORDS,
    Isolation,
    TransactionalClient,
)
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

PARTITIONS, RECORDS = 2, 3 * MAX_POLL_RECORDS
"""Records of each partition."""


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_every_input_is_transformed_once(
    cluster: ThreeBrokers, new_topic: NewTopic, client: TransactionalClient
) -> None:
    input_, output = new_topic(PARTITIONS), new_topic(PARTITIONS)
    group = f"{client.name}-transforms"
    for partition in range(PARTITIONS):
        values = [Record(b"%d" % number) for number in range(RECORDS)]
        Librdkafka().produce(cluster.bootstrap, input_, values, partition=partition)
    committed, ended = 0, {True: 0, False: 0}
    with (
        client.producer(cluster.bootstrap, group) as producer,
        client.source(cluster.bootstrap, group, input_) as source,
    ):
        while committed < PARTITIONS * RECORDS:
            if not (found := source.poll()):
                continue
            commits = sum(ended.values()) % 3 != 1
            producer.begin()
            for one in found:
                producer.send(output, one.partition, [b"transformed %b" % one.value])
            producer.send_offsets(source)
            if commits:
                producer.commit()
                committed += len(found)
            else:
                producer.abort()
                source.rewind()
            ended[commits] += 1
    assert ended[True] > 1, ended
    assert ended[False] > 1, ended
    expected = [b"transformed %d" % number for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        found_values = client.read(
            cluster.bootstrap, output, partition, RECORDS, Isolation.COMMITTED
        )
        assert found_values == expected
    offsets = cluster.committed_offsets(group, input_, range(PARTITIONS))
    assert offsets == [RECORDS] * PARTITIONS


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_an_offset_of_a_group_without_members_counts_when_it_is_committed(
    cluster: ThreeBrokers, new_topic: NewTopic, client: TransactionalClient
) -> None:
    topic, group = new_topic(PARTITIONS), f"{client.name}-without-members"
    with client.producer(cluster.bootstrap, group) as producer:
        for offset, is_commit in ((5, True), (7, False)):
            producer.begin()
            producer.send(topic, 0, [b"any"])
            producer.send_offset(group, topic, 0, offset, "why")
            if is_commit:
                producer.commit()
            else:
                producer.abort()
    asked = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])],
        require_stable=True,
        request_timeout=LIMIT_S,
    )
    (found,) = asked[group].result(LIMIT_S).topic_partitions
    assert found.offset == 5
