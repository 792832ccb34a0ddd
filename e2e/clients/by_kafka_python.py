"""kafka-python."""

import time
import warnings
from collections.abc import Sequence
from typing import ClassVar

from e2e.clients.client import READ_LIMIT_S, WRITE_LIMIT_S, Client, Landed, Record

with warnings.catch_warnings():
    # The library reads its own files with a function that is deprecated in Python now.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (  # type: ignore[import-untyped]
        ConsumerRebalanceListener,
        KafkaConsumer,
        KafkaProducer,
        TopicPartition,
    )
    from kafka import codec as installed
    from kafka.errors import (  # type: ignore[import-untyped]
        KafkaError,
        OffsetOutOfRangeError,
        ProducerFencedError,
    )
    from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

__all__ = [
    "ConsumerRebalanceListener",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaPython",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "ProducerFencedError",
    "TopicPartition",
]


class KafkaPython(Client):
    name: ClassVar[str] = "kafka-python"
    # For the other codecs it needs further packages: only those installed here are tested.
    codecs: ClassVar[tuple[str, ...]] = (
        "none",
        "gzip",
        *(one for one in ("snappy", "lz4", "zstd") if getattr(installed, f"has_{one}")()),
    )

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            **self.settings,
        )
        try:
            sent = [
                producer.send(topic, one.value, one.key, headers=list(one.headers))
                for one in records
            ]
            for future in sent:
                future.get(timeout=WRITE_LIMIT_S)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Landed]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **self.settings)
        where = TopicPartition(topic, partition)
        found: list[Landed] = []
        try:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            deadline_s = time.monotonic() + READ_LIMIT_S
            while len(found) < count and time.monotonic() < deadline_s:
                for one in consumer.poll(timeout_ms=500).get(where, ()):
                    record = Record(one.value, one.key, tuple(one.headers))
                    found.append(Landed(one.partition, one.offset, record))
        finally:
            consumer.close()
        return found[:count]
