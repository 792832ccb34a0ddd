"""Making topics and asking where they end, without a Java start for each."""

import time
from collections.abc import Mapping

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from e2e.clients.by_librdkafka import QUIET

LIMIT_S = 20
NOT_YET = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


def create_topic(
    bootstrap: str, name: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and return when it can be used."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topic = NewTopic(name, partitions, 1, config=dict(config or {}))
    admin.create_topics([topic], operation_timeout=LIMIT_S)[name].result(LIMIT_S)


def end_offset(bootstrap: str, topic: str, partition: int) -> int:
    """The offset the next record of a partition gets.

    A broker that has just started may name itself the leader a moment before it acts as
    one; clients are meant to ask again then, and this does.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **QUIET})
    deadline_s = time.monotonic() + LIMIT_S
    try:
        while True:
            try:
                where = TopicPartition(topic, partition)
                return int(consumer.get_watermark_offsets(where, LIMIT_S)[1])
            except KafkaException as failed:
                if failed.args[0].code() not in NOT_YET or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)
    finally:
        consumer.close()


def topic_names(bootstrap: str) -> set[str]:
    """All topics there are."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    return set(admin.list_topics(timeout=LIMIT_S).topics)
