"""A leader's volume without any room: producers hear it at once, readers read on, and it passes.

The volume is a file system of a fixed size, and somebody else's file takes all that is left of it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, Message, Producer

from e2e import measured
from e2e.chaos.disk_faults import filled
from e2e.chaos.scene import Scene
from e2e.clients.by_librdkafka import QUIET, Librdkafka, place
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import make_topic

TOPIC = "full-disk"
SAFE = {"min.insync.replicas": 2}
REFUSED_LIMIT_S, AGAIN_LIMIT_S = 1, 30
HANG_FACTOR = 5
STILL_S = 2
EVERY_S = 0.02
RECORDS = 200

pytestmark = [pytest.mark.main, pytest.mark.timeout(600)]


@dataclass(slots=True)
class Impatient:
    """A producer that sends nothing twice, so that every refusal is seen."""

    bootstrap: str
    sent: int = 0
    stored: dict[int, bytes] = field(default_factory=dict)
    """By offset, of what was acknowledged."""
    refusals: list[KafkaError] = field(default_factory=list)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        settings = {"acks": "all", "retries": 0, "linger.ms": 0, **QUIET}
        self.producer = Producer({"bootstrap.servers": self.bootstrap, **settings})

    def send(self) -> None:
        self.producer.produce(TOPIC, b"%d" % self.sent, on_delivery=self.answered)
        self.sent += 1
        self.producer.poll(EVERY_S)

    def answered(self, error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
        if error is not None:
            self.refusals.append(error)
        else:
            value = message.value()
            assert value is not None
            self.stored[place(message)[1]] = value

    def until_refused(self, limit_s: float) -> float:
        return self.until(limit_s, lambda: bool(self.refusals))

    def is_refused_for(self, seconds: float) -> None:
        """Nothing is taken as long as there is no room."""
        before, until_s = len(self.stored), time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.send()
        assert len(self.stored) == before, "records were taken by a full disk"

    def until_stored(self, limit_s: float) -> float:
        before = len(self.stored)
        return self.until(limit_s, lambda: len(self.stored) > before)

    def until(self, limit_s: float, holds: Callable[[], bool]) -> float:
        """Send until it holds; seconds."""
        began_s = time.monotonic()
        while not holds():
            assert time.monotonic() - began_s < limit_s, f"not within {limit_s} s"
            self.send()
        return time.monotonic() - began_s


@pytest.fixture
def scene(cluster: BrokerClusterUnderTest, operator: Operator) -> Iterator[Scene]:
    make_topic(cluster, TOPIC, replicas=3, config=SAFE)
    yield Scene(cluster, operator, TOPIC)
    cluster.kubectl("delete", "ct", TOPIC, "--wait=false")


@pytest.mark.usefixtures("faults")
def test_a_full_disk_is_reported_and_passes(scene: Scene) -> None:
    producer = Impatient(scene.cluster.bootstrap)
    while len(producer.stored) < RECORDS:
        producer.send()
    with filled(scene.volume(scene.some_leader())):
        refused_s = producer.until_refused(REFUSED_LIMIT_S * HANG_FACTOR)
        # Which every client library tries again.
        codes = {one.code() for one in producer.refusals}
        assert codes == {KafkaError.NOT_ENOUGH_REPLICAS}, producer.refusals
        assert len(read(scene, len(producer.stored))) == len(producer.stored)
        producer.is_refused_for(STILL_S)
    again_s = producer.until_stored(AGAIN_LIMIT_S * HANG_FACTOR)
    producer.producer.flush(AGAIN_LIMIT_S)
    found = read(scene, len(producer.stored))
    assert found == producer.stored, "what was acknowledged is there, once, and nothing else"
    measured.note(
        f"full disk: refused after {refused_s:.2f} s (limit {REFUSED_LIMIT_S} s), readers read on, "
        f"taken again {again_s:.1f} s after there was room (limit {AGAIN_LIMIT_S} s)"
    )


def read(scene: Scene, count: int) -> dict[int, bytes | None]:
    """What a reader is given from the beginning: offset -> value."""
    found = Librdkafka().consume(scene.cluster.bootstrap, TOPIC, 0, count)
    return {one.offset: one.record.value for one in found}
