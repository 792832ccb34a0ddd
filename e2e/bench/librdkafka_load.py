"""Produce through librdkafka as fast as it goes: `python -m e2e.bench.librdkafka_load`.

A process of its own, so that nothing else of the bench takes its time. Arguments:
bootstrap, topic, records, size. Prints the records a second.
"""

import os
import sys
import time

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import must_arrive

FLUSH_LIMIT_S = 60


def produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    """Records a second, from the first until the last is acknowledged by acks=all."""
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
            except BufferError:
                producer.poll(0.01)
        if sent % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(FLUSH_LIMIT_S):
        raise TimeoutError(f"{left} of {records} records are not acknowledged")
    return records / (time.monotonic() - started_s)


if __name__ == "__main__":
    print(produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
