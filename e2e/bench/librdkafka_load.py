"""Produce through librdkafka as fast as it goes: `python -m e2e.bench.librdkafka_load`.

It is a process of its own, so that the rest of the bench does not slow it down. Arguments:
bootstrap, topic, number of records, bytes of each. It prints the records a second.
"""

import os
import sys
import time

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import must_arrive

FLUSH_LIMIT_S = 60


def produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    """Produce with acks=all; returns records a second until the last one is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    producer.list_topics(topic, timeout=10)
    value = os.urandom(size)
    started_s = time.monotonic()
    for sent in range(records):
        while True:
            try:
                producer.produce(topic, value, on_delivery=must_arrive)
                break
            except BufferError:  # the producer's queue is full
                producer.poll(0.01)
        if sent % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(FLUSH_LIMIT_S):
        raise TimeoutError(f"{left} of {records} records are not acknowledged")
    return records / (time.monotonic() - started_s)


if __name__ == "__main__":
    print(produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
