"""librdkafka, through confluent-kafka: the first generation of transactions."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka import Producer as RdProducer

from e2e.clients.by_librdkafka import QUIET, Librdkafka, must_arrive, place
from e2e.transactions.client import (
    LIMIT_S,
    MAX_POLL_RECORDS,
    TRANSACTION_TIMEOUT_MS,
    FencedError,
    Input,
    Isolation,
    Producer,
    Source,
    TransactionalClient,
    TransactionFailedError,
)

FENCED = {
    KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own code of it
    KafkaError.PRODUCER_FENCED,
}
CALL_S = 10.0
"""How long one call waits; a call that did not end in time is repeated, as its manual says."""


@contextmanager
def its_errors() -> Iterator[None]:
    """Turn the library's errors into those of the interface."""
    try:
        yield
    except KafkaException as failed:
        error: KafkaError = failed.args[0]
        kind = FencedError if error.code() in FENCED else TransactionFailedError
        raise kind(str(error)) from failed


def repeated(call: Callable[[float], object]) -> None:
    """Make a call, and again as long as its error says that it may be repeated."""
    until_s = time.monotonic() + LIMIT_S
    while True:
        try:
            call(CALL_S)
        except KafkaException as failed:
            if not failed.args[0].retriable() or time.monotonic() > until_s:
                raise
        else:
            return


class LibrdkafkaSource(Source):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": Isolation.COMMITTED.value,
                **QUIET,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> list[Input]:
        found = []
        for one in self.consumer.consume(MAX_POLL_RECORDS, timeout=0.5):
            must_arrive(one.error(), one)
            found.append(Input(*place(one), one.value() or b""))
        return found

    def rewind(self) -> None:
        assigned = self.consumer.assignment()
        for one in self.consumer.committed(assigned, timeout=LIMIT_S):
            if one.offset == OFFSET_INVALID:
                one.offset = OFFSET_BEGINNING
            self.consumer.seek(one)

    def close(self) -> None:
        self.consumer.close()


class LibrdkafkaProducer(Producer):
    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        timeout_ms: int,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`more` are further settings."""
        self.bootstrap, self.groups = bootstrap, dict[str, Any]()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            # By default the limit is a minute, but it may not exceed the transaction's.
            "message.timeout.ms": timeout_ms,
            **QUIET,
            **(more or {}),
        }
        self.producer, self.failed = RdProducer(settings), list[str]()
        with its_errors():
            repeated(self.producer.init_transactions)

    def begin(self) -> None:
        with its_errors():
            self.producer.begin_transaction()

    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        with its_errors():
            for value in values:
                self.producer.produce(topic, value, None, partition, on_delivery=self._report)

    def _report(self, error: KafkaError | None, _message: "Message[bytes, bytes]") -> None:
        if error is not None:
            self.failed.append(str(error))

    def flush(self) -> None:
        left = self.producer.flush(LIMIT_S)
        failed, self.failed = self.failed, []
        if left or failed:
            raise TransactionFailedError(f"{left} records without an answer, {failed}")

    def send_offsets(self, source: Source) -> None:
        assert isinstance(source, LibrdkafkaSource)
        consumer = source.consumer
        with its_errors():
            positions = [one for one in consumer.position(consumer.assignment()) if one.offset >= 0]
            metadata = consumer.consumer_group_metadata()
            repeated(
                lambda limit_s: self.producer.send_offsets_to_transaction(
                    positions, metadata, limit_s
                )
            )

    def send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        position = TopicPartition(topic, partition, offset, metadata)
        with its_errors():
            of_group = self._of_group(group)
            repeated(
                lambda limit_s: self.producer.send_offsets_to_transaction(
                    [position], of_group, limit_s
                )
            )

    def _of_group(self, group: str) -> Any:
        """The metadata of a group without members: only a consumer gives it, also one that never
        joins."""
        if group not in self.groups:
            member = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, **QUIET})
            self.groups[group] = member.consumer_group_metadata()
            member.close()
        return self.groups[group]

    def commit(self) -> None:
        with its_errors():
            repeated(self.producer.commit_transaction)

    def abort(self) -> None:
        with its_errors():
            repeated(self.producer.abort_transaction)

    def close(self) -> None:
        self.producer.purge()
        with suppress(KafkaException):  # a fatal error, which the caller has got already
            self.producer.flush(CALL_S)


class TransactionalLibrdkafka(TransactionalClient):
    name: ClassVar[str] = "librdkafka"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` are further ones of its producers, under the library's names."""
        self.settings = settings

    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> LibrdkafkaProducer:
        return LibrdkafkaProducer(bootstrap, transactional_id, timeout_ms, self.settings)

    def source(self, bootstrap: str, group: str, topic: str) -> LibrdkafkaSource:
        return LibrdkafkaSource(bootstrap, group, topic)

    def read(
        self, bootstrap: str, topic: str, partition: int, count: int, isolation: Isolation
    ) -> list[bytes]:
        client = Librdkafka({"isolation.level": isolation.value})
        found = client.consume(bootstrap, topic, partition, count)
        return [one.record.value or b"" for one in found]
