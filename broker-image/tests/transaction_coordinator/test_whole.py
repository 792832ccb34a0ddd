"""A standalone broker serves whole transactions: records, offsets, markers and readers."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.groups.batches import commit_records
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from chiplog_wire.records.writer import Producer as Sender
from tests.coordinator.groups_kit import shard_of as group_shard_of
from tests.transaction_coordinator.transactions_kit import OK, Producing, at_rest, loaded, running

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

ORDERS = At("orders", 0)
GROUPS_ORDERS = TopicPartition("orders", 0)
LATEST = -1


def in_transaction(producer: Producer, sequence: int, *records: NewRecord) -> bytes:
    sender = Sender(producer_id=producer.producer_id, epoch=producer.epoch, base_sequence=sequence)
    return bytes(build_batch(records, BatchOptions(producer=sender, transactional=True)))


async def produce(client: "Client", producer: Producer, sequence: int, value: bytes) -> ErrorCode:
    batch = in_transaction(
        producer, sequence, NewRecord(value, timestamp_ms=SystemClock().now_ms())
    )
    request = replace(client.produce_request("orders", batch), transactional_id="t")
    answer = await client.ask(ApiKey.PRODUCE, request)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def read_committed(client: "Client") -> tuple[bytes, list[tuple[int, int]], int]:
    """The bytes of the partition, its aborted transactions and its last stable offset."""
    request: Any = client.fetch_request(await client.topic_id("orders"), (0, 0))
    answer = await client.ask(ApiKey.FETCH, replace(request, isolation_level=1))
    (found,) = answer.responses[0].partitions
    aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
    return bytes(found.records or b""), aborted, found.last_stable_offset


@pytest.mark.parametrize("commit", [True, False])
def test_records_of_a_transaction(kit: "Kit", commit: bool) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            assert await produce(client, producer, 0, b"value") is OK
            assert await client.offset("orders", LATEST) == (OK, -1, 0)
            assert await read_committed(client) == (b"", [], 0)
            assert (await producing.end(producer, commit=commit))[0] is OK
            await at_rest(kit)
            assert await client.offset("orders", LATEST) == (OK, -1, 2)
            records, aborted, last_stable_offset = await read_committed(client)
            assert b"value" in records
            assert aborted == ([] if commit else [(producer.producer_id, 0)])
            assert last_stable_offset == 2
            # The next transaction of the producer.
            await producing.add(producer, ORDERS)
            assert await produce(client, producer, 1, b"next") is OK
            assert (await producing.end(producer))[0] is OK
            await at_rest(kit)
            assert (await read_committed(client))[2] == 4

    kit.run(scenario)


def test_a_fenced_producer_cannot_write_any_more(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            first = await producing.ready()
            await producing.add(first, ORDERS)
            assert await produce(client, first, 0, b"lost") is OK
            second = await producing.ready()
            assert await produce(client, first, 1, b"late") is ErrorCode.invalid_producer_epoch
            await producing.add(second, ORDERS)
            assert await produce(client, second, 0, b"kept") is OK
            assert (await producing.end(second))[0] is OK
            await at_rest(kit)
            records, aborted, _ = await read_committed(client)
            assert aborted == [(first.producer_id, 0)]
            assert b"kept" in records

    kit.run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_transaction(kit: "Kit", commit: bool) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            assert await producing.add_offsets(producer, "g") is OK
            groups = group_shard_of(kit)
            commits = {GROUPS_ORDERS: CommittedOffset(offset=7, commit_timestamp_ms=1)}
            batch = bytearray(in_transaction(producer, 0, *commit_records("g", commits, 1)))
            verification = groups.partition.verifications.begin(producer.producer_id)
            appended = groups.partition.append(
                memoryview(batch), 1, keys_are_checked=True, verification=verification
            )
            groups.partition.verifications.end(verification)
            groups._log.state.apply(batch)
            assert appended.last_offset == 0
            assert groups._log.state.has_pending("g", GROUPS_ORDERS)
            assert (await producing.end(producer, commit=commit))[0] is OK
            await at_rest(kit)
            assert not groups._log.state.has_pending("g", GROUPS_ORDERS)
            offsets = {at: one.offset for at, one in groups.offsets("g").items()}
            assert offsets == ({GROUPS_ORDERS: 7} if commit else {})
        async with running(kit):
            await loaded(kit)
            groups = group_shard_of(kit)
            while not groups.is_loaded:
                await kit.broker._ports.clock.sleep(0.001)
            offsets = {at: one.offset for at, one in groups.offsets("g").items()}
            assert offsets == ({GROUPS_ORDERS: 7} if commit else {})

    kit.run(scenario)


def test_markers_of_other_brokers_and_of_admins(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            assert await produce(client, producer, 0, b"value") is OK
            answers = []
            for version, epoch in ((1, 5), (2, 4)):
                types = client.types(ApiKey.WRITE_TXN_MARKERS, version)
                raised: dict[str, Any] = {"transaction_version": 0} if version == 2 else {}
                marker = types.WritableTxnMarker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    transaction_result=False,
                    topics=tuple(
                        types.WritableTxnMarkerTopic(name=name, partition_indexes=(0,))
                        for name in ("orders", "absent", "__consumer_offsets")
                    ),
                    coordinator_epoch=epoch,
                    **raised,
                )
                request = types.WriteTxnMarkersRequest(markers=(marker,))
                answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, request, version)
                (result,) = answer.markers
                assert result.producer_id == producer.producer_id
                answers.append(
                    {
                        topic.name: ErrorCode(topic.partitions[0].error_code)
                        for topic in result.topics
                    }
                )
            absent = {"absent": ErrorCode.unknown_topic_or_partition}
            fenced = ErrorCode.transaction_coordinator_fenced
            assert answers == [
                {"orders": OK, "__consumer_offsets": OK, **absent},
                {"orders": fenced, "__consumer_offsets": fenced, **absent},
            ]
            assert (await read_committed(client))[1:] == ([(producer.producer_id, 0)], 2)

    kit.run(scenario)
