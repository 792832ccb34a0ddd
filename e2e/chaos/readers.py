"""Readers that follow every partition from its beginning, and a client that asks for end offsets.

They assign partitions themselves and join no group, unlike the members in `groups`. If a broker
reports their offset as out of range, they note it and do not reset to another offset.
"""

import threading
from abc import ABC, abstractmethod
from typing import ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from e2e.chaos.ledger import Ledger, name_of
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.clients.by_kafka_python import (
    KafkaConsumer,
    OffsetOutOfRangeError,
    TopicPartition,
)
from e2e.clients.by_librdkafka import QUIET, place
from e2e.sim.history import Kind
from e2e.transactions.client import Isolation

POLL_S = 0.2
ASK_LIMIT_S = 2
ASK_EVERY_S = 0.5
STOP_LIMIT_S = 30


def librdkafka_consumer(
    bootstrap: str, isolation: Isolation = Isolation.COMMITTED, *, reports_ends: bool = False
) -> Consumer:
    """A consumer without offset reset: it reads from assigned offsets only.

    With `reports_ends` it returns an error of its own, _PARTITION_EOF, at the end of each
    partition.
    """
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            # librdkafka requires a group.id even from a consumer that joins no group.
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "isolation.level": isolation.value,
            "enable.partition.eof": reports_ends,
            "socket.timeout.ms": REQUEST_LIMIT_MS,
            **QUIET,
        }
    )


class Reader(ABC):
    """A client that reads in its own thread until it is stopped."""

    name: ClassVar[str]

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        """`ledger` records the events of all clients: here, what this client reads. Checkers read
        it after the run."""
        self.bootstrap, self.ledger = bootstrap, ledger
        self.read_up_to = dict.fromkeys(range(ledger.partitions), 0)
        """Partition -> the offset it reads next."""
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True, name=self.name)

    def start(self) -> None:
        self.thread.start()

    def ask_to_stop(self) -> None:
        self.ending.set()

    def abandon(self) -> None:
        self.ending.set()

    def wait_stopped(self) -> None:
        self.thread.join(STOP_LIMIT_S)
        if self.thread.is_alive():
            self.ledger.errors.append(f"{self.name} does not end")

    def run(self) -> None:
        """The thread's work: poll until asked to stop. An exception becomes an error of the run."""
        try:
            self.open()
            while not self.ending.is_set():
                self.poll()
            self.close()
        except Exception as problem:  # noqa: BLE001 - a client that ends is a finding
            self.ledger.errors.append(f"{self.name} ended: {problem!r}")

    def has_read(self, partition: int, value: bytes | None, offset: int) -> None:
        """Note one record that was read."""
        self.ledger.note(Kind.READ, self.name, partition, value=name_of(value), offset=offset)
        self.read_up_to[partition] = offset + 1

    def is_out_of_range(self, partition: int) -> None:
        """Note that a broker reported this reader's offset as out of range."""
        offset = self.read_up_to[partition]
        self.ledger.note(Kind.OUT_OF_RANGE, self.name, partition, offset=offset)

    @abstractmethod
    def open(self) -> None:
        """Create the library's consumer, at offset 0 of every partition; called in the thread."""

    @abstractmethod
    def poll(self) -> None:
        """Fetch records and note them, or wait up to about `POLL_S` for some."""

    @abstractmethod
    def close(self) -> None: ...


class LibrdkafkaReader(Reader):
    name: ClassVar[str] = "librdkafka-reader"
    isolation: ClassVar[Isolation] = Isolation.COMMITTED  # its default

    def open(self) -> None:
        """Read all partitions from offset 0, without a group."""
        self.consumer = librdkafka_consumer(self.bootstrap, self.isolation)
        everything = range(self.ledger.partitions)
        self.consumer.assign([Position(self.ledger.topic, number, 0) for number in everything])

    def poll(self) -> None:
        """Note the records that arrive within `POLL_S`, and errors.

        An offset out of range is a finding; other errors are only disturbances.
        """
        for one in self.consumer.consume(500, timeout=POLL_S):
            error = one.error()
            if error is None:
                partition, offset = place(one)
                self.has_read(partition, one.value(), offset)
            elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
                self.is_out_of_range(one.partition() or 0)
            else:
                self.ledger.disturbances.append(f"{self.name}: {error}")

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonReader(Reader):
    name: ClassVar[str] = "kafka-python-reader"
    isolation: ClassVar[Isolation] = Isolation.UNCOMMITTED  # its default

    def open(self) -> None:
        """Read all partitions from offset 0, without a group."""
        self.consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=self.isolation.value,
            request_timeout_ms=REQUEST_LIMIT_MS,
        )
        everything = range(self.ledger.partitions)
        places = [TopicPartition(self.ledger.topic, number) for number in everything]
        self.consumer.assign(places)
        for one in places:
            self.consumer.seek(one, 0)

    def poll(self) -> None:
        """Note the records of one poll. An offset out of range is noted, and ends the reader."""
        try:
            found = self.consumer.poll(timeout_ms=int(POLL_S * 1000))
        except OffsetOutOfRangeError as refused:
            for one in refused.args[0]:
                self.is_out_of_range(one.partition)
            raise
        for where, records in found.items():
            for one in records:
                self.has_read(where.partition, one.value, one.offset)

    def close(self) -> None:
        self.consumer.close()
        del self.consumer


class EndAsker(Reader):
    """Asks for end offsets with ListOffsets, one partition after the other.

    Requests without an answer are not noted.
    """

    name: ClassVar[str] = "end-asker"

    def open(self) -> None:
        self.consumer = librdkafka_consumer(self.bootstrap)
        self.next = 0
        self.read_up_to = {}  # it reads nothing

    def poll(self) -> None:
        """Ask for the end offset of the next partition in turn, and note it if it is answered."""
        number, self.next = self.next, (self.next + 1) % self.ledger.partitions
        try:
            where = Position(self.ledger.topic, number)
            found = self.consumer.get_watermark_offsets(where, timeout=ASK_LIMIT_S)
        except KafkaException:
            found = None
        if found is not None:
            self.found(number, found[1])
        self.ending.wait(ASK_EVERY_S)

    def found(self, partition: int, end: int) -> None:
        """Note an answer."""
        self.ledger.note(Kind.END, self.name, partition, offset=end)

    def close(self) -> None:
        self.consumer.close()
