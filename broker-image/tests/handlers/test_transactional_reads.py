"""What readers with `read_committed` get of transactions, and when."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.partitions.marker import Marker
from chiplog_broker.transaction_coordinator.verifying import Question, TransactionVerifier
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
NOW_MS = 1_000_000


@pytest.fixture(autouse=True)
def nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator knows every transaction."""

    async def ask(_: TransactionVerifier, question: Question) -> Any:
        return dict.fromkeys(question.partitions, OK)

    monkeypatch.setattr(TransactionVerifier, "ask", ask)


def in_transaction(producer_id: int, sequence: int = 0) -> bytes:
    producer = Producer(producer_id=producer_id, epoch=0, base_sequence=sequence)
    options = BatchOptions(producer=producer, transactional=True)
    return bytes(build_batch([NewRecord(b"x", timestamp_ms=1)], options))


def end(kit: "Kit", producer_id: int, *, is_commit: bool = False) -> None:
    (partition,) = kit.partitions("orders")
    marker = Marker(
        producer_id=producer_id, producer_epoch=0, is_commit=is_commit, coordinator_epoch=2
    )
    partition.append_marker(marker, NOW_MS)


async def fetch(
    client: "Client", topic_id: UUID, offset: int, *, level: int = 1, **options: Any
) -> Any:
    """The answer for partition 0."""
    request = client.fetch_request(topic_id, (0, offset), **options)
    answer = await client.ask(ApiKey.FETCH, replace(request, isolation_level=level))
    ((one,),) = [topic.partitions for topic in answer.responses]
    return one


def test_readers_get_nothing_of_open_transactions(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            plain = kit.batch(b"x")
            for batch in (plain, in_transaction(1), plain, in_transaction(2)):
                assert (await client.produce("orders", batch, transactional_id="t"))[
                    0
                ].error_code == OK
            one = await fetch(client, topic_id, 0)
            assert (one.high_watermark, one.last_stable_offset) == (4, 1)
            assert len(one.records) == len(plain)
            assert one.aborted_transactions == ()
            assert (await fetch(client, topic_id, 1)).records == b""
            everything = await fetch(client, topic_id, 0, level=0)
            assert (everything.last_stable_offset, everything.aborted_transactions) == (1, None)
            assert len(everything.records) > 3 * len(plain)
            assert await client.offset("orders", -1) == (OK, -1, 1)
            assert await client.offset("orders", 1) == (OK, 1, 0)
            assert await client.offset("orders", -1, version=1) == (OK, -1, 4)
            end(kit, 1)
            await asyncio.sleep(0.1)
            assert await client.offset("orders", -1) == (OK, -1, 3)
            one = await fetch(client, topic_id, 0)
            assert [(t.producer_id, t.first_offset) for t in one.aborted_transactions] == [(1, 1)]
            end(kit, 2, is_commit=True)
            await asyncio.sleep(0.1)
            one = await fetch(client, topic_id, 0)
            assert (one.high_watermark, one.last_stable_offset) == (6, 6)
            assert len(one.aborted_transactions) == 1
            assert (await fetch(client, topic_id, 5)).aborted_transactions == ()

    kit.run(scenario)


@pytest.mark.parametrize("session", [(0, -1), (0, 0)])
def test_a_reader_waits_for_the_end_of_a_transaction(kit: "Kit", session: tuple[int, int]) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            await client.produce("orders", in_transaction(1), transactional_id="t")
            reader = await kit.client()
            waiting = fetch(reader, topic_id, 0, wait_ms=9000, session=session)
            task = asyncio.create_task(waiting)
            await asyncio.sleep(0.1)
            await client.produce("orders", kit.batch(b"x"), transactional_id="t")
            await asyncio.sleep(0.1)
            assert not task.done()
            end(kit, 1)
            one = await asyncio.wait_for(task, 5)
            assert one.records
            assert len(one.aborted_transactions) == 1

    kit.run(scenario)


def test_a_session_reads_a_partition_again_after_a_marker(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            await client.produce("orders", in_transaction(1), transactional_id="t")
            request = replace(
                client.fetch_request(topic_id, (0, 0), session=(0, 0)), isolation_level=1
            )
            opened = await client.ask(ApiKey.FETCH, request)
            assert opened.session_id
            following = replace(
                client.fetch_request(None, session=(opened.session_id, 1)), isolation_level=1
            )
            assert (await client.ask(ApiKey.FETCH, following)).responses == ()
            end(kit, 1)
            await asyncio.sleep(0.1)
            following = replace(following, session_epoch=2)
            answer = await client.ask(ApiKey.FETCH, following)
            (one,) = answer.responses[0].partitions
            assert one.records
            assert len(one.aborted_transactions) == 1

    kit.run(scenario)


def test_open_transactions_are_described(kit: "Kit") -> None:
    async def described(client: "Client") -> list[tuple[int, ...]]:
        types = client.types(ApiKey.DESCRIBE_PRODUCERS)
        topic = types.TopicRequest(name="orders", partition_indexes=(0,))
        request = types.DescribeProducersRequest(topics=(topic,))
        answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, request)
        return [
            (
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in answer.topics[0].partitions[0].active_producers
        ]

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            await client.produce("orders", kit.batch(b"x"), transactional_id="t")
            await client.produce("orders", in_transaction(1), transactional_id="t")
            assert await described(client) == [(1, 0, -1, 1)]
            end(kit, 1)
            assert await described(client) == [(1, 0, 2, -1)]

    kit.run(scenario)
