"""aiokafka: the first record that a group without commits gets, by auto.offset.reset."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import NoOffsetForPartitionError


async def main(policy: str) -> None:
    async with AIOKafkaConsumer(
        "hour-reset",
        bootstrap_servers=os.environ.get("BOOTSTRAP", "localhost:9092"),
        group_id=f"hour-reset-aiokafka-{policy}",
        auto_offset_reset=policy,
    ) as consumer:
        try:
            record = await consumer.getone()
        except NoOffsetForPartitionError:
            print("no offset")
        else:
            print(f"offset={record.offset} value={record.value.decode()}")


asyncio.run(main(sys.argv[1]))
