"""Creates topics and asks for their end offsets, without starting a JVM each time."""

import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import READ_LIMIT_S, Landed

LIMIT_S = 120
"""Hang guard of each request: brokers may be starved, and fail over meanwhile."""
# Answers of a broker that does not lead the partition yet.
NOT_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._NOENT,  # noqa: SLF001 - librdkafka's own word for "no leaders found"
}


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
) -> None:
    """Create a topic and return when every partition of it answers.

    Apache Kafka reports a topic as created before its partitions accept records: a fast producer
    could have its first batch refused and its second accepted.
    """
    create_topics(bootstrap, [name], partitions, config, replicas=replicas)


def create_topics(
    bootstrap: str,
    names: Sequence[str],
    partitions: int,
    config: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
) -> None:
    """As `create_topic`, for several topics in one request."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topics = [NewTopic(name, partitions, replicas, config=dict(config or {})) for name in names]
    for created in admin.create_topics(topics, operation_timeout=LIMIT_S).values():
        created.result(LIMIT_S)
    for name in names:
        end_offsets(bootstrap, name, range(partitions))


def delete_topics(bootstrap: str, names: Iterable[str]) -> None:
    """Delete topics, and return when no broker that is asked lists them any more. Raises
    `TimeoutError` after `LIMIT_S`."""
    wanted = set(names)
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for deleted in admin.delete_topics(sorted(wanted), operation_timeout=LIMIT_S).values():
        deleted.result(LIMIT_S)
    deadline_s = time.monotonic() + LIMIT_S
    while left := wanted & topic_names(bootstrap):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"still listed: {sorted(left)}")
        time.sleep(0.05)


def end_offsets(
    bootstrap: str,
    topic: str,
    partitions: Iterable[int],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[int]:
    """The offset that the next record of each partition gets; with READ_COMMITTED that of the first
    record in an open transaction, if there is any.

    A broker that has just started, or just created the topic, may answer that it does not lead a
    partition yet. Clients are expected to ask again then, and so does this function for `LIMIT_S`.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): latest for number in partitions}
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            answers = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=LIMIT_S)
            return [int(one.result(LIMIT_S).offset) for one in answers.values()]
        except KafkaException as failed:
            if failed.args[0].code() not in NOT_YET or time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def topic_names(bootstrap: str) -> set[str]:
    """The names of all topics, internal ones included."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    return set(admin.list_topics(timeout=LIMIT_S).topics)


def stored(bootstrap: str, topic: str, partitions: Iterable[int]) -> list[list[Landed]]:
    """All records of each of these partitions, in the order of `partitions`."""
    numbers = list(partitions)
    ends = end_offsets(bootstrap, topic, numbers)
    return [
        Librdkafka().consume(bootstrap, topic, partition, end) if end else []
        for partition, end in zip(numbers, ends, strict=True)
    ]


def values_in(
    bootstrap: str, topic: str, partition: int, isolation: str = "read_committed"
) -> list[bytes]:
    """The values of all records of a partition that a consumer with this isolation level gets now:
    by default the committed ones, up to the first open transaction.

    Raises `TimeoutError` where nothing comes for `READ_LIMIT_S`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while (message := consumer.poll(READ_LIMIT_S)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001 - its only name
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()
    raise TimeoutError(f"{len(found)} records, and then nothing")
