"""Where logs begin and end and how old their records are, told by a whole broker over HTTP."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers import log_positions
from chiplog_broker.partitions.partition import Partition
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.group_exchange import (
    POSITIONS_PATH,
    LogRefusal,
    PartitionPosition,
    PartitionRequest,
    Positions,
    PositionsRequest,
    TopicRequest,
)
from chiplog_wire.records.batch import Codec
from chiplog_wire.records.errors import CorruptBatchError
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from tests.server.inquiry_kit import Asker, asking

if TYPE_CHECKING:
    from tests.conftest import Kit


def records(*timestamps_ms: int, **options: Any) -> bytes:
    """A batch with a record of each time."""
    rows = [NewRecord(b"v", b"k", timestamp_ms=one) for one in timestamps_ms]
    return bytes(build_batch(rows, BatchOptions(**options)))


async def position(
    asker: Asker, *offsets: int, since_ms: int | None = None, topic: str = "orders", index: int = 0
) -> PartitionPosition:
    wanted = PartitionRequest(partition=PartitionIndex(index), offsets=tuple(map(Offset, offsets)))
    asked = PositionsRequest(
        topics=(TopicRequest(topic=topic, partitions=(wanted,)),), since_ms=since_ms
    )
    answer = await asker.ask(POSITIONS_PATH, asked, Positions)
    ((found,),) = [one.partitions for one in answer.topics]
    assert found.partition == index
    return found


def times(found: PartitionPosition) -> dict[int, int]:
    return {one.offset: one.timestamp_ms for one in found.times}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_ends_and_the_times_of_a_log(kit: "Kit", codec: Codec) -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await client.produce("orders", records(100, 300, 200, codec=codec))
            await client.produce("orders", records(400, 500, codec=codec))
            found = await position(asker, 0, 1, 2, 4, 5, 9, since_ms=250)
            assert (found.refusal, found.log_start_offset, found.end_offset) == (None, 0, 5)
            assert times(found) == {0: 100, 1: 300, 2: 200, 4: 500}
            assert (found.last_timestamp_ms, found.since_offset) == (500, 1)
            assert (await position(asker, since_ms=501)).since_offset == 5
            assert (await position(asker, since_ms=0)).since_offset == 0
            assert (await position(asker)).since_offset is None
            await client.delete_records("orders", 2)
            found = await position(asker, 0, since_ms=0)
            assert (found.log_start_offset, times(found)) == (2, {0: 200})
            assert found.since_offset == 2

    kit.run(scenario)


def test_of_an_empty_log_there_is_no_time(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            found = await position(asker, 0, since_ms=7)
            assert (found.log_start_offset, found.end_offset, times(found)) == (0, 0, {})
            assert (found.last_timestamp_ms, found.since_offset) == (None, 0)

    kit.run(scenario)


def test_a_record_without_a_time_says_so(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await client.produce("orders", records(-1))
            found = await position(asker, 0)
            assert (times(found), found.last_timestamp_ms) == ({0: -1}, -1)

    kit.run(scenario)


def test_markers_are_no_records(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            (partition,) = kit.partitions("orders")
            partition.append(memoryview(records(100)), 0)
            place_marker(partition)
            await client.produce("orders", records(200))
            assert times(await position(asker, 0, 1, 2)) == {0: 100, 1: 200, 2: 200}

    kit.run(scenario)


def place_marker(partition: Partition) -> None:
    """As a leader of another kind would have written it: producers may not."""
    options = BatchOptions(
        base_offset=partition.log.end_offset, leader_epoch=partition.leader_epoch, control=True
    )
    marker = build_batch([NewRecord(b"\0" * 6, b"\0" * 4, 150)], options)
    partition.log.append_as_follower(memoryview(marker), partition.leader_epoch, 0)


def test_who_does_not_lead_or_cannot_vouch_says_so(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            (partition,) = kit.partitions("orders")
            assert (await position(asker, topic="other")).refusal is LogRefusal.NOT_LEADER
            assert (await position(asker, index=7)).refusal is LogRefusal.NOT_LEADER
            partition.is_isolated = True
            found = await position(asker, 0)
            assert (found.refusal, found.end_offset) == (LogRefusal.NOT_LEADER, None)
            partition.is_isolated = False
            me = kit.broker._cluster.brokers.pop(1)
            assert (await position(asker)).refusal is LogRefusal.NOT_LEADER
            kit.broker._cluster.brokers[1] = me
            partition.go_offline("the disk is gone")
            assert (await position(asker)).refusal is LogRefusal.FAILED

    kit.run(scenario)


def test_what_was_not_found_in_time_is_unknown_and_ends_are_reported(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_positions, "LOOKUPS_LIMIT_S", 0.0)

    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await client.produce("orders", records(100))
            found = await position(asker, 0, since_ms=0)
            assert found == PartitionPosition(
                partition=PartitionIndex(0), end_offset=Offset(1), log_start_offset=Offset(0)
            )

    kit.run(scenario)


def test_what_cannot_be_read_is_unknown(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise CorruptBatchError("bits have turned")

    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await client.produce("orders", records(100))
            (partition,) = kit.partitions("orders")
            monkeypatch.setattr(type(partition.log), "read", broken)
            found = await position(asker, 0)
            assert (found.refusal, found.end_offset, times(found)) == (None, 1, {})
            assert found.last_timestamp_ms is None

    kit.run(scenario)
