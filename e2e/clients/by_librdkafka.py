"""librdkafka, through confluent-kafka."""

import time
from collections.abc import Sequence
from typing import ClassVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from e2e.clients.client import READ_LIMIT_S, Client, Landed, Record

# What goes wrong it tells its caller too; a broker that is down is no news here.
QUIET = {"log_level": 0}
ANY_PARTITION = -1  # the partitioner decides


class Librdkafka(Client):
    name: ClassVar[str] = "librdkafka"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Record],
        codec: str = "none",
        partition: int = ANY_PARTITION,
    ) -> None:
        """As every client's `produce`; to one partition, if the caller gives one."""
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.codec": codec,
                "linger.ms": 5,
                **QUIET,
                # Choose again for each record without a key, not every ten milliseconds.
                "sticky.partitioning.linger.ms": 0,
            }
        )
        for one in records:
            producer.produce(
                topic,
                one.value,
                one.key,
                partition,
                headers=list(one.headers),
                on_delivery=must_arrive,
            )
        if left := producer.flush(READ_LIMIT_S):
            raise TimeoutError(f"{left} records are not acknowledged after {READ_LIMIT_S} s")

    def consume(
        self, bootstrap: str, topic: str, partition: int, count: int, rack: str = ""
    ) -> list[Landed]:
        """As every client's `consume`; in a rack, if the caller gives one."""
        # It asks for a group's name even where it joins none.
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "client.rack": rack,
                **QUIET,
            }
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[Landed] = []
        deadline_s = time.monotonic() + READ_LIMIT_S
        try:
            while len(found) < count and time.monotonic() < deadline_s:
                for one in consumer.consume(count - len(found), timeout=0.5):
                    must_arrive(one.error(), one)
                    found.append(landed(one))
        finally:
            consumer.close()
        return found


def landed(message: "Message[bytes, bytes]") -> Landed:
    partition, offset = place(message)
    headers = cast("list[tuple[str, bytes]]", message.headers() or [])
    return Landed(partition, offset, Record(message.value(), message.key(), tuple(headers)))


def place(message: "Message[bytes, bytes]") -> tuple[int, int]:
    """Partition and offset of a message that came from, or reached, a broker.

    Not for the errors of an idempotent producer: `partition_of`.
    """
    offset = message.offset()
    assert offset is not None
    return partition_of(message), offset


def partition_of(message: "Message[bytes, bytes]") -> int:
    """Where a message is, and that is all an idempotent producer may know of it.

    A batch sent again after its answer was lost is acknowledged without an offset where the
    broker no longer knows which it got.
    """
    partition = message.partition()
    assert partition is not None
    return partition


def must_arrive(error: KafkaError | None, _message: "Message[bytes, bytes]") -> None:
    """Called by librdkafka with what became of a record."""
    if error is not None:
        raise KafkaException(error)
