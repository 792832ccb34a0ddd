"""A well-behaved client that runs during an attack and measures how long it has to wait."""

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
    """Sends a record, reads it back, and opens a new connection, in a loop in its own thread.

    Leaving the context manager raises `TimeoutError` if one of these steps failed.
    """

    ends_within_s = 3 * ANSWER_LIMIT_S

    def __init__(self, address: tuple[str, int], topic: str, partition: int) -> None:
        super().__init__()
        self._address = address
        self._topic, self._partition = topic, partition
        self._acknowledged = 0
        self.record_s: list[float] = []
        """Seconds from sending a record until it was read back, one entry a record."""
        self.connection_s: list[float] = []
        """Seconds from opening a connection until its first answer, one entry a connection."""
        self.failure = ""
        """Why the client gave up; empty while it works."""

    @property
    def is_under_way(self) -> bool:
        """Whether the client has finished its first complete turn, or has failed."""
        return bool(self.connection_s or self.failure)

    @property
    def longest_s(self) -> float:
        """The longest of all its waits; 0 before the first one."""
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
            # Not measured: the first round trip also opens the two clients' connections.
            self._trip(producer, consumer)
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
        """Send one record and read until it comes back; raises `TimeoutError` otherwise."""
        sent = str(time.monotonic_ns()).encode()
        producer.produce(self._topic, sent, partition=self._partition, on_delivery=self._delivered)
        if producer.flush(ANSWER_LIMIT_S):
            raise TimeoutError(
                f"a record for {self._topic}-{self._partition} was not acknowledged within "
                f"{ANSWER_LIMIT_S:g} s"
            )
        deadline_s = time.monotonic() + ANSWER_LIMIT_S
        while time.monotonic() < deadline_s:
            found = consumer.poll(0.5)
            if found is not None and found.error() is None and found.value() == sent:
                return
        raise TimeoutError(
            f"an acknowledged record of {self._topic}-{self._partition} could not be read within "
            f"{ANSWER_LIMIT_S:g} s"
        )

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        """librdkafka's callback for each record; an error is raised out of `flush`."""
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        self._acknowledged += 1

    def __exit__(self, *ended: Any) -> None:
        super().__exit__(*ended)
        # An exception that is already being raised must not be hidden by this one.
        if ended[0] is None and self.failure:
            raise TimeoutError(self.failure)
