"""confluent-kafka: the first record that a group without commits gets, by auto.offset.reset."""

import os
import sys

from confluent_kafka import Consumer, KafkaError

policy = sys.argv[1]
consumer = Consumer(
    {
        "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
        "group.id": f"hour-reset-librdkafka-{policy}",
        # librdkafka calls this policy error.
        "auto.offset.reset": policy.replace("none", "error"),
    }
)
consumer.subscribe(["hour-reset"])
while (record := consumer.poll(1)) is None:
    pass
error, value = record.error(), record.value()
if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
    print("no offset")
elif value is not None:
    print(f"offset={record.offset()} value={value.decode()}")
consumer.close()
