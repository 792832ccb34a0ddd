"""Producers of two libraries: idempotent, with acks=all and long timeouts (`by_java` is a third).

The timeouts are set so that no record is given up while a fault lasts, and a request without an
answer is repeated after ten seconds. All other settings are the libraries' defaults.

Each sends at a steady rate (`RECORDS_PER_S`, unless told otherwise); records that are late are
sent as soon as possible.
"""

import threading
import time
from abc import ABC, abstractmethod
from typing import ClassVar

from confluent_kafka import KafkaError, Message, Producer

from e2e.chaos.ledger import Ledger, padded
from e2e.clients.by_kafka_python import KafkaProducer
from e2e.clients.by_librdkafka import QUIET
from e2e.sim.history import Kind

RECORDS_PER_S = 200
REQUEST_LIMIT_MS = 10_000
PATIENCE_MS = 600_000
LINGER_MS = 20
STOP_LIMIT_S = 120


class SteadyProducer(ABC):
    """Sends records to the partitions in turn, in its own thread, until it is stopped."""

    name: ClassVar[str]

    def __init__(
        self, bootstrap: str, ledger: Ledger, records_per_s: float = RECORDS_PER_S
    ) -> None:
        self.bootstrap, self.ledger, self.records_per_s = bootstrap, ledger, records_per_s
        self.ending = threading.Event()
        self.is_abandoned = False
        self.thread = threading.Thread(target=self.run, daemon=True, name=self.name)

    def start(self) -> None:
        self.thread.start()

    def ask_to_stop(self) -> None:
        """Send no more records, but still wait for the answers to those sent."""
        self.ending.set()

    def abandon(self) -> None:
        """Send no more records, and drop those without an answer."""
        self.is_abandoned = True
        self.ending.set()

    def wait_stopped(self) -> None:
        """Wait until all sent records have answers; after `STOP_LIMIT_S` note an error."""
        self.thread.join(STOP_LIMIT_S)
        if self.thread.is_alive():
            self.ledger.errors.append(f"{self.name} has records without an answer")

    def run(self) -> None:
        """The thread's work: send until asked to stop, then wait for the answers that are missing.

        An abandoned producer does not wait. Any exception becomes an error of the run.
        """
        try:
            self.open()
            self.send_all()
            if self.is_abandoned:
                self.forget()
            else:
                self.flush()
        except Exception as problem:  # noqa: BLE001 - a client that ends is a finding
            self.ledger.errors.append(f"{self.name} ended: {problem!r}")

    def send_all(self) -> None:
        """Note and send `records_per_s` records to the partitions in turn, until asked to stop."""
        next_s, sent = time.monotonic(), 0
        while not self.ending.is_set():
            partition = sent % self.ledger.partitions
            value = f"{self.name}.{sent}"
            self.ledger.note(Kind.SENT, self.name, partition, value=value)
            self.send(value, partition)
            sent += 1
            next_s += 1 / self.records_per_s
            self.pass_time(next_s - time.monotonic())

    def given_up(self, value: str, problem: object) -> None:
        """Note a record that the library has given up: it may have been stored or not."""
        self.ledger.errors.append(f"{self.name} gave up {value}: {problem}")

    @abstractmethod
    def open(self) -> None:
        """Create the library's producer; called in the thread."""

    @abstractmethod
    def send(self, value: str, partition: int) -> None:
        """Give one record to the library; its acknowledgement or failure is noted when it comes."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Wait this long, and let the library work; a negative time does not wait."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until every record has its answer."""

    @abstractmethod
    def forget(self) -> None:
        """Drop every record that has no answer."""


class LibrdkafkaProducer(SteadyProducer):
    name: ClassVar[str] = "librdkafka"

    def open(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": LINGER_MS,
                "message.timeout.ms": PATIENCE_MS,
                "socket.timeout.ms": REQUEST_LIMIT_MS,
                "request.timeout.ms": REQUEST_LIMIT_MS // 2,
                "error_cb": self.disturbed,
                **QUIET,
            }
        )

    def disturbed(self, error: KafkaError) -> None:
        """Note an error of librdkafka; from a fatal one it does not recover."""
        errors = self.ledger.errors if error.fatal() else self.ledger.disturbances
        errors.append(f"{self.name}: {error}")

    def send(self, value: str, partition: int) -> None:
        """Queue a record; its delivery report notes the offset, or that the library gave it up."""

        def report(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
            if error is not None:
                self.given_up(value, error)
                return
            # The broker acknowledges a duplicate of an old batch without its offset.
            offset = message.offset()
            noted = -1 if offset is None else offset
            self.ledger.note(Kind.ACKED, self.name, partition, value=value, offset=noted)

        while True:
            try:
                self.producer.produce(
                    self.ledger.topic, padded(value), partition=partition, on_delivery=report
                )
                return
            except BufferError:  # its queue is full
                self.producer.poll(0.1)

    def pass_time(self, seconds: float) -> None:
        """Wait this long, and call the delivery reports meanwhile."""
        # The delivery reports are called from `poll`.
        self.producer.poll(0)
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self.producer.poll(left_s)

    def flush(self) -> None:
        """Wait for all answers; records without one after `STOP_LIMIT_S` are an error."""
        if left := self.producer.flush(STOP_LIMIT_S):
            self.ledger.errors.append(f"{self.name} has {left} records without an answer")

    def forget(self) -> None:
        self.producer.purge()


class KafkaPythonProducer(SteadyProducer):
    name: ClassVar[str] = "kafka-python"

    def open(self) -> None:
        self.producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            linger_ms=LINGER_MS,
            delivery_timeout_ms=PATIENCE_MS,
            request_timeout_ms=REQUEST_LIMIT_MS,
            max_block_ms=PATIENCE_MS,
        )

    def send(self, value: str, partition: int) -> None:
        """Queue a record; its callbacks note the offset, or that the library gave it up."""

        def report(stored: object) -> None:
            where, offset = stored.partition, stored.offset  # type: ignore[attr-defined]
            self.ledger.note(Kind.ACKED, self.name, where, value=value, offset=offset)

        def refuse(problem: object) -> None:
            self.given_up(value, repr(problem))

        sent = self.producer.send(self.ledger.topic, padded(value), partition=partition)
        sent.add_callback(report)
        sent.add_errback(refuse)

    def pass_time(self, seconds: float) -> None:
        if seconds > 0:
            self.ending.wait(seconds)

    def flush(self) -> None:
        """Wait for all answers, at most `STOP_LIMIT_S`, and close the producer."""
        self.producer.flush(timeout=STOP_LIMIT_S)
        self.producer.close(timeout=5)
        del self.producer

    def forget(self) -> None:
        """Close the producer without waiting for answers."""
        # `close` alone would wait for answers, and without them leave the sender thread running.
        self.producer._sender.force_close()  # noqa: SLF001
        self.producer.close(timeout=5)
        del self.producer
