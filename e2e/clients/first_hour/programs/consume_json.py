"""kafka-python: reads as many orders as the argument says, and commits after each."""

import json
import os
import sys
from itertools import islice

from kafka import KafkaConsumer

consumer = KafkaConsumer(
    "hour-json",
    bootstrap_servers=os.environ.get("BOOTSTRAP", "localhost:9092"),
    group_id="hour-json",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    key_deserializer=bytes.decode,
    value_deserializer=json.loads,
)
for record in islice(consumer, int(sys.argv[1])):
    number = record.value["number"]
    print(
        f"partition={record.partition} offset={record.offset} key={record.key} value={number}",
        flush=True,
    )
    consumer.commit()
consumer.close()
