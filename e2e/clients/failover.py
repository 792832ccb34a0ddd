"""How long a partition acknowledges nothing after its leader was killed, measured at a client.

The same for Chiplog and for Apache Kafka: the caller gives the bootstrap servers, a
partition, and a function that kills the partition's leader. The client is librdkafka with the
settings of a user who has set nothing but `acks=all` (its default too). Of its defaults (2.x)
these are part of what is measured:

* `topic.metadata.refresh.fast.interval.ms` 100, growing to `retry.backoff.max.ms` 1000: how often
  it asks for the new leader once it knows that it has none;
* `retry.backoff.ms` 100, growing to 1000: how soon it sends again what was refused or lost;
* `reconnect.backoff.ms` 100, growing to 10000: how soon it connects again to an address that
  refused; the killed leader's, and until the new leader is known no other's;
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
"""So many are acknowledged before the kill: the connection is warm, the epoch known."""
AFTER_RECORDS = 100
"""So many that were sent after the kill are acknowledged before it counts as over."""
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
    """From just before the kill to the first acknowledgement by a successor, that is, of a record
    that is stored under a later leader epoch than the last one acknowledged before the kill. An
    answer of the old leader that was still on its way does not count."""
    longest_gap_s: float
    """The longest time without any acknowledgement, which began before the kill."""
    acknowledged: tuple[Acknowledged, ...]
    refused: tuple[str, ...]
    """Why records were given up; none of them counts as acknowledged."""
    lost: tuple[bytes, ...]
    """Acknowledged, but not read back at their offset."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it is read back."""

    value: bytes | None
    leader_epoch: int


def measure_failover(
    bootstrap: str, topic: str, partition: int, kill: Callable[[], object]
) -> Failover:
    """Kill the partition's leader under a trickle of records, one each 10 ms.

    `kill` does kill -9 and returns when the process is gone. Other records may be in the
    partition, and others may write to it. Returns when a hundred records that were sent after the
    kill are acknowledged and all that were acknowledged have been read back. Raises
    `TimeoutError` where that takes longer than a minute.
    """
    with Trickle(bootstrap, topic, partition) as trickle:
        trickle.wait_for(BEFORE_RECORDS)
        # The client refreshes its metadata once a second since its start: kills must not be in step
        # with it.
        time.sleep(random.uniform(0, POLL_EVERY_S))  # noqa: S311
        killed_s = time.monotonic()
        kill()
        # What is handed over from now on no dead leader can have acknowledged.
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
    """Sends from its own thread, at fixed moments whatever becomes of the records, until left."""

    bootstrap: str
    topic: str
    partition: int
    sent: int = 0
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _last: int = -1
    """The newest record that is acknowledged, by its number."""

    def wait_for(self, count: int) -> None:
        """Wait until one of the records after the first `count` is acknowledged."""
        deadline_s = time.monotonic() + LIMIT_S
        while self._last < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{self.topic}-{self.partition}: {self.sent} records sent, "
                    f"{len(self.acknowledged)} acknowledged, refused: {self.refused[-3:]}"
                )
            time.sleep(EVERY_S)

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **QUIET})
        run = uuid.uuid4().hex.encode()
        next_s = time.monotonic()
        while not self.ending.is_set():
            value = b"%s %010d" % (run, self.sent) + PADDING
            report = self._reporter(self.sent, value)
            producer.produce(self.topic, value, partition=self.partition, on_delivery=report)
            self.sent += 1
            next_s += EVERY_S
            # Polling is what runs the reports, so their times are right to a millisecond.
            while (left_s := next_s - time.monotonic()) > 0:
                producer.poll(left_s)
        if left := producer.flush(LIMIT_S):
            self.refused.append(f"{left} records neither acknowledged nor refused")

    def _reporter(
        self, number: int, value: bytes
    ) -> Callable[[KafkaError | None, "Message[bytes, bytes]"], None]:
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
    """Offset -> record, from the first to the last that was acknowledged."""
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
    stored = found.get(one.offset)
    return stored is not None and stored.value == one.value


def first_of_successor_s(
    acknowledged: tuple[Acknowledged, ...], found: Mapping[int, Stored], killed_s: float
) -> float:
    """When the first record was acknowledged that lies under a later epoch than before the kill."""
    known = [
        (one.at_s, found[one.offset].leader_epoch) for one in acknowledged if is_found(one, found)
    ]
    before = max(epoch for at_s, epoch in known if at_s <= killed_s)
    after = [at_s for at_s, epoch in known if epoch > before]
    if not after:
        raise ValueError(f"no record has a later leader epoch than {before}: who was killed?")
    return min(after)


def longest_gap_s(acknowledged: tuple[Acknowledged, ...]) -> float:
    times = sorted(one.at_s for one in acknowledged)
    return max((later - earlier for earlier, later in pairwise(times)), default=0)
