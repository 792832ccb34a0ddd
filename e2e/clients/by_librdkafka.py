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

from e2e.clients.client import READ_LIMIT_S, WRITE_LIMIT_S, Client, Landed, Record

# No log on stderr: errors are raised or reported to the caller as well, and tests stop brokers
# often.
QUIET = {"log_level": 0}
ANY_PARTITION = -1  # the client's partitioner chooses


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
        """As `Client.produce`; all records go to `partition`, unless it is `ANY_PARTITION`."""
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.codec": codec,
                "linger.ms": 5,
                **QUIET,
                # Choose a partition for each record without a key, not one every ten milliseconds.
                "sticky.partitioning.linger.ms": 0,
                **self.settings,
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
        if left := producer.flush(WRITE_LIMIT_S):
            raise TimeoutError(f"{left} records are not acknowledged after {WRITE_LIMIT_S} s")

    def consume(
        self, bootstrap: str, topic: str, partition: int, count: int, rack: str = ""
    ) -> list[Landed]:
        """As `Client.consume`; `rack` is the consumer's client.rack, "" for none."""
        # librdkafka requires a group.id even from a consumer that joins no group.
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "client.rack": rack,
                **QUIET,
                **self.settings,
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
    """A consumed message as the tests compare it."""
    partition, offset = place(message)
    headers = cast("list[tuple[str, bytes]]", message.headers() or [])
    return Landed(partition, offset, Record(message.value(), message.key(), tuple(headers)))


def place(message: "Message[bytes, bytes]") -> tuple[int, int]:
    """Partition and offset of a message that was consumed, or acknowledged with an offset.

    An idempotent producer may get no offset: use `partition_of` for its messages.
    """
    offset = message.offset()
    assert offset is not None
    return partition_of(message), offset


def partition_of(message: "Message[bytes, bytes]") -> int:
    """The partition of a message, also of one whose offset is unknown.

    If an idempotent producer repeats a batch whose answer was lost, and the broker no longer
    remembers the batch's offset, the acknowledgement contains none.
    """
    partition = message.partition()
    assert partition is not None
    return partition


def must_arrive(error: KafkaError | None, _message: "Message[bytes, bytes]") -> None:
    """Raise `KafkaException` for a record with an error; also used as a delivery callback."""
    if error is not None:
        raise KafkaException(error)
