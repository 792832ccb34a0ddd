"""A client that behaves, beside an attack: how long it is made to wait."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from e2e.clients.background import Background
from e2e.clients.by_librdkafka import QUIET
from e2e.kafka.probe import metadata

PAUSE_S = 0.01
ANSWER_LIMIT_S = 30.0
READY_LIMIT_S = 20.0


class Beside(Background):
    """Sends a record, reads it back, and reconnects, again and again, in its own thread.

    Leaving raises `TimeoutError` where one of these never ended.
    """

    ends_within_s = 3 * ANSWER_LIMIT_S

    def __init__(self, address: tuple[str, int], topic: str, partition: int) -> None:
        super().__init__()
        self._address = address
        self._topic, self._partition = topic, partition
        self._acknowledged = 0
        self.record_s: list[float] = []
        """Of each record: from sending it until it was read back."""
        self.connection_s: list[float] = []
        """Of each new connection: until its first answer."""
        self.failure = ""

    @property
    def is_under_way(self) -> bool:
        """Whether its connections are made, or it has failed."""
        return bool(self.connection_s or self.failure)

    @property
    def longest_s(self) -> float:
        """Of all its waits."""
        return max(*self.record_s, *self.connection_s, 0.0)

    def run(self) -> None:
        servers = {"bootstrap.servers": f"{self._address[0]}:{self._address[1]}", **QUIET}
        producer = Producer({**servers, "linger.ms": 0, "acks": "all"})
        consumer = Consumer({**servers, "group.id": "beside", "enable.auto.commit": False})
        try:
            where = TopicPartition(self._topic, self._partition)
            _, end = consumer.get_watermark_offsets(where, timeout=READY_LIMIT_S)
            where.offset = end
            consumer.assign([where])
            self._trip(producer, consumer)  # connections are made by the first one
            while not self.ending.wait(PAUSE_S):
                began_s = time.monotonic()
                self._trip(producer, consumer)
                self.record_s.append(time.monotonic() - began_s)
                began_s = time.monotonic()
                metadata(*self._address)
                self.connection_s.append(time.monotonic() - began_s)
        except (OSError, TimeoutError, RuntimeError, KafkaException) as failed:
            self.failure = f"{type(failed).__name__}: {failed}"
        finally:
            consumer.close()

    def _trip(self, producer: Producer, consumer: Consumer) -> None:
        sent = str(time.monotonic_ns()).encode()
        producer.produce(self._topic, sent, partition=self._partition, on_delivery=self._delivered)
        if producer.flush(ANSWER_LIMIT_S):
            raise TimeoutError("a record was not acknowledged")
        deadline_s = time.monotonic() + ANSWER_LIMIT_S
        while time.monotonic() < deadline_s:
            found = consumer.poll(0.5)
            if found is not None and found.error() is None and found.value() == sent:
                return
        raise TimeoutError("a record that was acknowledged cannot be read")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        self._acknowledged += 1

    def __exit__(self, *ended: Any) -> None:
        super().__exit__(*ended)
        if ended[0] is None and self.failure:
            raise TimeoutError(self.failure)
