"""A reset as the operator carries it out: positions, then the reset, both over signed HTTP."""

from typing import TYPE_CHECKING

import pytest

from chiplog_core.durations import Duration
from chiplog_core.group_watch.resets import reset_request
from chiplog_core.groups.reset_plan import moment_ms
from chiplog_core.ids import PartitionIndex
from chiplog_core.model.consumer_group import Reset, ResetStrategy
from chiplog_core.model.group_exchange import (
    POSITIONS_PATH,
    RESET_PATH,
    PartitionRequest,
    Positions,
    PositionsRequest,
    ResetAnswer,
    TopicRequest,
)
from chiplog_core.model.group_status import ResetState
from chiplog_wire.records.writer import NewRecord, build_batch
from tests.coordinator.groups_kit import OK, Group
from tests.server.inquiry_kit import Asker, asking

if TYPE_CHECKING:
    from tests.conftest import Kit

NOW_MS = 1_700_000_100_000
BEFORE_MS, SINCE_MS = NOW_MS - 100_000, NOW_MS - 10_000


def batch(count: int, timestamp_ms: int) -> bytes:
    records = [NewRecord(b"value", timestamp_ms=timestamp_ms) for _ in range(count)]
    return bytes(build_batch(records))


async def carried_out(asker: Asker, reset: Reset) -> ResetAnswer:
    wanted = tuple(PartitionRequest(partition=PartitionIndex(index)) for index in (0, 1))
    positions = await asker.ask(
        POSITIONS_PATH,
        PositionsRequest(
            topics=(TopicRequest(topic="orders", partitions=wanted),),
            since_ms=moment_ms(reset, NOW_MS),
        ),
        Positions,
    )
    return await asker.ask(RESET_PATH, reset_request("g", reset, [positions]), ResetAnswer)


@pytest.mark.parametrize(
    ("reset", "offsets"),
    [
        (Reset(id="one", strategy=ResetStrategy.TO_EARLIEST, dry_run=False), (0, 0)),
        (Reset(id="one", strategy=ResetStrategy.TO_LATEST, dry_run=False), (8, 3)),
        (
            Reset(
                id="one",
                strategy=ResetStrategy.BY_DURATION,
                duration=Duration("50s"),
                dry_run=False,
            ),
            (5, 3),
        ),
    ],
)
def test_what_leaders_say_is_enough_for_the_coordinator(
    kit: "Kit", reset: Reset, offsets: tuple[int, int]
) -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders", 2)
            for index, count, timestamp_ms in (
                (0, 5, BEFORE_MS),
                (0, 3, SINCE_MS),
                (1, 3, BEFORE_MS),
            ):
                (answer,) = await client.produce(
                    "orders", batch(count, timestamp_ms), partition=index
                )
                assert answer.error_code == OK
            group = Group(client)
            await group.commit("orders", (0, 7), (1, 2))

            for _ in range(2):
                done = await carried_out(asker, reset)
                assert done.state is ResetState.DONE, done
                assert tuple(one.new_offset for one in done.offsets) == offsets
                assert [one.offset for one in done.offsets] == [7, 2]
            committed = await group.offsets()
            assert tuple(one[0] for one in committed.values()) == offsets

    kit.run(scenario)
