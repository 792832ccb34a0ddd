"""Fill a topic with keyed records, quickly: `python -m e2e.bench.keyed_load`.

Arguments: bootstrap, topic, records, bytes of key and value together, number of keys. The same
arguments give the same records in the same order.
"""

import random
import sys

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import must_arrive

KEY_BYTES = 12
FLUSH_LIMIT_S = 120


def fill(bootstrap: str, topic: str, records: int, size: int, keys: int) -> None:
    """Write `records` records into partition 0; key and value have `size` bytes together.

    Each key is one of `keys`, at random, with a seed that depends on `records` alone.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
        }
    )
    chance = random.Random(records)  # noqa: S311 - not for secrets
    value = chance.randbytes(size - KEY_BYTES)
    for sent in range(records):
        key = f"key-{chance.randrange(keys):08}"
        while True:
            try:
                producer.produce(topic, value, key, 0, on_delivery=must_arrive)
                break
            except BufferError:  # the producer's queue is full
                producer.poll(0.01)
        if sent % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(FLUSH_LIMIT_S):
        raise TimeoutError(f"{left} of {records} records are not acknowledged")


if __name__ == "__main__":
    fill(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
