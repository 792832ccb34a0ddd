"""Clients that keep fetch sessions (KIP-227) send and get only changes; others get everything
too."""

import re
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from e2e.bench.java_load import JavaLoad
from e2e.clients.by_kafka_python import KafkaConsumer
from e2e.clients.by_kafka_python import TopicPartition as Place
from e2e.clients.by_librdkafka import QUIET, Librdkafka, landed
from e2e.clients.client import READ_LIMIT_S, Record
from e2e.clients.topics import create_topic
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

PARTITIONS = 300
RECORDS = 600
NAMED_AGAIN_BYTES = 33
"""What a request needs at least for each partition that it names."""
SESSIONS = "kafka_server_fetchsessioncache_numincrementalfetchsessions"
REMEMBERED = "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached"
FETCH_BYTES = 'kafka_network_requestmetrics_requestbytes_total{request="Fetch"}'
FETCHES = 'kafka_network_requestmetrics_totaltime_seconds_count{request="Fetch"}'


def metric(broker: BrokerProcess, name: str) -> float:
    """One sample of a broker's metrics; 0 where there is none yet."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{broker.side_ports[1]}/metrics") as answer:
        found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + READ_LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.fixture
def filled(new_broker: Callable[[], BrokerProcess]) -> BrokerProcess:
    """A broker with records in many partitions of the topic `wide`."""
    broker = new_broker()
    broker.start()
    create_topic(broker.bootstrap, "wide", PARTITIONS)
    write(broker, RECORDS)
    return broker


def write(broker: BrokerProcess, count: int) -> None:
    Librdkafka().produce(broker.bootstrap, "wide", [Record(b"some value")] * count)


def test_java_keeps_a_session(filled: BrokerProcess, tmp_path: Path) -> None:
    with JavaLoad(tmp_path / "java") as java, ThreadPoolExecutor(1) as thread:
        # One more than there is, so that it waits for it.
        reading = thread.submit(java.order, "consume", filled.bootstrap, "wide", 300, RECORDS + 1)
        until(lambda: metric(filled, REMEMBERED) == PARTITIONS)
        assert metric(filled, SESSIONS) == 1
        # The last answers may still be on their way; then it is at the end of all partitions.
        until(lambda: bytes_of_fetches(filled, 3) < 3 * PARTITIONS * NAMED_AGAIN_BYTES / 10)
        assert not reading.done()
        write(filled, 1)
        assert reading.result(READ_LIMIT_S)["records"] > 0
    until(lambda: metric(filled, SESSIONS) == 0)


def bytes_of_fetches(broker: BrokerProcess, count: int) -> float:
    """What the next fetches take in requests."""
    fetches, size_bytes = metric(broker, FETCHES), metric(broker, FETCH_BYTES)
    until(lambda: metric(broker, FETCHES) >= fetches + count)
    return metric(broker, FETCH_BYTES) - size_bytes


def test_kafka_python_keeps_a_session(filled: BrokerProcess) -> None:
    consumer = KafkaConsumer(bootstrap_servers=filled.bootstrap, group_id=None)
    places = [Place("wide", index) for index in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    found = 0
    deadline_s = time.monotonic() + READ_LIMIT_S
    while found < RECORDS and time.monotonic() < deadline_s:
        found += sum(map(len, consumer.poll(timeout_ms=500).values()))
    assert found == RECORDS
    assert metric(filled, SESSIONS) == 1
    consumer.close()
    until(lambda: metric(filled, SESSIONS) == 0)


def test_librdkafka_reads_everything_without_one(filled: BrokerProcess) -> None:
    """It does not implement KIP-227: every fetch of it asks for everything, and is answered so."""
    consumer = Consumer({"bootstrap.servers": filled.bootstrap, "group.id": "none", **QUIET})
    consumer.assign([TopicPartition("wide", n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    found: set[tuple[int, int]] = set()
    deadline_s = time.monotonic() + READ_LIMIT_S
    while len(found) < RECORDS and time.monotonic() < deadline_s:
        for one in consumer.consume(RECORDS, timeout=0.5):
            assert one.error() is None
            place = landed(one)
            found.add((place.partition, place.offset))
    assert metric(filled, SESSIONS) == 0
    consumer.close()
    assert len(found) == RECORDS
