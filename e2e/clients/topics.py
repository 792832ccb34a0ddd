"""Creates topics and asks for their end offsets, without starting a JVM each time."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Landed

LIMIT_S = 20
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
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
    admin.create_topics([topic], operation_timeout=LIMIT_S)[name].result(LIMIT_S)
    end_offsets(bootstrap, name, range(partitions))


def end_offsets(bootstrap: str, topic: str, partitions: Iterable[int]) -> list[int]:
    """The offset that the next record of each partition gets.

    A broker that has just started, or just created the topic, may answer that it does not lead a
    partition yet. Clients are expected to ask again then, and so does this function for `LIMIT_S`.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): latest for number in partitions}
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            answers = admin.list_offsets(wanted, request_timeout=LIMIT_S)
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
