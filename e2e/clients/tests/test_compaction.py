"""A compacted topic: every client reads the last value of each key, at the offset it always had,
and Apache Kafka's own tools and brokers find nothing wrong with what was left."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from e2e.clients.by_librdkafka import QUIET, Librdkafka, landed, must_arrive
from e2e.clients.client import CODECS, Client, Landed, Record
from e2e.clients.clients import CLIENTS
from e2e.clients.subject import subject
from e2e.clients.tests.test_dump_log import dump
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.adopt import AdoptingBroker
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

TOPIC = "table"
KEYS_A_CODEC = 100
A_CODEC = 4_000
LIMIT_S = 120
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(2**20),
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "1024",
}
QUICKLY = {"log.cleaner.backoff.ms": "100"}


@dataclass(frozen=True)
class Table:
    """A topic, and the broker that holds it."""

    broker: BrokerProcess
    sent: list[Record]
    left: list[Landed]
    """What was there when nothing was left to compact."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Written in every codec, by a producer for each, and compacted as far as it goes."""
    with subject()(tmp_path_factory.mktemp("table"), settings=QUICKLY) as broker:
        create_topic(broker.bootstrap, TOPIC, 1, CONFIG)
        chance = random.Random(1)  # noqa: S311 - not for secrets
        sent = []
        for codec in CODECS:
            some = [record(chance, codec, n) for n in range(A_CODEC)]
            Librdkafka().produce(broker.bootstrap, TOPIC, some, codec)
            sent += some
        wait_until_clean(broker)
        yield Table(broker, sent, everything(broker.bootstrap))


def record(chance: random.Random, codec: str, number: int) -> Record:
    """One in a hundred deletes its key. Each codec has its own keys, so some of each stay."""
    key = f"{codec} {chance.randrange(KEYS_A_CODEC)}".encode()
    return Record(None if number % 100 == 0 else chance.randbytes(100).hex().encode(), key)


def wait_until_clean(broker: BrokerProcess) -> None:
    """Until all but the newest segment is compacted."""
    checkpoint = broker.logs / "cleaner-offset-checkpoint"
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        newest = max(int(one.stem) for one in (broker.logs / f"{TOPIC}-0").glob("*.log"))
        lines = checkpoint.read_text().split("\n")[2:] if checkpoint.exists() else []
        if newest and f"{TOPIC} 0 {newest}" in lines:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{TOPIC} is not compacted after {LIMIT_S} s: {newest}, {lines}")


def everything(bootstrap: str) -> list[Landed]:
    """All records that are there, as librdkafka reads them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", **QUIET}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[Landed] = []
    deadline_s = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline_s:
            for one in consumer.consume(1_000, timeout=1):
                error = one.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                must_arrive(error, one)
                found.append(landed(one))
    finally:
        consumer.close()
    raise TimeoutError(f"the end did not come within {LIMIT_S} s")


def values(found: list[Landed]) -> dict[bytes | None, bytes | None]:
    """What a reader has who follows from the beginning to the end, but for deleted keys."""
    table = {one.record.key: one.record.value for one in found}
    return {key: value for key, value in table.items() if value is not None}


def test_the_last_value_of_every_key_is_there(table: Table) -> None:
    whole = [Landed(0, offset, one) for offset, one in enumerate(table.sent)]
    assert values(table.left) == values(whole)
    assert len(table.left) < len(whole) / 2
    assert end_offsets(table.broker.bootstrap, TOPIC, [0]) == [len(whole)]


def test_what_is_left_is_where_it_was_written(table: Table) -> None:
    offsets = [one.offset for one in table.left]
    assert offsets == sorted(set(offsets))
    assert [table.sent[offset] for offset in offsets] == [one.record for one in table.left]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_every_client_reads_it(table: Table, client: Client) -> None:
    """Up to the first codec that it has no library for."""
    readable = next(
        (n for n, codec in enumerate(CODECS) if codec not in client.codecs), len(CODECS)
    )
    expected = [one for one in table.left if one.offset < readable * A_CODEC]
    assert len(expected) > KEYS_A_CODEC
    assert client.consume(table.broker.bootstrap, TOPIC, 0, len(expected)) == expected


@pytest.fixture(scope="module")
def directory(table: Table) -> Path:
    """The partition's, once its broker has stopped; so this comes after what needs the broker."""
    table.broker.stop()
    return table.broker.logs / f"{TOPIC}-0"


def test_kafkas_tool_reads_the_segments(table: Table, directory: Path) -> None:
    segments = sorted(directory.glob("*.log"))
    printed = dump(*segments, "--deep-iteration", "--print-data-log")
    offsets = [
        int(line.split("offset: ")[1].split()[0])
        for line in printed.splitlines()
        if line.startswith("| offset: ")
    ]
    assert offsets == [one.offset for one in table.left]
    assert "deleteHorizonMs: OptionalLong[" in printed


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_indexes_agree_with_the_segments(directory: Path, kind: str) -> None:
    printed = dump(*sorted(directory.glob(f"*.{kind}")))
    assert "offset: " in printed


def test_apache_kafka_takes_it_over(table: Table, directory: Path, tmp_path: Path) -> None:
    with AdoptingBroker(tmp_path / "kafka", directory.parent) as kafka:
        assert everything(kafka.bootstrap) == table.left
        Librdkafka().produce(kafka.bootstrap, TOPIC, [Record(b"from Apache Kafka", b"key")])
        assert end_offsets(kafka.bootstrap, TOPIC, [0]) == [len(table.sent) + 1]
