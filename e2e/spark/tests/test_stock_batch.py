"""Spark's own source and sink for Kafka, in batches: what was written is what librdkafka reads."""

import json
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import LIMIT_S, create_topic
from e2e.kafka.process import BrokerProcess
from e2e.spark.topic_rows import FORMAT, delete_before, read, rows, stored

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NewTopic = Callable[[int, Mapping[str, str]], str]
SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int"
)
FIRST_MS = 1_700_000_000_000
HEADERS = (("trace", b"4bf92f35"), ("trace", b"again"), ("empty", b""))
RECORDS = [
    (b"key", b"value", HEADERS, 0),
    (None, b"no key", (), 1),
    (b"deleted", None, (("none", None),), 2),
    (b"", b"", (), 2),
    *((f"key-{n % 7}".encode(), f"padding {n:04} ".encode() * 20, (), n % 3) for n in range(1000)),
]


def write(spark: SparkSession, broker: BrokerProcess, topic: str, frame: DataFrame) -> None:
    (
        frame.write.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": topic})
        .options(includeHeaders="true")
        .save()
    )


@pytest.fixture(scope="module")
def written(spark: SparkSession, broker: BrokerProcess) -> str:
    """A topic with three partitions that Spark wrote to."""
    create_topic(broker.bootstrap, "written", 3)
    write(spark, broker, "written", spark.createDataFrame(RECORDS, SCHEMA))
    return "written"


def test_what_spark_wrote_is_there(broker: BrokerProcess, written: str) -> None:
    found = stored(broker.bootstrap, written, range(3))
    assert sorted((one.partition, repr((one.key, one.value, one.headers))) for one in found) == (
        sorted((number, repr((key, value, named))) for key, value, named, number in RECORDS)
    )


def test_spark_reads_what_is_there(
    spark: SparkSession, broker: BrokerProcess, written: str
) -> None:
    frame = read(spark, broker.bootstrap, written, startingOffsets="earliest", minPartitions="6")
    assert frame.rdd.getNumPartitions() == 6
    assert rows(frame) == stored(broker.bootstrap, written, range(3))


def test_offsets_given_one_by_one(spark: SparkSession, broker: BrokerProcess, written: str) -> None:
    first, last = {"0": 10, "1": -2, "2": 300}, {"0": 20, "1": 5, "2": -1}
    frame = read(
        spark,
        broker.bootstrap,
        written,
        startingOffsets=json.dumps({written: first}),
        endingOffsets=json.dumps({written: last}),
    )
    wanted = {0: range(10, 20), 1: range(5), 2: range(300, 1000)}
    everything = stored(broker.bootstrap, written, range(3))
    assert rows(frame) == [one for one in everything if one.offset in wanted[one.partition]]


def test_from_a_time_on(spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic) -> None:
    """Two partitions whose records are a second apart are each read from their first late record
    on."""
    topic = new_topic(2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    for number in range(100):
        at_ms = FIRST_MS + number * 1_000
        producer.produce(topic, f"{number}", partition=number % 2, timestamp=at_ms)
    assert producer.flush(LIMIT_S) == 0
    everything = stored(broker.bootstrap, topic, range(2))
    moment_ms = FIRST_MS + 40_500
    late = [one for one in everything if one.timestamp_ms >= moment_ms]
    assert [one.offset for one in late] == [*range(21, 50), *range(20, 50)]
    assert rows(read(spark, broker.bootstrap, topic, startingTimestamp=str(moment_ms))) == late


def test_a_time_after_the_end(spark: SparkSession, broker: BrokerProcess, written: str) -> None:
    late_ms = str(2**42)
    options = {"startingTimestamp": late_ms, "startingOffsetsByTimestampStrategy": "latest"}
    assert rows(read(spark, broker.bootstrap, written, **options)) == []
    with pytest.raises(PySparkException, match="No offset matched"):
        read(spark, broker.bootstrap, written, startingTimestamp=late_ms).collect()


def test_only_what_is_committed(spark: SparkSession, broker: BrokerProcess, written: str) -> None:
    frame = read(spark, broker.bootstrap, written, **{"kafka.isolation.level": "read_committed"})
    assert rows(frame) == stored(broker.bootstrap, written, range(3))


def test_a_range_that_was_deleted(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic
) -> None:
    topic = new_topic(1, {})
    Librdkafka().produce(broker.bootstrap, topic, [Record(f"{n}".encode()) for n in range(100)])
    delete_before(broker.bootstrap, topic, 0, 40)
    from_zero = json.dumps({topic: {"0": 0}})
    left = stored(broker.bootstrap, topic, [0], first=40)
    assert [one.offset for one in left] == list(range(40, 100))
    assert rows(read(spark, broker.bootstrap, topic)) == left
    with pytest.raises(Py4JJavaError, match="failOnDataLoss"):
        read(spark, broker.bootstrap, topic, startingOffsets=from_zero).collect()
    taken = read(spark, broker.bootstrap, topic, startingOffsets=from_zero, failOnDataLoss="false")
    assert rows(taken) == left
