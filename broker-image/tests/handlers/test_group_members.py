"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a whole broker, in old and new versions."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import OK, Group, find_coordinator, listed, running

if TYPE_CHECKING:
    from tests.conftest import Kit

VERSIONS = pytest.mark.parametrize("version", [0, 3, 5, 9])


async def two_members(kit: "Kit", version: int) -> list[tuple[Group, Any]]:
    """A stable group of two: the leader first."""
    groups = [Group(await kit.client(), version=version) for _ in range(2)]
    first, second = groups
    alone = await first.be_alone()
    await second.send_join()
    if version >= 4:
        required = await second.client.receive()
        assert required.error_code == ErrorCode.member_id_required
        await second.send_join(required.member_id)
    while await first.heartbeat(alone) is OK:
        pass  # the other's request is on its way
    joined = await first.join(alone.member_id)
    followed = await second.client.receive()
    assert joined.generation_id == followed.generation_id == 2
    assert joined.leader == followed.leader == joined.member_id
    assert {one.member_id for one in joined.members} == {joined.member_id, followed.member_id}
    assert followed.members == ()
    await second.send_sync(followed)
    synced = await first.sync(joined, {joined.member_id: b"0", followed.member_id: b"1"})
    assert (synced.error_code, synced.assignment) == (OK, b"0")
    synced = await second.client.receive()
    assert (synced.error_code, synced.assignment) == (OK, b"1")
    return [(first, joined), (second, followed)]


@VERSIONS
def test_two_members_join_and_one_leaves(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            (first, joined), (second, followed) = await two_members(kit, version)
            assert await Group(client).state() == "Stable"
            assert await first.heartbeat(joined) is OK
            assert await second.heartbeat(followed) is OK
            left = await second.leave(followed.member_id)
            assert left.error_code == OK
            if version >= 3:
                assert [one.error_code for one in left.members] == [OK]
            assert await first.heartbeat(joined) is ErrorCode.rebalance_in_progress
            assert await second.heartbeat(followed) is ErrorCode.unknown_member_id
            alone = await first.join(joined.member_id)
            assert (alone.generation_id, len(alone.members)) == (3, 1)

    kit.run(scenario)


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client, version=version)
            member = await group.be_alone()
            assert await group.heartbeat(member) is OK
            assert (await group.leave(member.member_id)).error_code == OK
            assert await group.state() == "Empty"
            assert await find_coordinator(client, "g", version=min(version, 5)) == [(OK, 1)]

    kit.run(scenario)


@pytest.mark.parametrize("version", range(10))
def test_every_version_can_be_refused(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client, version=version)
            joined = await group.join(session_ms=1)
            assert joined.error_code == ErrorCode.invalid_session_timeout
            unknown = ErrorCode.unknown_member_id
            joined = await group.join("stranger")
            assert (joined.error_code, joined.member_id) == (unknown, "stranger")
            assert (await group.sync(joined)).error_code == unknown
            assert await group.heartbeat(joined) is unknown
            left = await group.leave("stranger")
            if version < 3:
                assert left.error_code == unknown
            else:
                assert (left.error_code, left.members[0].error_code) == (OK, unknown)
            assert await listed(client) == (OK, {})

    kit.run(scenario)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("name", ["protocol_type", "protocol_name"])
def test_a_sync_says_its_protocol_from_version_5_on(kit: "Kit", version: int, name: str) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client, version=version)
            joined = await group.join()
            await group.send_sync(joined, {joined.member_id: b"0"}, **{name: None})
            code = ErrorCode.inconsistent_group_protocol if version == 5 else OK
            assert (await client.receive()).error_code == code

    kit.run(scenario)


def test_a_static_member_is_back_after_a_restart_without_a_rebalance(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client)
            before = await group.be_alone(instance="i-1")
        async with running(kit) as client:
            group = Group(client)
            while (after := await group.join(instance="i-1")).error_code:
                assert after.error_code == ErrorCode.coordinator_load_in_progress
            assert (after.generation_id, after.skip_assignment) == (before.generation_id, True)
            assert after.member_id != before.member_id
            assert (await group.sync(after)).assignment == b"all"
            assert await group.heartbeat(before) is ErrorCode.unknown_member_id

    kit.run(scenario)


def test_a_member_without_a_heartbeat_is_removed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, group_min_session_timeout_ms="10") as client:
            group = Group(client)
            member = await group.be_alone(session_ms=100, rebalance_ms=50)
            while await group.state() != "Empty":
                pass
            assert await group.heartbeat(member) is ErrorCode.unknown_member_id
        async with running(kit) as client:
            group = Group(client)
            while await group.state() == "":
                pass
            assert await group.state() == "Empty", "that was stored"

    kit.run(scenario)


def test_an_answer_for_somebody_who_has_left_harms_nobody(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group, gone = Group(client), Group(await kit.client(), version=3)
            member = await group.be_alone()
            await gone.send_join()
            while await group.heartbeat(member) is OK:
                pass
            gone.client.writer.close()
            again = await group.join(member.member_id)
            assert (again.error_code, len(again.members)) == (OK, 2)

    kit.run(scenario)
