"""Writing with a real client, and reading by the data source."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from chiplog_spark.source.register import ChiplogSource
from e2e.kafka.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(
    spark: "SparkSession", broker: BrokerProcess, topic: str, /, **options: str
) -> "DataFrame":
    """A batch read; `options` may also say other than the arguments do."""
    reader = spark.read.format("chiplog").option("bootstrap.servers", broker.bootstrap)
    return reader.option("topic", topic).options(**options).load()


def produced(
    broker: BrokerProcess, topic: str, rows: Iterable[Mapping[str, Any]], **config: Any
) -> None:
    """Rows are arguments of confluent-kafka's `produce`, in order.

    They are sent in one batch: nothing is sent before `flush`, which ignores `linger.ms`.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000, **config})
    for row in rows:
        producer.produce(topic, **row)
    assert producer.flush(30) == 0


def rows_by_split(
    broker: BrokerProcess, topic: str, /, **options: str
) -> list[list[dict[str, Any]]]:
    """What the tasks of a batch read yield, each by itself: all of the source, without a JVM."""
    said = {"bootstrap.servers": broker.bootstrap, "topic": topic} | options
    source = ChiplogSource(said)
    reader = source.reader(source.schema())
    return [
        [row for found in reader.read(one) for row in found.to_pylist()]  # type: ignore[union-attr]
        for one in reader.partitions()
    ]


def rows(broker: BrokerProcess, topic: str, /, **options: str) -> list[dict[str, Any]]:
    """All of them."""
    return [row for split in rows_by_split(broker, topic, **options) for row in split]
