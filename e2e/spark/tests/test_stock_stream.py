"""Spark's own source and sink for Kafka, streaming: over a restart, growth, and loss."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from e2e.spark.topic_rows import FORMAT, delete_before, grow, stored

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NewTopic = Callable[[int, Mapping[str, str]], str]
LIMIT_S = 240
PARTITIONS = 3


def records(first: int, count: int) -> list[Record]:
    numbers = range(first, first + count)
    return [
        Record(f"{n}".encode(), f"key-{n % 11}".encode(), (("number", f"{n}".encode()),))
        for n in numbers
    ]


def stream(spark: SparkSession, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    return (
        spark.readStream.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
        .options(startingOffsets="earliest", includeHeaders="true", **options)
        .load()
    )


def copy(frame: DataFrame, broker: BrokerProcess, target: str, checkpoint: Path) -> StreamingQuery:
    """Write what is there now to the topic, record for record into the same partition."""
    return (
        frame.select("key", "value", "headers", "partition")
        .writeStream.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": target})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(LIMIT_S), f"not done after {LIMIT_S} s"


def content(broker: BrokerProcess, topic: str) -> list[tuple[object, ...]]:
    found = stored(broker.bootstrap, topic, range(PARTITIONS))
    return [(one.partition, one.offset, one.key, one.value, one.headers) for one in found]


def test_a_query_goes_on_where_its_checkpoint_says(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    source = new_topic(PARTITIONS, {})
    target = f"{source}-copy"
    create_topic(broker.bootstrap, target, PARTITIONS)
    for first in (0, 500):
        Librdkafka().produce(broker.bootstrap, source, records(first, 500), "lz4")
        # A few at a time: the first run is several batches, too.
        frame = stream(spark, broker, source, maxOffsetsPerTrigger="200")
        finish(copy(frame, broker, target, tmp_path))
        assert content(broker, target) == content(broker, source)
    assert len(content(broker, target)) == 1000
    finish(copy(stream(spark, broker, source), broker, target, tmp_path))
    assert content(broker, target) == content(broker, source)


@pytest.fixture
def collected() -> list[tuple[int, int]]:
    """Partition and offset of what a query was given, in its order."""
    return []


@pytest.fixture
def running(
    spark: SparkSession,
    broker: BrokerProcess,
    new_topic: NewTopic,
    tmp_path: Path,
    collected: list[tuple[int, int]],
) -> Iterator[str]:
    """A topic of one partition that a query follows."""
    topic = new_topic(1, {})

    def take(batch: DataFrame, _number: int) -> None:
        collected.extend((one.partition, one.offset) for one in batch.collect())

    frame = stream(spark, broker, topic).select("partition", "offset")
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()
    yield topic
    assert query.exception() is None
    query.stop()


def test_partitions_that_come_later(
    broker: BrokerProcess, running: str, collected: list[tuple[int, int]]
) -> None:
    Librdkafka().produce(broker.bootstrap, running, records(0, 50))
    wait_for(collected, 50)
    grow(broker.bootstrap, running, PARTITIONS)
    for number in range(PARTITIONS):
        Librdkafka().produce(broker.bootstrap, running, records(50, 50), partition=number)
    wait_for(collected, 200)
    found = stored(broker.bootstrap, running, range(PARTITIONS))
    assert sorted(collected) == [(one.partition, one.offset) for one in found]


def wait_for(collected: list[tuple[int, int]], count: int) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while len(collected) < count:
        assert time.monotonic() < deadline_s, f"{len(collected)} of {count} came"
        time.sleep(0.1)


def test_records_that_were_deleted_before_they_were_read(
    spark: SparkSession, broker: BrokerProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    source = new_topic(PARTITIONS, {})
    target = f"{source}-copy"
    create_topic(broker.bootstrap, target, PARTITIONS)
    Librdkafka().produce(broker.bootstrap, source, records(0, 10), partition=0)
    finish(copy(stream(spark, broker, source), broker, target, tmp_path))
    Librdkafka().produce(broker.bootstrap, source, records(10, 30), partition=0)
    delete_before(broker.bootstrap, source, 0, 20)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        finish(copy(stream(spark, broker, source), broker, target, tmp_path))
    frame = stream(spark, broker, source, failOnDataLoss="false")
    finish(copy(frame, broker, target, tmp_path))
    values = [value for _, _, _, value, _ in content(broker, target)]
    assert values == [f"{n}".encode() for n in (*range(10), *range(20, 40))]
