"""Answers on connections with TLS: in pieces, in order, and in little memory."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.server.tls_sending import HIDDEN_BYTES, PIECE_BYTES
from chiplog_wire.protocol.apis import ApiKey
from tests.conftest import Client
from tests.server.tls_kit import (
    OK,
    Pki,
    Run,
    connect,
    deaf_client,
    resume,
    serving,
    until,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


def test_readers_that_read_nothing_hold_little_memory(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            client = await connect(kit, pki.context())
            await client.create("orders")
            value = kit.batch(os.urandom(950_000))
            for _ in range(40):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            deaf = [await deaf_client(kit, pki) for _ in range(20)]
            request = client.fetch_request(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            resident_before = resident_bytes()
            for one in deaf:
                await one.send(ApiKey.FETCH, request)
                await one.send(ApiKey.FETCH, request)
            await until(lambda: kit.broker.requests.unsent_bytes > 20 * HIDDEN_BYTES)
            # Kernels take over a bit more, and on a slow machine some answers begin only now.
            await asyncio.sleep(0.5)
            each = kit.broker.requests.unsent_bytes / 20
            assert 0 < each < PIECE_BYTES + HIDDEN_BYTES + 16 * 1024
            # Both ends of each connection are in this process.
            assert resident_bytes() - resident_before < 20 * 2 * 2**20
            ((code, records),) = await client.fetch(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            assert (code, len(records)) == (OK, 40 * len(value))
            # One that begins to read gets everything, in the right order.
            resume(deaf[0])
            for _ in range(2):
                answer = await deaf[0].receive()
                ((partition,),) = [one.partitions for one in answer.responses]
                assert bytes(partition.records) == records
            for one in deaf:
                one.writer.transport.abort()
            await until(lambda: len(acceptor._connections) == 1)
            assert kit.broker.requests.unsent_bytes == 0

    run(scenario)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_stopping_broker_ends_the_answers_that_it_has_begun(
    kit: "Kit", pki: Pki, run: Run
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client = await connect(kit, pki.context())
            await client.create("orders")
            value = kit.batch(os.urandom(950_000))
            for _ in range(10):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            reader = await deaf_client(kit, pki)
            request = client.fetch_request(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            await reader.send(ApiKey.FETCH, request)
            await until(lambda: kit.broker.requests.unsent_bytes)
            stopping = asyncio.create_task(kit.broker.stop())
            await asyncio.sleep(0.1)
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert len(partition.records) == 10 * len(value)
            assert await reader.is_closed()
            client.writer.close()
            await stopping

    run(scenario)


async def waiting_answer(kit: "Kit", pki: Pki) -> tuple[Client, Client, bytes]:
    """A client, one that waits for the rest of an answer from files, and the records in it."""
    client = await connect(kit, pki.context())
    await client.create("orders")
    value = kit.batch(os.urandom(950_000))
    for _ in range(10):
        await client.produce("orders", value)
    topic_id = await client.topic_id("orders")
    whole: dict[str, Any] = {"max_bytes": 2**26, "partition_max_bytes": 2**26}
    ((_, records),) = await client.fetch(topic_id, (0, 0), **whole)
    assert len(records) == 10 * len(value)
    reader = await deaf_client(kit, pki)
    await reader.send(ApiKey.FETCH, client.fetch_request(topic_id, (0, 0), **whole))
    await until(lambda: kit.broker.requests.unsent_bytes)
    return client, reader, records


def test_an_answer_outlives_its_files(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client, reader, records = await waiting_answer(kit, pki)
            assert await client.delete("orders") == OK
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert bytes(partition.records) == records

    run(scenario)


def test_an_answer_that_cannot_be_read_any_more_ends_its_connection(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            _, reader, _ = await waiting_answer(kit, pki)
            (segment,) = kit.directory.glob("data/orders-0/*.log")
            os.truncate(segment, 3_000_000)
            resume(reader)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.receive()
            await until(lambda: len(acceptor._connections) == 1)
            assert kit.broker.requests.unsent_bytes == 0

    kit.run(scenario)


def test_answers_stay_in_order_behind_one_that_waits(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client, reader, records = await waiting_answer(kit, pki)
            batch = kit.batch(b"x")
            for _ in range(3):
                await reader.send(ApiKey.PRODUCE, client.produce_request("orders", batch))
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert bytes(partition.records) == records
            offsets = []
            for _ in range(3):
                ((one,),) = [t.partition_responses for t in (await reader.receive()).responses]
                offsets.append(one.base_offset)
            assert offsets == [10, 11, 12]

    run(scenario)
