"""Clients that run while something happens to the cluster, and what they noticed of it.

There is one producer and one consumer, both librdkafka, with a metadata refresh every second. The
producer sends at a steady rate, a low one unless the test asks for another: tests look for pauses
and errors, not for throughput.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from e2e.clients.by_librdkafka import QUIET, partition_of
from e2e.clients.topics import stored

RECORDS_PER_S = 100
TURNS_PER_S = 100
"""How often the producer sends records; more at a time for a higher rate."""
# A record that is not acknowledged in this time is an error for the client.
DELIVERY_LIMIT_MS = 10_000
CATCH_UP_LIMIT_S = 20


@dataclass(slots=True)
class Noticed:
    """What the clients saw."""

    acknowledged: dict[bytes, float] = field(default_factory=dict)
    """Value -> milliseconds from sending it to its acknowledgement."""
    at_s: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Partition -> when each of its records was acknowledged, by the monotonic clock."""
    read: Counter[bytes] = field(default_factory=Counter)
    """Value -> how often the consumer read it."""
    errors: list[str] = field(default_factory=list)
    """Errors of records and of the consumer's reads."""
    disturbances: list[str] = field(default_factory=list)
    """Lost connections and other errors that client libraries recover from."""

    def slowest_ms(self) -> float:
        return max(self.acknowledged.values())

    def longest_gaps_s(self) -> dict[int, float]:
        """Partition -> the longest time between two acknowledgements."""
        return {
            partition: max(later - earlier for earlier, later in pairwise(sorted(times_s)))
            for partition, times_s in sorted(self.at_s.items())
        }


class Traffic:
    """Produces to all partitions of a topic in turn and reads them, while the `with` block runs.

    The block's end waits until every record is acknowledged or refused, and until the consumer has
    read all acknowledged records, for at most `CATCH_UP_LIMIT_S`.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        delivery_limit_ms: int = DELIVERY_LIMIT_MS,
        *,
        records_per_s: int = RECORDS_PER_S,
    ) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.at_once = max(1, records_per_s // TURNS_PER_S)
        self.delivery_limit_s = delivery_limit_ms / 1000
        self.noticed = Noticed()
        common = {
            "bootstrap.servers": bootstrap,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 200,
            # kube-proxy may send a connection to the address of a pod that has just gone, where
            # no one answers: docs/kubernetes.md, "Connect". The default is 30 s.
            "socket.connection.setup.timeout.ms": 1000,
            "error_cb": self.disturbed,
            **QUIET,
        }
        self.producer = Producer(
            {
                **common,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": delivery_limit_ms,
            }
        )
        # librdkafka requires a group.id even from a consumer that joins no group.
        self.consumer = Consumer(
            {
                **common,
                "group.id": "none",
                "enable.auto.commit": False,
                # An offset out of range must be an error, not a silent reset to the end.
                "auto.offset.reset": "error",
            }
        )
        self.sent = 0
        self.ending = threading.Event()
        self.threads = [
            threading.Thread(target=work, daemon=True) for work in (self.produce, self.consume)
        ]

    def disturbed(self, error: KafkaError) -> None:
        """Note an error that the library recovers from."""
        self.noticed.disturbances.append(str(error))

    def note(self, error: KafkaError) -> None:
        """Note an error of a record or of a read."""
        self.noticed.errors.append(str(error))

    def produce(self) -> None:
        """Send records until `ending`, then wait for all answers; the body of a thread."""
        while not self.ending.wait(1 / TURNS_PER_S):
            for _ in range(self.at_once):
                self.send()
            self.producer.poll(0)
        if left := self.producer.flush(2 * self.delivery_limit_s):
            self.noticed.errors.append(f"{left} records were neither acknowledged nor refused")

    def send(self) -> None:
        """Send the next record, to the partitions in turn; `answered` notes its result."""
        started_s = time.monotonic()

        def on_delivery(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
            self.answered(started_s, error, message)

        value = b"%010d" % self.sent
        partition = self.sent % self.partitions
        self.producer.produce(self.topic, value, partition=partition, on_delivery=on_delivery)
        self.sent += 1

    def answered(
        self, started_s: float, error: KafkaError | None, message: "Message[bytes, bytes]"
    ) -> None:
        """Note the answer for a record, which is identified by its value: its offset may be
        unknown."""
        if error is not None:
            self.note(error)
            return
        now_s = time.monotonic()
        self.noticed.acknowledged[message.value() or b""] = (now_s - started_s) * 1000
        self.noticed.at_s[partition_of(message)].append(now_s)

    def consume(self) -> None:
        """Read until the producer has ended and all acknowledged records are read, or a time
        limit."""
        places = range(self.partitions)
        self.consumer.assign([TopicPartition(self.topic, n, OFFSET_BEGINNING) for n in places])
        deadline_s: float | None = None
        while deadline_s is None or time.monotonic() < deadline_s:
            for one in self.consumer.consume(500, timeout=0.2):
                if (error := one.error()) is not None:
                    self.note(error)
                else:
                    self.noticed.read[one.value() or b""] += 1
            # The first thread is the producer's.
            if deadline_s is None and not self.threads[0].is_alive():
                deadline_s = time.monotonic() + CATCH_UP_LIMIT_S
            if deadline_s is not None and self.has_read_all():
                break
        self.consumer.close()

    def has_read_all(self) -> bool:
        return self.noticed.read.keys() >= self.noticed.acknowledged.keys()

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.ending.set()
        for thread in self.threads:
            thread.join(3 * self.delivery_limit_s + CATCH_UP_LIMIT_S)

    def check(self) -> None:
        """Raise `AssertionError` if a client noticed anything, even a lost connection."""
        assert not self.noticed.disturbances, Counter(self.noticed.disturbances).most_common(5)
        self.check_records()

    def check_records(self) -> None:
        """Raise `AssertionError` unless every record was acknowledged and read exactly once.

        Lost connections are allowed: client libraries recover from them.
        """
        noticed = self.noticed
        assert not noticed.errors, Counter(noticed.errors).most_common(5)
        assert len(noticed.acknowledged) == self.sent
        wrong = self.read_wrongly()
        assert not wrong, wrong

    def read_wrongly(self) -> str:
        """The records that were not read exactly once, as text; "" if there are none.

        Records that the consumer did not read are looked for by a new one. So a message can tell
        records that the brokers lost from a consumer that stalled.
        """
        noticed = self.noticed
        unread = noticed.acknowledged.keys() - noticed.read.keys()
        stored_values = self.found_again() if unread else set[bytes]()
        groups = {
            "acknowledged, but not stored: a new reader does not find them": unread - stored_values,
            "stored, but not read by the first reader": unread & stored_values,
            "read more than once": {one for one, times in noticed.read.items() if times > 1},
            "read, though never acknowledged": noticed.read.keys() - noticed.acknowledged.keys(),
        }
        return "; ".join(f"{why}: {self.places(ones)}" for why, ones in groups.items() if ones)

    def found_again(self) -> set[bytes]:
        """The values of all records that a new consumer reads from the topic."""
        found = stored(self.bootstrap, self.topic, range(self.partitions))
        return {one.record.value or b"" for partition in found for one in partition}

    def places(self, values: Collection[bytes]) -> str:
        """For each partition, how many of these records it has and their first and last number, as
        text."""
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for number in map(int, sorted(values)):
            by_partition[number % self.partitions].append(number)
        return ", ".join(
            f"partition {partition}: {len(numbers)} (numbers {numbers[0]} to {numbers[-1]})"
            for partition, numbers in sorted(by_partition.items())
        )
