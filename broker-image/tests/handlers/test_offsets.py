"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from typing import TYPE_CHECKING

import pytest

from chiplog_broker.handlers.offsets import CLEAN_POINT
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none


@pytest.mark.parametrize(
    ("timestamp", "version", "answer"),
    [
        (-1, 1, (OK, -1, 3)),
        (-1, 8, (OK, -1, 3)),
        (-2, 8, (OK, -1, 1)),
        (-3, 7, (OK, 1, 0)),
        (-3, 6, (ErrorCode.unsupported_version, -1, -1)),
        (-4, 8, (OK, -1, 1)),
        (-4, 7, (ErrorCode.unsupported_version, -1, -1)),
        (-6, 8, (ErrorCode.unsupported_version, -1, -1)),
        (0, 8, (OK, 1, 1)),
        (2, 8, (OK, -1, -1)),
    ],
)
def test_offsets_by_place_and_time(
    kit: "Kit", timestamp: int, version: int, answer: tuple[object, ...]
) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for _ in range(3):
                await client.produce("orders", kit.batch(b"x"))
            if timestamp != -3:
                await client.delete_records("orders", 1)
            code, when, offset = await client.offset("orders", timestamp, version=version)
            assert (code, -1 if when in (None, -1) else 1, offset) == answer

    kit.run(scenario)


def test_readers_of_one_replica_get_its_clean_point(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            await client.produce("orders", kit.batch(b"x"))
            code, _, _ = await client.offset("orders", CLEAN_POINT)
            assert code is ErrorCode.unsupported_version
            asked = await client.offset("orders", CLEAN_POINT, replica_id=-2)
            assert (asked[0], asked[2]) == (OK, -1)  # it never was
            unknown = await client.offset("others", CLEAN_POINT, replica_id=-2)
            assert unknown[0] is ErrorCode.unknown_topic_or_partition

    kit.run(scenario)


def test_an_unknown_partition_and_one_requested_twice(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            code, _, _ = await client.offset("orders", -1)
            assert code is ErrorCode.unknown_topic_or_partition
            await client.create("orders")
            types = client.types(ApiKey.LIST_OFFSETS)
            partition = types.ListOffsetsPartition(
                partition_index=0, current_leader_epoch=-1, timestamp=-1
            )
            topic = types.ListOffsetsTopic(name="orders", partitions=(partition, partition))
            request = types.ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=(topic,), timeout=kit.milliseconds(1000)
            )
            answer = await client.ask(ApiKey.LIST_OFFSETS, request)
            assert [one.error_code for one in answer.topics[0].partitions] == [42, 42]

    kit.run(scenario)


def test_where_an_epoch_ends(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            await client.produce("orders", kit.batch(b"x"))
        async with kit.running() as client:
            await client.produce("orders", kit.batch(b"y"))
            types = client.types(ApiKey.OFFSET_FOR_LEADER_EPOCH)
            for epoch, current, expected in (
                (0, -1, (OK, 0, 1)),
                (1, 1, (OK, 1, 2)),
                (9, -1, (OK, -1, -1)),
                (0, 0, (ErrorCode.fenced_leader_epoch, -1, -1)),
                (0, 2, (ErrorCode.unknown_leader_epoch, -1, -1)),
            ):
                partition = types.OffsetForLeaderPartition(
                    partition=0, current_leader_epoch=current, leader_epoch=epoch
                )
                topic = types.OffsetForLeaderTopic(topic="orders", partitions=(partition,))
                answer = await client.ask(
                    ApiKey.OFFSET_FOR_LEADER_EPOCH,
                    types.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,)),
                )
                (one,) = answer.topics[0].partitions
                assert (one.error_code, one.leader_epoch, one.end_offset) == expected

    kit.run(scenario)


def test_deleting_records(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            unknown = ErrorCode.unknown_topic_or_partition
            assert await client.delete_records("orders", 1) == (unknown, -1)
            await client.create("orders")
            for _ in range(3):
                await client.produce("orders", kit.batch(b"x"))
            out_of_range = (ErrorCode.offset_out_of_range, -1)
            assert await client.delete_records("orders", 4) == out_of_range
            assert await client.delete_records("orders", -2) == out_of_range
            assert await client.delete_records("orders", 2) == (OK, 2)
            assert await client.delete_records("orders", 1) == (OK, 2)
            assert await client.delete_records("orders", -1) == (OK, 3)

    kit.run(scenario)
