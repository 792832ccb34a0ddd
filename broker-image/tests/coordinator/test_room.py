"""What strangers may make a coordinator remember."""

from typing import TYPE_CHECKING

import pytest

from chiplog_broker.coordinator import group_memory
from chiplog_core.limits import MAX_GROUP_ID_LENGTH
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import Group, running, shard_of

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none
FULL = ErrorCode.coordinator_not_available


def test_the_members_of_all_groups_have_limited_memory(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_memory, "MAX_MEMBERS_BYTES", 3_000)

    async def scenario() -> None:
        async with running(kit) as client:
            around = shard_of(kit)._context
            first, second = Group(client, "first"), Group(client, "second")
            member = await first.be_alone(metadata=b"x" * 3_000)
            assert around.memory.members_bytes > 3_000
            assert ErrorCode((await second.join()).error_code) is FULL
            # Whoever is a member goes on, and may join again.
            assert await first.heartbeat(member) is OK
            assert (await first.join(member.member_id, metadata=b"y")).error_code == OK
            await first.leave(member.member_id)
            assert around.memory.members_bytes == 0
            await second.be_alone()

    kit.run(scenario)


def test_what_is_given_up_gives_its_room_back(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            shard = shard_of(kit)
            await Group(client, "first").be_alone()
            await Group(client, "other").be_alone()
            assert shard._context.memory.members_bytes > 0
            shard.give_up()
            assert shard._context.memory.members_bytes == 0

    kit.run(scenario)


def test_the_number_of_groups_is_limited(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 3)
            first, second = Group(client, "first"), Group(client, "second")
            assert await first.commit("orders", (0, 1)) == [OK]
            monkeypatch.setattr(group_memory, "MAX_GROUPS", 1)
            assert await second.commit("orders", (0, 1)) == [FULL]
            assert ErrorCode((await second.join()).error_code) is FULL
            assert await first.commit("orders", (0, 2), (1, 1)) == [OK, OK]
            await first.be_alone()

    kit.run(scenario)


def test_the_number_of_offsets_is_limited(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 4)
            group = Group(client, "first")
            monkeypatch.setattr(group_memory, "MAX_OFFSETS", 2)
            assert await group.commit("orders", (0, 1), (1, 1)) == [OK, OK]
            assert await group.commit("orders", (2, 1)) == [FULL]
            assert await group.commit("orders", (0, 7)) == [OK]  # it takes no more than before
            assert shard_of(kit).offset_count == 2
            await group.delete_offsets("orders", 0)
            assert shard_of(kit).offset_count == 1
            assert await group.commit("orders", (2, 1)) == [OK]

    kit.run(scenario)


def test_the_id_of_a_new_group_is_bounded(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            for length, code in ((MAX_GROUP_ID_LENGTH, OK), (MAX_GROUP_ID_LENGTH + 1, 24)):
                group = Group(client, "g" * length)
                assert await group.commit("orders", (0, 1)) == [code]
                assert (await group.join()).error_code == code

    kit.run(scenario)


def test_ids_of_members_do_not_repeat_long_names(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            made = kit.broker._coordinator._new_member_id("x" * 30_000)
            assert made.startswith("xxx")
            assert len(made) < 300

    kit.run(scenario)
