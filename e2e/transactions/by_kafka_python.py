"""kafka-python: the first generation of transactions."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from e2e.clients.by_kafka_python import (
    KafkaConsumer,
    KafkaError,
    KafkaProducer,
    KafkaPython,
    OffsetAndMetadata,
    ProducerFencedError,
    TopicPartition,
)
from e2e.transactions.client import (
    LIMIT_S,
    MAX_POLL_RECORDS,
    TRANSACTION_TIMEOUT_MS,
    Input,
    Isolation,
    Producer,
    Source,
    TransactionalClient,
    errors_of,
    inputs,
)

its_errors = partial(errors_of, KafkaError, ProducerFencedError)
"""Turns the library's errors into those of the interface."""


class KafkaPythonSource(Source):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=Isolation.COMMITTED.value,
            max_poll_records=MAX_POLL_RECORDS,
        )

    def poll(self) -> list[Input]:
        return inputs(self.consumer.poll(timeout_ms=500))

    def rewind(self) -> None:
        for where in self.consumer.assignment():
            self.consumer.seek(where, self.consumer.committed(where) or 0)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonProducer(Producer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self.sent: list[Any] = []
        with its_errors():
            self.producer.init_transactions()

    def begin(self) -> None:
        self.sent = []
        with its_errors():
            self.producer.begin_transaction()

    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        with its_errors():
            self.sent += [self.producer.send(topic, one, partition=partition) for one in values]

    def flush(self) -> None:
        with its_errors():
            for one in self.sent:
                one.get(timeout=LIMIT_S)

    def send_offsets(self, source: Source) -> None:
        assert isinstance(source, KafkaPythonSource)
        consumer = source.consumer
        positions = {
            where: OffsetAndMetadata(consumer.position(where), "", -1)
            for where in consumer.assignment()
        }
        with its_errors():
            self.producer.send_offsets_to_transaction(positions, consumer.group_metadata())

    def send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        position = {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata, -1)}
        with its_errors():
            self.producer.send_offsets_to_transaction(position, group)

    def commit(self) -> None:
        with its_errors():
            self.producer.commit_transaction()

    def abort(self) -> None:
        with its_errors():
            self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=1)


class TransactionalKafkaPython(TransactionalClient):
    name: ClassVar[str] = "kafka-python"
    # Its sender (3.0.12, `Sender._maybe_send_pending_request`) forgets a request if it cannot
    # connect to the coordinator: commit and abort then wait without end. The transaction times out.
    survives_coordinator: ClassVar[bool] = False

    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> KafkaPythonProducer:
        return KafkaPythonProducer(bootstrap, transactional_id, timeout_ms)

    def source(self, bootstrap: str, group: str, topic: str) -> KafkaPythonSource:
        return KafkaPythonSource(bootstrap, group, topic)

    def read(
        self, bootstrap: str, topic: str, partition: int, count: int, isolation: Isolation
    ) -> list[bytes]:
        client = KafkaPython({"isolation_level": isolation.value})
        found = client.consume(bootstrap, topic, partition, count)
        return [one.record.value or b"" for one in found]
