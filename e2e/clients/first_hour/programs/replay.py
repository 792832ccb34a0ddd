"""kafka-python: a group that has read everything reads it again from the beginning."""

import os
from itertools import islice

from kafka import KafkaConsumer

RECORDS = 3

consumer = KafkaConsumer(
    "hour-replay",
    bootstrap_servers=os.environ.get("BOOTSTRAP", "localhost:9092"),
    group_id="hour-replay",
    auto_offset_reset="earliest",
)
print("first", [record.offset for record in islice(consumer, RECORDS)])
consumer.commit()
consumer.seek_to_beginning()
print("again", [record.offset for record in islice(consumer, RECORDS)])
consumer.close()
