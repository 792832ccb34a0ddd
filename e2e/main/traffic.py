"""Clients at work while something happens to the cluster, and what they noticed of it.

One producer and one consumer, both librdkafka, both asking for metadata again every second. The
producer sends at a steady, modest pace: what matters is a pause or an error, not a limit.
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
# A record that is not acknowledged by then is an error that the client notices.
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
    errors: list[str] = field(default_factory=list)
    """Records that were refused, and what a reader was refused."""
    disturbances: list[str] = field(default_factory=list)
    """Connections lost and the like, which the client libraries recover from by themselves."""

    def slowest_ms(self) -> float:
        return max(self.acknowledged.values())

    def longest_gaps_s(self) -> dict[int, float]:
        """Partition -> the longest time in which none of its records was acknowledged."""
        return {
            partition: max(later - earlier for earlier, later in pairwise(sorted(times_s)))
            for partition, times_s in sorted(self.at_s.items())
        }


class Traffic:
    """Produces to all partitions of a topic round-robin and reads everything, until it is left.

    Leaving waits until every record is acknowledged or refused, and until the reader has read
    as many as were acknowledged, or a limit is over.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        delivery_limit_ms: int = DELIVERY_LIMIT_MS,
    ) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.delivery_limit_s = delivery_limit_ms / 1000
        self.noticed = Noticed()
        common = {
            "bootstrap.servers": bootstrap,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 200,
            # kube-proxy may send a connection to the address of a pod that has just gone, where
            # nobody answers: docs/kubernetes.md, "Connect". The default is 30 s.
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
        # It asks for a group's name even where it joins none.
        self.consumer = Consumer(
            {
                **common,
                "group.id": "none",
                "enable.auto.commit": False,
                # A position that a broker does not know is an error, not a silent jump to the end.
                "auto.offset.reset": "error",
            }
        )
        self.sent = 0
        self.ending = threading.Event()
        self.threads = [
            threading.Thread(target=work, daemon=True) for work in (self.produce, self.consume)
        ]

    def disturbed(self, error: KafkaError) -> None:
        self.noticed.disturbances.append(str(error))

    def note(self, error: KafkaError) -> None:
        self.noticed.errors.append(str(error))

    def produce(self) -> None:
        while not self.ending.wait(1 / RECORDS_PER_S):
            self.send()
            self.producer.poll(0)
        if left := self.producer.flush(2 * self.delivery_limit_s):
            self.noticed.errors.append(f"{left} records neither acknowledged nor refused")

    def send(self) -> None:
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
        """What became of a record. It is found by its value: its offset may be unknown."""
        if error is not None:
            self.note(error)
            return
        now_s = time.monotonic()
        self.noticed.acknowledged[message.value() or b""] = (now_s - started_s) * 1000
        self.noticed.at_s[partition_of(message)].append(now_s)

    def consume(self) -> None:
        places = range(self.partitions)
        self.consumer.assign([TopicPartition(self.topic, n, OFFSET_BEGINNING) for n in places])
        deadline_s: float | None = None
        while deadline_s is None or time.monotonic() < deadline_s:
            for one in self.consumer.consume(500, timeout=0.2):
                if (error := one.error()) is not None:
                    self.note(error)
                else:
                    self.noticed.read[one.value() or b""] += 1
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
        """Raise `AssertionError` where a client noticed anything."""
        assert not self.noticed.disturbances, Counter(self.noticed.disturbances).most_common(5)
        self.check_records()

    def check_records(self) -> None:
        """Raise `AssertionError` unless every record was acknowledged, and read exactly once.

        Connections may have been lost meanwhile: this is what clients promise to make good.
        """
        noticed = self.noticed
        assert not noticed.errors, Counter(noticed.errors).most_common(5)
        assert len(noticed.acknowledged) == self.sent
        wrong = self.read_wrongly()
        assert not wrong, wrong

    def read_wrongly(self) -> str:
        """Which records were not read exactly once, a part for each partition; empty if none.

        What the reader lacks is read once more by a new reader, so that a record that the
        lost brokers and a stalled reader can be distinguished.
        """
        noticed = self.noticed
        lacking = noticed.acknowledged.keys() - noticed.read.keys()
        again = self.found_again() if lacking else set[bytes]()
        groups = {
            "acknowledged, and no new reader finds them": lacking - again,
            "a new reader finds them, the first reader did not": lacking & again,
            "read more than once": {one for one, times in noticed.read.items() if times > 1},
            "read, though never acknowledged": noticed.read.keys() - noticed.acknowledged.keys(),
        }
        return "; ".join(f"{why}: {self.places(ones)}" for why, ones in groups.items() if ones)

    def found_again(self) -> set[bytes]:
        """The values that a new reader finds, up to the end of each partition."""
        found = stored(self.bootstrap, self.topic, range(self.partitions))
        return {one.record.value or b"" for partition in found for one in partition}

    def places(self, values: Collection[bytes]) -> str:
        """Partition, how many of these records are in it, and the first and the last of them."""
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for number in map(int, sorted(values)):
            by_partition[number % self.partitions].append(number)
        return ", ".join(
            f"partition {partition}: {len(numbers)} (numbers {numbers[0]} to {numbers[-1]})"
            for partition, numbers in sorted(by_partition.items())
        )
