"""kafka-python: orders as JSON, those of a customer under one key."""

import json
import os

from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=os.environ.get("BOOTSTRAP", "localhost:9092"),
    key_serializer=str.encode,
    value_serializer=lambda value: json.dumps(value).encode(),
    acks="all",
)
for number in range(1, 7):
    order = {"customer": f"customer-{number % 2}", "number": number}
    sent = producer.send("hour-json", key=order["customer"], value=order)
    at = sent.get(timeout=30)
    print(f"partition={at.partition} offset={at.offset} key={order['customer']} value={number}")
producer.close()
