"""Kafka's own producer takes the second generation of transactions (KIP-890)."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from chiplog_wire.protocol.apis import ApiKey
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import create_topic
from e2e.kafka.connection import Connection
from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

COUNT = 100
LIMIT_S = 20.0


def epoch_of(bootstrap: str, transactional_id: str) -> int:
    """The epoch of the transactional id's producer."""
    host, port = bootstrap.split(":")
    with Connection((host, int(port)), LIMIT_S) as connection:
        values = {"transactional_ids": [transactional_id]}
        (state,) = connection.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, values).transaction_states
    assert state.error_code == 0
    return int(state.producer_epoch)


def committed(bootstrap: str, topic: str, partitions: int) -> int:
    """The number of records that a consumer gets which reads committed ones."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        **QUIET,
    }
    consumer, found, ended = Consumer(settings), 0, 0
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in range(partitions)])
    while ended < partitions:
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"{found} records, and then nothing"
        if message.error() is None:
            found += 1
        else:
            ended += 1
    consumer.close()
    return found


def test_every_transaction_raises_the_epoch(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "transactions", 3)
    printed = run_tool(
        "kafka-producer-perf-test.sh",
        *("--topic", "transactions", "--num-records", str(COUNT), "--record-size", "100"),
        *("--throughput", "50", "--transactional-id", "java", "--transaction-duration-ms", "100"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}"),
    )
    assert f"{COUNT} records sent" in printed
    assert committed(broker.bootstrap, "transactions", 3) == COUNT
    # In the first generation it would be 0 still. On a slow machine there are few transactions.
    assert epoch_of(broker.bootstrap, "java") > 0
