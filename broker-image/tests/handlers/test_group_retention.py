"""A group's own offset retention: set over HTTP, stored, in force, and taken back."""

from typing import TYPE_CHECKING

from chiplog_core.model.group_exchange import (
    FACTS_PATH,
    KEPT_FOR_EVER,
    RETENTION_PATH,
    GroupRefusal,
    GroupRetention,
    GroupsAnswer,
    GroupsRequest,
    RetentionAnswer,
    RetentionRequest,
)
from chiplog_core.model.group_status import GroupState
from tests.coordinator.groups_kit import (
    OK,
    Group,
    all_led,
    loaded,
    partition_of,
    shard_of,
    time_ahead,
)
from tests.server.inquiry_kit import Asker, asking

if TYPE_CHECKING:
    from tests.conftest import Kit

ORDERS = ("orders", (0,))
ONE_MINUTE = {
    "offsets_retention_minutes": "1",
    "offsets_retention_check_interval_ms": "86400000",
}


async def keep(asker: Asker, retention_ms: int | None, group_id: str = "g") -> GroupRefusal | None:
    wanted = GroupRetention(group_id=group_id, retention_ms=retention_ms)
    answer = await asker.ask(RETENTION_PATH, RetentionRequest(groups=(wanted,)), RetentionAnswer)
    (found,) = answer.groups
    assert found.group_id == group_id
    return found.refusal


async def expire(kit: "Kit", later_ms: int) -> None:
    """As if so much time had gone by."""
    with time_ahead(kit, wall_ms=later_ms, ticks_ms=later_ms):
        await kit.broker._coordinator.expire_offsets()


async def has_offsets(group: Group) -> bool:
    offset, _, _ = (await group.offsets(ORDERS))["orders", 0]
    return int(offset) >= 0


def test_it_counts_for_its_group_alone_also_after_a_restart(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, **ONE_MINUTE) as (client, asker):
            await client.create("orders")
            for name in ("g", "short", "other"):
                assert await Group(client, name).commit("orders", (0, 5)) == [OK]
            assert await keep(asker, KEPT_FOR_EVER) is None
            assert await keep(asker, 1_000, "short") is None
            await expire(kit, 2_000)
            assert not await has_offsets(Group(client, "short"))
            assert await has_offsets(Group(client, "other"))
        async with asking(kit, **ONE_MINUTE) as (client, asker):
            await loaded(kit)
            await expire(kit, 10**9)
            assert not await has_offsets(Group(client, "other"))
            assert await has_offsets(Group(client, "g"))
            assert await keep(asker, None) is None
            await expire(kit, 10**9)
            assert not await has_offsets(Group(client, "g"))

    kit.run(scenario)


def test_what_is_stored_already_is_not_written_again(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (_, asker):
            await loaded(kit)
            partition = partition_of(kit)
            for retention_ms, writes in ((None, 0), (5, 1), (5, 0), (6, 1), (None, 1), (None, 0)):
                before = partition.log.end_offset
                assert await keep(asker, retention_ms) is None
                assert partition.log.end_offset == before + writes

    kit.run(scenario)


def test_it_is_reported_in_the_facts_also_where_there_is_no_group(kit: "Kit") -> None:
    """So that the operator finds what nobody wishes any more."""

    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await loaded(kit)
            await keep(asker, 7, "nobody")
            asked = GroupsRequest(partitions=all_led(kit))
            (found,) = (await asker.ask(FACTS_PATH, asked, GroupsAnswer)).groups
            assert (found.group_id, found.state) == ("nobody", GroupState.DEAD)
            assert found.offset_retention_ms == 7
            # It is no group to Kafka's clients.
            assert await Group(client, "nobody").state() == "Dead"
            await keep(asker, None, "nobody")
            assert (await asker.ask(FACTS_PATH, asked, GroupsAnswer)).groups == ()

    kit.run(scenario)


def test_a_deleted_group_leaves_it_for_who_uses_the_name_next(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, **ONE_MINUTE) as (client, asker):
            await client.create("orders")
            group = Group(client)
            await group.commit("orders", (0, 5))
            await keep(asker, KEPT_FOR_EVER)
            assert await group.delete() == OK
            await group.commit("orders", (0, 6))
            await expire(kit, 10**9)
            assert await has_offsets(group)

    kit.run(scenario)


def test_who_does_not_coordinate_stores_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (_, asker):
            await loaded(kit)
            shard = shard_of(kit)
            shard.partition.is_isolated = True
            assert await keep(asker, 5) is GroupRefusal.NOT_COORDINATOR
            shard.partition.is_isolated = False
            shard.is_loaded = False
            assert await keep(asker, 5) is GroupRefusal.LOADING
            shard.is_loaded = True
            assert shard.retention_ms("g") is None

    kit.run(scenario)
