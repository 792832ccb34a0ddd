"""aiokafka, which uses the oldest request versions of the five clients."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)

from e2e.clients.client import READ_LIMIT_S, WRITE_LIMIT_S, Client, Landed, Record


class Aiokafka(Client):
    name: ClassVar[str] = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        settings = {"bootstrap_servers": bootstrap, **self.settings}
        asyncio.run(send(settings, topic, records, codec))

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Landed]:
        settings = {"bootstrap_servers": bootstrap, **self.settings}
        return asyncio.run(read(settings, TopicPartition(topic, partition), count))


async def send(
    settings: Mapping[str, Any], topic: str, records: Sequence[Record], codec: str
) -> None:
    """Send the records in this order; returns once all are acknowledged."""
    producer = AIOKafkaProducer(
        enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
        **settings,
    )
    async with asyncio.timeout(WRITE_LIMIT_S), producer:
        sent = [
            await producer.send(topic, one.value, one.key, headers=list(one.headers))
            for one in records
        ]
        await asyncio.gather(*sent)


async def read(settings: Mapping[str, Any], where: TopicPartition, count: int) -> list[Landed]:
    """The first `count` records of a partition; fewer if no more arrive in `READ_LIMIT_S`."""
    consumer = AIOKafkaConsumer(group_id=None, **settings)
    found: list[Landed] = []
    async with consumer:
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                while len(found) < count:
                    one = await consumer.getone(where)
                    record = Record(one.value, one.key, tuple(one.headers))
                    found.append(Landed(one.partition, one.offset, record))
        except TimeoutError:
            pass  # the caller sees that records are missing
    return found
