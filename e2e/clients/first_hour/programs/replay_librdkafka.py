"""confluent-kafka: every start of this program reads everything from the beginning."""

import os

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

RECORDS = 3


def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    # Instead of the committed offsets, start at the first record of each partition.
    for one in partitions:
        one.offset = OFFSET_BEGINNING
    consumer.assign(partitions)


consumer = Consumer(
    {
        "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
        "group.id": "hour-replay-librdkafka",
    }
)
consumer.subscribe(["hour-replay"], on_assign=assigned)
offsets: list[int | None] = []
while len(offsets) < RECORDS:
    record = consumer.poll(1)
    if record is not None and record.error() is None:
        offsets.append(record.offset())
print("read", offsets)
consumer.close()
