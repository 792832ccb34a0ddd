"""confluent-kafka: ten records with one key and ten without any."""

import os

from confluent_kafka import KafkaError, Message, Producer


def delivered(error: KafkaError | None, record: Message) -> None:
    if error is not None:
        raise SystemExit(f"not delivered: {error}")
    key, value = record.key(), record.value()
    print(
        f"partition={record.partition()} offset={record.offset()}"
        f" key={key.decode() if key else None} value={value.decode() if value else None}"
    )


producer = Producer({"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")})
for number in range(10):
    producer.produce("hour-sends", f"keyed {number}", "customer-7", on_delivery=delivered)
    producer.produce("hour-sends", f"keyless {number}", on_delivery=delivered)
producer.flush(30)
