"""kafka-python: the first record that a group without commits gets, by auto.offset.reset."""

import os
import sys

from kafka import KafkaConsumer
from kafka.errors import NoOffsetForPartitionError

policy = sys.argv[1]
consumer = KafkaConsumer(
    "hour-reset",
    bootstrap_servers=os.environ.get("BOOTSTRAP", "localhost:9092"),
    group_id=f"hour-reset-kafka-python-{policy}",
    auto_offset_reset=policy,
)
try:
    record = next(consumer)
except NoOffsetForPartitionError:
    print("no offset")
else:
    print(f"offset={record.offset} value={record.value.decode()}")
finally:
    consumer.close()
