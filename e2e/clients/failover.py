"""Measures at a client how long a partition acknowledges nothing after its leader was killed.

The measurement is the same for Chiplog and for Apache Kafka: the caller gives the bootstrap
servers, a partition, and a function that kills the partition's leader. The client is librdkafka
with the settings of a user who has set nothing but `acks=all` (its default too). Of its defaults
(2.x) these are part of what is measured:

* `topic.metadata.refresh.fast.interval.ms` 100, growing to `retry.backoff.max.ms` 1000: how often
  it asks for the new leader once it knows that it has none;
* `retry.backoff.ms` 100, growing to 1000: how soon it sends refused or lost records again;
* `reconnect.backoff.ms` 100, growing to 10000: how soon it connects again to an address that
  refused a connection, here the killed leader's;
* `linger.ms` 5, `message.timeout.ms` 300000: nothing is given up during a measurement.
"""

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from e2e.clients.background import Background
from e2e.clients.by_librdkafka import QUIET, must_arrive, place

EVERY_S = 0.01
POLL_EVERY_S = 1.0
PADDING = b"." * 80
BEFORE_RECORDS = 100
"""Acknowledged before the kill, so that the connection is established and the epoch known."""
AFTER_RECORDS = 100
"""Sent after the kill and acknowledged, before the measurement ends."""
LIMIT_S = 60
READ_LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record whose producer got an acknowledgement, and when it got it (monotonic clock)."""

    value: bytes
    offset: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Failover:
    """One kill of a leader as a producer saw it."""

    seconds: float
    """From just before the kill to the first acknowledgement by a new leader.

    That is the first acknowledged record with a higher leader epoch than all records acknowledged
    before the kill. Answers of the old leader that arrive after the kill do not count."""
    longest_gap_s: float
    """The longest time without any acknowledgement, which began before the kill."""
    acknowledged: tuple[Acknowledged, ...]
    refused: tuple[str, ...]
    """Errors of the records that the producer gave up."""
    lost: tuple[bytes, ...]
    """Values that were acknowledged, but not found at their offset."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that was read back; leader epoch -1 if the answer had none."""

    value: bytes | None
    leader_epoch: int


def measure_failover(
    bootstrap: str, topic: str, partition: int, kill: Callable[[], object]
) -> Failover:
    """Kill the partition's leader while a producer sends one record each 10 ms.

    `kill` kills the leader (SIGKILL) and returns when its process is gone. Other producers may use
    the partition, too. Returns when `AFTER_RECORDS` records sent after the kill are acknowledged,
    and all acknowledged records have been read back. Raises `TimeoutError` after `LIMIT_S`.
    """
    with Trickle(bootstrap, topic, partition) as trickle:
        trickle.wait_for(BEFORE_RECORDS)
        # The client refreshes its metadata once a second. Repeated kills at the same point of this
        # second would bias the measurement.
        time.sleep(random.uniform(0, POLL_EVERY_S))  # noqa: S311
        killed_s = time.monotonic()
        kill()
        # Only a new leader can acknowledge records that are sent from now on.
        trickle.wait_for(trickle.sent + AFTER_RECORDS)
    acknowledged = tuple(trickle.acknowledged)
    found = read_back(bootstrap, topic, partition, acknowledged)
    return Failover(
        seconds=first_of_successor_s(acknowledged, found, killed_s) - killed_s,
        longest_gap_s=longest_gap_s(acknowledged),
        acknowledged=acknowledged,
        refused=tuple(trickle.refused),
        lost=tuple(one.value for one in acknowledged if not is_found(one, found)),
    )


@dataclass
class Trickle(Background):
    """Sends one record every `EVERY_S` while the `with` block runs, without waiting for answers."""

    bootstrap: str
    topic: str
    partition: int
    sent: int = 0
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _last: int = -1
    """The highest number of an acknowledged record; they are numbered from 0 as they are sent."""

    def wait_for(self, count: int) -> None:
        """Wait until record number `count`, or a later one, is acknowledged."""
        deadline_s = time.monotonic() + LIMIT_S
        while self._last < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{self.topic}-{self.partition}: {self.sent} records sent, "
                    f"{len(self.acknowledged)} acknowledged, refused: {self.refused[-3:]}"
                )
            time.sleep(EVERY_S)

    def run(self) -> None:
        """Send a record every `EVERY_S`; its delivery report notes when it was acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **QUIET})
        run = uuid.uuid4().hex.encode()
        next_s = time.monotonic()
        while not self.ending.is_set():
            value = b"%s %010d" % (run, self.sent) + PADDING
            report = self._reporter(self.sent, value)
            producer.produce(self.topic, value, partition=self.partition, on_delivery=report)
            self.sent += 1
            next_s += EVERY_S
            # The delivery reports are called from `poll`: so their times are exact to a
            # millisecond.
            while (left_s := next_s - time.monotonic()) > 0:
                producer.poll(left_s)
        if left := producer.flush(LIMIT_S):
            self.refused.append(f"{left} records neither acknowledged nor refused")

    def _reporter(
        self, number: int, value: bytes
    ) -> Callable[[KafkaError | None, "Message[bytes, bytes]"], None]:
        """The delivery callback of the record with this number and value."""

        def report(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
            if error is not None:
                self.refused.append(str(error))
                return
            _, offset = place(message)
            self.acknowledged.append(Acknowledged(value, offset, time.monotonic()))
            self._last = max(self._last, number)

        return report


def read_back(
    bootstrap: str, topic: str, partition: int, acknowledged: tuple[Acknowledged, ...]
) -> Mapping[int, Stored]:
    """Offset -> record, for all records from the first to the last acknowledged offset.

    It is incomplete if the last offset cannot be read within `READ_LIMIT_S`.
    """
    first = min(one.offset for one in acknowledged)
    last = max(one.offset for one in acknowledged)
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**settings, **QUIET})
    consumer.assign([TopicPartition(topic, partition, first)])
    found: dict[int, Stored] = {}
    deadline_s = time.monotonic() + READ_LIMIT_S
    try:
        while max(found, default=-1) < last and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, timeout=0.5):
                must_arrive(message.error(), message)
                epoch = message.leader_epoch()
                found[place(message)[1]] = Stored(message.value(), -1 if epoch is None else epoch)
    finally:
        consumer.close()
    return found


def is_found(one: Acknowledged, found: Mapping[int, Stored]) -> bool:
    """Whether the acknowledged record was read back at its offset."""
    stored = found.get(one.offset)
    return stored is not None and stored.value == one.value


def first_of_successor_s(
    acknowledged: tuple[Acknowledged, ...], found: Mapping[int, Stored], killed_s: float
) -> float:
    """When the first record with a higher leader epoch than epoch_before the kill was
    acknowledged."""
    times_and_epochs = [
        (one.at_s, found[one.offset].leader_epoch) for one in acknowledged if is_found(one, found)
    ]
    epoch_before = max(epoch for at_s, epoch in times_and_epochs if at_s <= killed_s)
    times_after_s = [at_s for at_s, epoch in times_and_epochs if epoch > epoch_before]
    if not times_after_s:
        raise ValueError(
            f"no record has a higher leader epoch than {epoch_before}: "
            "`kill` did not kill the leader"
        )
    return min(times_after_s)


def longest_gap_s(acknowledged: tuple[Acknowledged, ...]) -> float:
    """The longest time between two successive acknowledgements."""
    times = sorted(one.at_s for one in acknowledged)
    return max((later - earlier for earlier, later in pairwise(times)), default=0)
