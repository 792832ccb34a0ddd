"""What a topic holds, as rows that Spark and librdkafka can be asked for alike."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, SparkSession

from e2e.clients.by_librdkafka import QUIET, landed, must_arrive
from e2e.clients.topics import LIMIT_S, end_offsets

FORMAT = "kafka"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A record where it was found. Null and empty differ in keys, values, and header values."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def stored(bootstrap: str, topic: str, partitions: Iterable[int], first: int = 0) -> list[Row]:
    """All records from offset `first` to the current end, read by librdkafka.

    They are sorted by partition and offset.
    """
    numbers = list(partitions)
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", **QUIET}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, first) for number in numbers])
    found: list[Row] = []
    unread = set(numbers)
    try:
        while unread:
            # Not `consume`: it waits until it has as many as it may bring, or all of its time.
            one = consumer.poll(LIMIT_S)
            assert one is not None, f"{topic}: nothing came within {LIMIT_S} s"
            error = one.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
                unread.discard(one.partition())
                continue
            must_arrive(error, one)
            found.append(row_of(one))
    finally:
        consumer.close()
    return sorted(found, key=lambda row: (row.partition, row.offset))


def row_of(message: Any) -> Row:
    place = landed(message)
    kind, timestamp_ms = message.timestamp()
    return Row(
        partition=place.partition,
        offset=place.offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=int(kind != TIMESTAMP_CREATE_TIME),
        key=place.record.key,
        value=place.record.value,
        headers=place.record.headers,
    )


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame from Spark's source for Kafka, sorted by partition and offset."""
    columns = ("partition", "offset", "timestampType", "key", "value", "headers")
    chosen = frame.selectExpr("unix_millis(timestamp) AS ms", *columns).collect()
    found = [
        Row(
            partition=one.partition,
            offset=one.offset,
            timestamp_ms=one.ms,
            timestamp_type=one.timestampType,
            key=octets(one.key),
            value=octets(one.value),
            headers=tuple((name, octets(value)) for name, value in one.headers or ()),
        )
        for one in chosen
    ]
    return sorted(found, key=lambda row: (row.partition, row.offset))


def octets(column: bytearray | None) -> bytes | None:
    return None if column is None else bytes(column)


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """The topic through Spark's source for Kafka, with headers."""
    return (
        spark.read.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
        .options(includeHeaders="true", **options)
        .load()
    )


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Give the topic this many partitions and return when all of them answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(LIMIT_S)
    end_offsets(bootstrap, topic, range(partitions))


def delete_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    """Let the broker delete what lies before the offset, as retention would."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    where = TopicPartition(topic, partition, offset)
    for one in admin.delete_records([where]).values():
        one.result(LIMIT_S)
