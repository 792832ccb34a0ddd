"""aiokafka: ten records with one key and ten without any."""

import asyncio
import os

from aiokafka import AIOKafkaProducer


async def main() -> None:
    servers = os.environ.get("BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(10):
            for key, value in ((b"customer-7", f"keyed {number}"), (None, f"keyless {number}")):
                at = await producer.send_and_wait("hour-sends", value.encode(), key)
                shown = key.decode() if key else None
                print(f"partition={at.partition} offset={at.offset} key={shown} value={value}")


asyncio.run(main())
