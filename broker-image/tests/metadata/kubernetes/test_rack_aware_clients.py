"""Unmodified clients that name a rack read there: they share no code with us."""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

import pytest

from chiplog_broker.partitions.partition import Partition
from tests.metadata.kubernetes.brokers_kit import Brokers, run
from tests.metadata.kubernetes.racks_kit import reachable, started, until_sent

Landed: TypeAlias = list[tuple[int, bytes]]
"""Offset and value of what a client was given, in its order."""
RACK = "zone-b"
THERE = 2
LIMIT_S = 60.0


# In processes of their own: they leave sockets and tasks behind when a broker goes away.
KAFKA_PYTHON = """
import json, sys, time
from kafka import KafkaConsumer, TopicPartition
bootstrap, rack, count, limit_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
consumer = KafkaConsumer(
    bootstrap_servers=bootstrap, client_rack=rack, auto_offset_reset="earliest"
)
consumer.assign([TopicPartition("orders", 0)])
found, deadline_s = [], time.monotonic() + limit_s
while len(found) < count and time.monotonic() < deadline_s:
    for records in consumer.poll(timeout_ms=200).values():
        found += [(one.offset, one.value.decode()) for one in records]
print(json.dumps(found))
"""
AIOKAFKA = """
import asyncio, json, sys, time
from aiokafka import AIOKafkaConsumer, TopicPartition
bootstrap, rack, count, limit_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
async def read():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, client_rack=rack, auto_offset_reset="earliest"
    )
    await consumer.start()
    consumer.assign([TopicPartition("orders", 0)])
    found, deadline_s = [], time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < deadline_s:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += [(one.offset, one.value.decode()) for one in records]
    print(json.dumps(found), flush=True)
asyncio.run(read())
"""


def kafka_python(bootstrap: str, count: int) -> Landed:
    return by_script(KAFKA_PYTHON, bootstrap, count)


def aiokafka(bootstrap: str, count: int) -> Landed:
    return by_script(AIOKAFKA, bootstrap, count)


def by_script(script: str, bootstrap: str, count: int) -> Landed:
    arguments = (bootstrap, RACK, str(count), str(LIMIT_S))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        stdout=subprocess.PIPE,
        timeout=2 * LIMIT_S,
        check=True,
    )
    return [(offset, value.encode()) for offset, value in json.loads(done.stdout)]


def librdkafka(bootstrap: str, count: int) -> Landed:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.rack": RACK,
            "group.id": "none",
            "enable.auto.commit": False,
        },
        logger=logging.getLogger("librdkafka"),
    )
    found: Landed = []
    try:
        consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
        deadline_s = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < deadline_s:
            for one in consumer.consume(count - len(found), timeout=0.2):
                assert one.error() is None, one.error()
                offset, value = one.offset(), one.value()
                assert offset is not None
                assert value is not None
                found.append((offset, value))
    finally:
        consumer.close()
    return found


async def consumed(client: Callable[[str, int], Landed], bootstrap: str, count: int) -> Landed:
    return await asyncio.to_thread(client, bootstrap, count)


async def begun(reading: "asyncio.Task[Landed]", here: Partition) -> None:
    """Until the client was given something by this follower, or has ended."""
    while not (reading.done() or here.counters.follower_bytes_out):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("client", [kafka_python, librdkafka, aiokafka])
def test_a_client_reads_in_its_rack(brokers: Brokers, client: Callable[[str, int], Landed]) -> None:
    """What is there when it begins, and what comes while it waits at the end."""

    async def scenario() -> None:
        await started(brokers)
        values = [b"%04d" % number for number in range(60)]
        for value in values[:30]:
            await brokers.produce(1, value)
        bootstrap = await reachable(brokers)
        await until_sent(brokers, 30, rack=RACK, to=THERE)
        before = brokers.up[1].replica().counters.sent_to_followers
        reading = asyncio.create_task(consumed(librdkafka, bootstrap, len(values)))
        here = brokers.up[THERE].replica()
        await begun(reading, here)
        for value in values[30:]:
            await brokers.produce(1, value)
        assert await reading == list(enumerate(values))
        # Every byte came from the replica in its rack, where the leader had sent it.
        assert here.counters.follower_bytes_out >= here.log.size_bytes
        assert brokers.up[1].replica().counters.sent_to_followers > before
        assert brokers.up[3].replica().counters.follower_bytes_out == 0

    run(brokers, scenario)


def test_a_client_continues_when_its_replica_is_gone(brokers: Brokers) -> None:
    """As librdkafka does. kafka-python asks a replica that closed its connection again and again
    until its metadata age, whoever serves it."""

    async def scenario() -> None:
        await started(brokers)
        values = [b"%04d" % number for number in range(40)]
        for value in values[:20]:
            await brokers.produce(1, value)
        bootstrap = await reachable(brokers)
        await until_sent(brokers, 20, rack=RACK, to=THERE)
        reading = asyncio.create_task(consumed(librdkafka, bootstrap, len(values)))
        here = brokers.up[THERE].replica()
        await begun(reading, here)
        await brokers.stop(THERE)
        brokers.fence(THERE)
        brokers.lead(1, isr=(1, 3))
        await brokers.settled(1)
        for value in values[20:]:
            await brokers.produce(1, value)
        assert await reading == list(enumerate(values))

    run(brokers, scenario)
