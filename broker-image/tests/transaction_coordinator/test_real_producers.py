"""Kafka's clients commit and abort transactions: they share no code with us."""

import asyncio
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.transaction_coordinator.transactions_kit import running

if TYPE_CHECKING:
    from tests.conftest import Kit

LIMIT_S = 20.0
OUTCOMES = (True, False, True)
"""Of the transactions: whether each is committed."""


def librdkafka(address: str) -> None:
    """Three transactions, and a second producer that fences the first one."""
    from confluent_kafka import KafkaException, Producer, TopicPartition  # noqa: PLC0415

    producers = []
    for _ in range(2):
        producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
        producer.init_transactions(LIMIT_S)
        producers.append(producer)
    first, second = producers
    # Offsets in transactions: those of an aborted one do not count.
    consumer = new_consumer(address)
    for offset, is_commit in ((5, True), (7, False)):
        second.begin_transaction()
        positions = [TopicPartition("orders", 0, offset)]
        metadata = consumer.consumer_group_metadata()
        second.send_offsets_to_transaction(positions, metadata, LIMIT_S)
        (second.commit_transaction if is_commit else second.abort_transaction)(LIMIT_S)
    (committed,) = consumer.committed([TopicPartition("orders", 0)], LIMIT_S)
    assert committed.offset == 5
    consumer.close()
    for number, is_commit in enumerate(OUTCOMES):
        second.begin_transaction()
        second.produce("orders", f"{number}".encode())
        second.flush(LIMIT_S)
        (second.commit_transaction if is_commit else second.abort_transaction)(LIMIT_S)
    first.begin_transaction()
    first.produce("orders", b"fenced")
    with pytest.raises(KafkaException):
        first.commit_transaction(LIMIT_S)


def kafka_python(address: str) -> None:
    """Three transactions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import (  # type: ignore[import-untyped]  # noqa: PLC0415
            KafkaProducer,
            OffsetAndMetadata,
            TopicPartition,
        )
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    at = TopicPartition("orders", 0)
    producer.send_offsets_to_transaction({at: OffsetAndMetadata(3, "", -1)}, "g")
    producer.commit_transaction()
    for number, is_commit in enumerate(OUTCOMES):
        producer.begin_transaction()
        producer.send("orders", f"{number}".encode()).get(LIMIT_S)
        (producer.commit_transaction if is_commit else producer.abort_transaction)()
    producer.close()


def new_consumer(address: str) -> Any:
    """A consumer of librdkafka that reads committed records."""
    from confluent_kafka import Consumer  # noqa: PLC0415

    settings = {
        "bootstrap.servers": address,
        "group.id": "g",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    return Consumer(settings)


def read_committed(address: str) -> list[bytes | None]:
    """The records that librdkafka shows a consumer which reads committed ones."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition  # noqa: PLC0415

    consumer, found = new_consumer(address), []
    consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
    while (message := consumer.poll(LIMIT_S)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("produce", [librdkafka, kafka_python])
def test_transactions_of_real_producers(kit: "Kit", produce: Callable[[str], Any]) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            host, port = kit.broker.addresses["PLAINTEXT"]
            await asyncio.to_thread(produce, f"{host}:{port}")
            assert await asyncio.to_thread(read_committed, f"{host}:{port}") == [b"0", b"2"]

    kit.run(scenario)
