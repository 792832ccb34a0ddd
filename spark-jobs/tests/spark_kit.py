"""Writing with a real client, and reading by the data source."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

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
    """Rows are arguments of confluent-kafka's `produce`, in order."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, **config})
    for row in rows:
        producer.produce(topic, **row)
    assert producer.flush(30) == 0
