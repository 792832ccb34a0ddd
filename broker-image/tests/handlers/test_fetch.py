"""What a consumer gets, how much of it, and when."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from chiplog_broker.fetch_sessions.cache import MAX_SESSION_PARTITIONS
from chiplog_broker.handlers import fetch, slices
from chiplog_broker.handlers.without_duplicates import without_duplicates
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import FetchPartition, FetchTopic

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none


async def filled(client: "Client", kit: "Kit", partitions: int = 1, batches: int = 3) -> UUID:
    """A topic with batches of a hundred bytes and some in each partition."""
    await client.create("orders", partitions)
    for index in range(partitions):
        for _ in range(batches):
            await client.produce("orders", kit.batch(b"x" * 100), partition=index)
    return await client.topic_id("orders")


def test_sizes_bound_an_answer_but_one_batch_is_always_sent(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit, partitions=3)
            ((_, whole), _) = await client.fetch(topic_id, (0, 0), (1, 0))
            one = len(whole) // 3
            for max_bytes, sizes in ((1, [one, 0]), (2 * one, [2 * one, 0]), (4 * one, [3, 1])):
                found = await client.fetch(topic_id, (0, 0), (1, 0), max_bytes=max_bytes)
                wanted = sizes if max_bytes < 4 * one else [3 * one, one]
                assert [len(records) for _, records in found] == wanted
            # The rule counts for the first partition that has records, not for each.
            found = await client.fetch(topic_id, (0, 3), (1, 0), (2, 0), partition_max_bytes=1)
            assert [len(records) for _, records in found] == [0, one, 0]

    kit.run(scenario)


def test_the_brokers_own_bound_counts_too(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(fetch_max_bytes="1024") as client:
            topic_id = await filled(client, kit, batches=20)
            # More than the broker would ever send is not waited for.
            ((_, records),) = await client.fetch(topic_id, (0, 0), min_bytes=4096, wait_ms=9000)
            assert 800 < len(records) <= 1024

    kit.run(scenario)


def test_the_end_of_a_segment_is_not_waited_at(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", segment_bytes="1048576", max_message_bytes="1048576")
            for _ in range(2):
                await client.produce("orders", kit.batch(b"x" * 600_000))
            topic_id = await client.topic_id("orders")
            found = await asyncio.wait_for(
                client.fetch(topic_id, (0, 0), min_bytes=1_000_000, max_bytes=2**30, wait_ms=9000),
                timeout=2,
            )
            assert len(found[0][1]) > 600_000

    kit.run(scenario)


def test_places_in_and_outside_of_the_log(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            assert await client.fetch(topic_id, (0, 3)) == [(OK, b"")]
            out_of_range = (ErrorCode.offset_out_of_range, b"")
            assert await client.fetch(topic_id, (0, 4), wait_ms=9000) == [out_of_range]
            assert await client.fetch(topic_id, (0, -5)) == [out_of_range]
            assert await client.delete_records("orders", 2) == (OK, 2)
            assert await client.fetch(topic_id, (0, 1)) == [out_of_range]
            # Kafka says nothing else beside this error.
            answer = await client.ask(ApiKey.FETCH, client.fetch_request(topic_id, (0, 1)))
            (one,) = answer.responses[0].partitions
            assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (-1,) * 3
            answer = await client.ask(ApiKey.FETCH, client.fetch_request(topic_id, (0, 2)))
            (one,) = answer.responses[0].partitions
            assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (3, 3, 2)

    kit.run(scenario)


def test_what_is_not_there(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            unknown = [(ErrorCode.unknown_topic_id, b"")]
            assert await client.fetch(UUID(int=7), (0, 0), wait_ms=9000) == unknown
            assert await client.fetch(None, (0, 0)) == unknown
            ((code, _),) = await client.fetch(topic_id, (9, 0))
            assert code is ErrorCode.unknown_topic_or_partition
            # Nothing is asked for: nothing is waited for.
            assert await client.fetch(topic_id, wait_ms=9000) == []

    kit.run(scenario)


def test_a_client_that_says_it_is_a_broker_is_refused_in_every_version(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            types = client.types(ApiKey.FETCH)
            request = replace(
                client.fetch_request(topic_id, (0, 0)),
                replica_state=types.ReplicaState(replica_id=2, replica_epoch=1),
            )
            answer = await client.ask(ApiKey.FETCH, request)
            assert answer.responses[0].partitions[0].error_code == 31
            old = client.types(ApiKey.FETCH, 4)
            answer = await client.ask(
                ApiKey.FETCH,
                old.FetchRequest(
                    replica_id=2,
                    max_wait=kit.milliseconds(0),
                    min_bytes=1,
                    max_bytes=999,
                    isolation_level=0,
                    topics=(
                        old.FetchTopic(
                            topic="orders",
                            partitions=(
                                old.FetchPartition(
                                    partition=0, fetch_offset=0, partition_max_bytes=999
                                ),
                            ),
                        ),
                    ),
                ),
                4,
            )
            assert answer.responses[0].partitions[0].error_code == 31

    kit.run(scenario)


def test_a_waiting_fetch_is_answered_by_an_append_or_by_its_time(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            consumer = await kit.client()
            request = consumer.fetch_request(topic_id, (0, 3), wait_ms=9000)
            await consumer.send(ApiKey.FETCH, request)
            await asyncio.sleep(0.05)
            assert kit.broker.requests.waiting_fetches == 1
            await client.produce("orders", kit.batch(b"y"))
            answer = await consumer.receive()
            assert answer.responses[0].partitions[0].records
            assert kit.broker.requests.waiting_fetches == 0
            # Fewer bytes than wanted are sent when the time is over.
            ((code, records),) = await consumer.fetch(
                topic_id, (0, 3), min_bytes=10_000, wait_ms=50
            )
            assert code is OK
            assert records

    kit.run(scenario)


def test_what_a_topic_sent_is_counted_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            ((_, records),) = await client.fetch(topic_id, (0, 0), min_bytes=10_000, wait_ms=50)
            exposed = (await kit.broker.exposition().text()).decode()
            prefix = "kafka_server_brokertopicmetrics"
            sent = f'{{topic="orders"}} {len(records)}\n'
            assert f"\n{prefix}_bytesout_total{sent}" in exposed
            assert f"\n{prefix}_bytesin_total{sent}" in exposed
            assert f'\n{prefix}_messagesin_total{{topic="orders"}} 3\n' in exposed

    kit.run(scenario)


def test_a_partition_that_is_named_often_is_read_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            (partition,) = kit.partitions("orders")
            before = partition.counters.fetches
            often = [(0, 3)] * 1000
            # What is said last counts, in the place of what is said first.
            ((code, records),) = await client.fetch(topic_id, *often, (0, 0))
            assert (code, bool(records)) == (OK, True)
            assert partition.counters.fetches == before + 1
            consumer = await kit.client()
            await consumer.send(
                ApiKey.FETCH, consumer.fetch_request(topic_id, *often, wait_ms=9000)
            )
            await client.produce("orders", kit.batch(b"y"))
            (topic,) = (await consumer.receive()).responses
            assert len(topic.partitions) == 1
            assert partition.counters.fetches == before + 2

    kit.run(scenario)


def test_a_topic_that_is_named_twice_is_one_topic() -> None:
    def at(partition: int, offset: int) -> FetchPartition:
        return FetchPartition(partition, -1, offset, -1, -1, 1)

    a, b = uuid4(), uuid4()
    topics = [
        FetchTopic(None, a, [at(0, 1), at(1, 1)]),
        FetchTopic(None, b, [at(0, 2)]),
        FetchTopic(None, a, [at(2, 3), at(0, 4)]),
    ]
    assert without_duplicates(topics) == [
        FetchTopic(None, a, [at(0, 4), at(1, 1), at(2, 3)]),
        FetchTopic(None, b, [at(0, 2)]),
    ]
    assert without_duplicates(topics[:2]) == topics[:2]


def test_more_partitions_than_a_session_may_have_are_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            topic_id = await filled(client, kit)
            wanted = [(index, 0) for index in range(MAX_SESSION_PARTITIONS + 1)]
            request = client.fetch_request(topic_id, *wanted, wait_ms=9000)
            answer = await client.ask(ApiKey.FETCH, request)
            assert (answer.error_code, answer.responses) == (ErrorCode.invalid_request, ())
            old = client.types(ApiKey.FETCH, 4)
            partitions = tuple(
                old.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
                for index, _ in wanted
            )
            request = old.FetchRequest(
                replica_id=-1,
                max_wait=kit.milliseconds(9000),
                min_bytes=1,
                max_bytes=999,
                isolation_level=0,
                topics=(old.FetchTopic(topic="orders", partitions=partitions),),
            )
            (found,) = (await client.ask(ApiKey.FETCH, request, 4)).responses
            assert {one.error_code for one in found.partitions} == {ErrorCode.invalid_request}
            assert len(found.partitions) == len(wanted)

    kit.run(scenario)


def test_a_wide_fetch_is_read_in_slices_and_waits_like_any_other(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "WIDE_PARTITIONS", 2)
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 3)
            topic_id = await client.topic_id("orders")
            partitions = [(index, 0) for index in range(3)]
            assert [one[0] for one in await client.fetch(topic_id, *partitions, wait_ms=0)] == [
                ErrorCode.none
            ] * 3
            reader = await kit.client()
            wait_ms = 60_000
            await reader.send(
                ApiKey.FETCH, reader.fetch_request(topic_id, *partitions, wait_ms=wait_ms)
            )
            while not kit.broker.requests.waiting_fetches:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.001)
            await client.produce("orders", kit.batch(b"x"))
            (topic,) = (await reader.receive()).responses
            assert [bool(one.records) for one in topic.partitions] == [True, False, False]
            assert not kit.broker.requests.waiting_fetches
            # One that waits does not hold up a broker that stops.
            await reader.send(
                ApiKey.FETCH,
                reader.fetch_request(topic_id, *partitions[1:], (0, 1), wait_ms=60_000),
            )

    kit.run(scenario)
