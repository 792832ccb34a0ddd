"""Transactions of a real producer, librdkafka's, for the tests of what reads logs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import QUIET
from e2e.kafka.process import BrokerProcess

LIMIT_S = 60.0


class Transactional:
    """A transactional producer that writes one batch for each call of `write`."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": transactional_id,
                "linger.ms": 10_000,
                **QUIET,
            }
        )
        self._producer.init_transactions(LIMIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(
        self, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None
    ) -> None:
        """One batch of these records, stored when it returns."""
        for value in values:
            self._producer.produce(topic, value, key, partition=partition)
        assert self._producer.flush(LIMIT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(LIMIT_S)


@contextmanager
def open_transaction(
    broker: BrokerProcess, transactional_id: str, topic: str, *values: bytes
) -> Iterator[Transactional]:
    """A producer with an open transaction of these records; it is aborted afterwards."""
    producer = Transactional(broker, transactional_id)
    producer.begin()
    producer.write(topic, *values)
    try:
        yield producer
    finally:
        producer.abort()


def interleaved(broker: BrokerProcess, topic: str, prefix: str) -> list[bytes]:
    """Transactions of two producers that overlap, in partition 0, ends with a marker; returns the
    committed values.

    A value says what becomes of its record (c: committed, a: aborted), and its offset.
    """
    one, other = Transactional(broker, f"{prefix}-one"), Transactional(broker, f"{prefix}-other")
    one.begin()
    other.begin()
    one.write(topic, b"c0", b"c1")  # 0, 1
    other.write(topic, b"a2", b"a3")  # 2, 3
    one.write(topic, b"c4")  # 4
    one.commit()  # 5
    other.write(topic, b"a6")  # 6
    other.abort()  # 7
    other.begin()
    other.write(topic, b"c8")  # 8
    one.begin()
    one.write(topic, b"a9")  # 9
    other.commit()  # 10
    one.abort()  # 11
    return [b"c0", b"c1", b"c4", b"c8"]


def all_values(committed: Iterable[bytes]) -> list[bytes]:
    """The values of all records of `interleaved`, in order of their offsets."""
    return sorted([*committed, b"a2", b"a3", b"a6", b"a9"], key=lambda value: int(value[1:]))
