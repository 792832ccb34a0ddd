"""Shards of a running broker: loading, giving up, refusals, and what is told when."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.coordinator import group_log, holding, loading
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.partition import Partition
from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import (
    NOBODY,
    OFFSETS,
    OK,
    SUBSCRIBED_TO_ORDERS,
    Group,
    listed,
    loaded,
    partition_of,
    running,
    shard_of,
    unreadable,
    view_of,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

NOT_HERE = ErrorCode.not_coordinator
NOT_NOW = ErrorCode.coordinator_not_available
LOADING = ErrorCode.coordinator_load_in_progress
ORDERS = ("orders", (0,))


def followed_by(broker_id: int) -> dict[str, Any]:
    """A second replica, which never fetches."""
    refs = tuple(ReplicaRef(BrokerId(one), Session(1)) for one in (1, broker_id))
    ids = 1, broker_id
    return {"replicas": ids, "isr": ids, "isr_refs": refs, "live_refs": refs, "leader_session": 1}


async def answered_with_a_follower(
    group: Group, partition: Partition, follower: ReplicaRef
) -> dict[Any, Any]:
    """How far the group has come, while a follower fetches what is there."""
    asked = asyncio.ensure_future(group.offsets(ORDERS))
    while not asked.done():
        await asyncio.sleep(0.001)
        partition.fetched_by(follower, partition.log.end_offset)
    return await asked


async def is_silent(client: "Client") -> bool:
    await asyncio.sleep(0.05)
    try:
        async with asyncio.timeout(0.001):
            await client.reader.readexactly(1)
    except TimeoutError:
        return True
    return False


def let_one_sync_through(kit: "Kit") -> None:
    """What waits for the disk now; not what is begun after it."""
    kit.disk.may_sync.set()
    kit.disk.may_sync.clear()


# -- nothing is told before it is safe


def test_nobody_is_answered_before_the_disk_is_done(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group, member = Group(client), await Group(client).be_alone()
            others = [Group(await kit.client()) for _ in range(7)]
            kit.disk.may_sync.clear()
            who = member.member_id, member.generation_id
            await group.send_commit("orders", (0, 5), member=who)
            await asyncio.sleep(0.01)
            await others[0].send_heartbeat(member)
            await others[1].send_heartbeat(replace(member, member_id="stranger"))
            await others[2].send(ApiKey.LIST_GROUPS, "ListGroupsRequest", **LIST_ALL)
            await others[3].send(ApiKey.DESCRIBE_GROUPS, "DescribeGroupsRequest", **DESCRIBE_G)
            await others[4].send(ApiKey.DELETE_GROUPS, "DeleteGroupsRequest", groups_names=("g",))
            await others[5].send_commit("orders", (0, 9), member=("stranger", 1))
            await others[6].send_sync(member)
            for one in (group, *others):
                assert await is_silent(one.client)
            kit.disk.may_sync.set()
            for one in (group, *others):
                await one.client.receive()
            assert await group.offsets(ORDERS) == {("orders", 0): (5, "", OK)}

    kit.run(scenario)


def test_that_a_group_is_gone_is_reported_when_it_is_safe(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 5)) == [OK]
            kit.disk.may_sync.clear()
            await group.send(ApiKey.DELETE_GROUPS, "DeleteGroupsRequest", groups_names=("g",))
            await asyncio.sleep(0.05)
            others = [Group(await kit.client()) for _ in range(4)]
            deleting = asyncio.ensure_future(others[0].delete_offsets("orders", 0))
            describing = asyncio.ensure_future(others[1].described())
            fetching = asyncio.ensure_future(others[2].offsets())
            committing = asyncio.ensure_future(others[3].commit("orders", (0, 1), member=("m", 1)))
            asked = [deleting, describing, fetching, committing]
            assert await is_silent(client)
            assert not any(one.done() for one in asked)
            kit.disk.may_sync.set()
            assert await deleting == (ErrorCode.group_id_not_found, [])
            assert (await describing).error_code == ErrorCode.group_id_not_found
            assert await fetching == {}
            assert await committing == [ErrorCode.illegal_generation]

    kit.run(scenario)


LIST_ALL = {"states_filter": (), "types_filter": ()}
DESCRIBE_G = {"groups": ("g",), "include_authorized_operations": False}


def test_what_was_requested_is_reported_and_not_what_came_after_it(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            first, reader, second = [Group(await kit.client()) for _ in range(3)]
            kit.disk.may_sync.clear()
            await first.send_commit("orders", (0, 5))
            await asyncio.sleep(0.05)
            fetching = asyncio.ensure_future(reader.offsets(ORDERS))
            await asyncio.sleep(0.05)
            await second.send_commit("orders", (0, 6))
            await asyncio.sleep(0.05)
            let_one_sync_through(kit)
            assert await fetching == {("orders", 0): (5, "", OK)}
            assert await is_silent(second.client)

    kit.run(scenario)


def test_a_disk_that_hangs_is_reported_after_a_while(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "TIMEOUT_S", 0.1)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            kit.disk.may_sync.clear()
            assert await group.commit("orders", (0, 5)) == [NOT_NOW]
            assert (await group.fetched(ORDERS)).error_code == LOADING
            assert (await group.described()).error_code == NOT_NOW
            assert await group.delete() is NOT_NOW
            assert await listed(client) == (NOT_NOW, {})
            assert (await group.join()).error_code == NOT_NOW
            kit.disk.may_sync.set()
            while (await group.fetched(ORDERS)).error_code:
                pass

    kit.run(scenario)


# -- refusals


def test_too_few_in_sync_replicas_refuse_commits_and_generations(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            partition_of(kit).has_min_isr = False
            assert await group.commit("orders", (0, 5), member=who) == [NOT_NOW]
            assert await group.heartbeat(member) is OK, "it needs no record"
            again = await group.join(member.member_id)
            assert again.error_code == NOT_NOW
            partition_of(kit).has_min_isr = True
            assert await group.offsets(ORDERS) == {("orders", 0): (-1, "", OK)}
            assert await group.heartbeat(member) is OK, "what was not stored did not happen"
            assert await group.commit("orders", (0, 5), member=who) == [OK]

    kit.run(scenario)


def test_an_assignment_that_is_refused_leaves_the_generation_to_be_assigned(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            leader, waiting = Group(client), Group(await kit.client())
            alone = await leader.be_alone()
            await waiting.send_join(await joined_id(waiting))
            joined = await leader.join(alone.member_id)
            followed = await waiting.client.receive()
            await waiting.send_sync(followed)
            await asyncio.sleep(0.05)
            partition_of(kit).has_min_isr = False
            assert (await leader.sync(joined, {joined.member_id: b"0"})).error_code == NOT_NOW
            assert (await waiting.client.receive()).error_code == NOT_NOW
            partition_of(kit).has_min_isr = True
            await waiting.send_sync(followed)
            assert await is_silent(waiting.client)
            synced = await leader.sync(joined, {followed.member_id: b"1"})
            assert synced.error_code == OK
            assert (await waiting.client.receive()).assignment == b"1"

    kit.run(scenario)


async def joined_id(group: Group) -> str:
    """What a newcomer is given to join with."""
    await group.send_join()
    return str((await group.client.receive()).member_id)


def test_a_member_is_not_given_up_while_that_cannot_be_stored(
    kit: "Kit", caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(kit, group_min_session_timeout_ms="10") as client:
            group = Group(client)
            member = await group.be_alone(session_ms=1_000, rebalance_ms=500)
            partition_of(kit).has_min_isr = False
            await asyncio.sleep(1.5)
            assert await group.heartbeat(member) is OK
            await asyncio.sleep(1.2)
            end_offset, partition_of(kit).has_min_isr = partition_of(kit).log.end_offset, True
            # It is tried again, whether or not anybody asks for the group.
            while partition_of(kit).log.end_offset == end_offset:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert await group.state() == "Empty"
            assert await group.heartbeat(member) is ErrorCode.unknown_member_id

    kit.run(scenario)
    events = [one.message for one in caplog.records]
    assert events.count("group_record_refused") == 1, "and not again and again"
    assert [one.message for one in caplog.records if one.levelname == "ERROR"] == []


def test_an_assignment_that_is_too_large_is_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client)
            joined = await group.join()
            huge = {joined.member_id: bytes(1 << 21)}
            assert (await group.sync(joined, huge)).error_code == ErrorCode.unknown_server_error
            assert (await group.sync(joined, {joined.member_id: b"0"})).assignment == b"0"

    kit.run(scenario)


def test_a_broken_disk_coordinates_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            kit.disk.break_syncs()
            assert await group.commit("orders", (0, 5), member=(member.member_id, 1)) == [NOT_HERE]
            assert await group.heartbeat(member) is NOT_HERE
            assert (await group.fetched(ORDERS)).error_code == NOT_HERE

    kit.run(scenario)


# -- leaderships


def test_a_new_leadership_begins_with_what_the_one_before_stored(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            assert await group.commit("orders", (0, 5), member=(member.member_id, 1)) == [OK]
            before = shard_of(kit)
            await kit.begin_leadership(OFFSETS)
            await loaded(kit)
            assert shard_of(kit) is not before
            assert await group.heartbeat(member) is OK
            assert await group.offsets(ORDERS) == {("orders", 0): (5, "", OK)}
            assert await group.commit("orders", (0, 6), member=(member.member_id, 1)) == [OK]

    kit.run(scenario)


def test_a_coordinator_that_resigns_answers_all_waiting_requests(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            waiting, held = Group(client), Group(await kit.client())
            alone = await waiting.be_alone()
            newcomer = Group(await kit.client())
            await newcomer.send_join(await joined_id(newcomer))
            await asyncio.sleep(0.05)
            kit.disk.may_sync.clear()
            await held.send_commit("orders", (0, 5), member=(alone.member_id, 1))
            await asyncio.sleep(0.05)
            await kit.begin_leadership(OFFSETS, leader=-1)
            assert (await newcomer.client.receive()).error_code == NOT_HERE
            answer = await held.client.receive()
            assert answer.topics[0].partitions[0].error_code == NOT_HERE
            assert await waiting.heartbeat(alone) is NOT_HERE
            assert await listed(client) == (OK, {})
            kit.disk.may_sync.set()
            await kit.begin_leadership(OFFSETS)
            await loaded(kit)
            assert await waiting.heartbeat(alone) is OK

    kit.run(scenario)


def test_nothing_is_written_in_a_leadership_that_is_not_its_own(kit: "Kit") -> None:
    """A session ends between two leaderships, of which nobody has told the coordinator yet."""

    async def scenario() -> None:
        async with running(kit, group_min_session_timeout_ms="10") as client:
            group = Group(client)
            await group.be_alone(session_ms=50)
            partition, end_offset = partition_of(kit), partition_of(kit).log.end_offset
            (view,) = view_of(kit).partitions
            partition.lead(replace(view, leader_epoch=view.leader_epoch + 1), 1)
            await asyncio.sleep(0.2)
            assert partition.log.end_offset == end_offset
            assert (await group.described()).error_code == NOT_HERE

    kit.run(scenario)


# -- loading


def test_while_it_loads_members_are_put_off(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    may_load = asyncio.Event()

    async def load_later(partition: Partition, new_state: Any) -> GroupsState:
        await may_load.wait()
        state: GroupsState = await real_load(partition, new_state)
        return state

    real_load = loading.load

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            monkeypatch.setattr(group_log, "load", load_later)
            await kit.begin_leadership(OFFSETS)
            who = member.member_id, member.generation_id
            assert await group.heartbeat(member) is OK, "as Kafka says it"
            assert await group.commit("orders", (0, 5), member=who) == [LOADING]
            assert (await group.fetched(ORDERS)).error_code == LOADING
            assert (await group.join(member.member_id)).error_code == LOADING
            assert (await group.leave(member.member_id)).error_code == LOADING
            assert await listed(client) == (LOADING, {})
            # Given up, and led again, before it was loaded.
            first = shard_of(kit)
            await kit.begin_leadership(OFFSETS, leader=-1)
            assert await listed(client) == (OK, {})
            await kit.begin_leadership(OFFSETS)
            may_load.set()
            await loaded(kit)
            assert not first.is_loaded
            assert await group.commit("orders", (0, 5), member=who) == [OK]

    kit.run(scenario)


def test_it_is_loaded_when_all_of_it_is_safe(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 5)) == [OK]
            await kit.begin_leadership(OFFSETS, **followed_by(2))
            await loaded(kit)
            # Nobody has this but its leader.
            await Group(await kit.client()).send_commit("orders", (0, 6))
            await asyncio.sleep(0.05)
            await kit.begin_leadership(OFFSETS)
            assert (await group.fetched(ORDERS)).error_code == LOADING
            partition = partition_of(kit)
            # Cut off for a while, and then not any more.
            partition.isolate()
            assert (await group.fetched(ORDERS)).error_code == NOT_HERE
            partition.is_isolated = False
            assert (await group.fetched(ORDERS)).error_code == LOADING
            follower = ReplicaRef(BrokerId(2), Session(1))
            partition.fetched_by(follower, partition.log.end_offset)
            partition.fetched_by(follower, partition.log.end_offset)
            await loaded(kit)
            answered = await answered_with_a_follower(group, partition, follower)
            assert answered == {("orders", 0): (6, "", OK)}

    kit.run(scenario)


def test_offsets_are_reported_when_a_follower_has_fetched_since_somebody_requested_them(
    kit: "Kit",
) -> None:
    """Else another may lead by now, and know of later commits."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 5)) == [OK]
            await kit.begin_leadership(OFFSETS, **followed_by(2))
            partition, follower = partition_of(kit), ReplicaRef(BrokerId(2), Session(1))
            for _ in range(2):
                partition.fetched_by(follower, partition.log.end_offset)
            await loaded(kit)
            asking = [Group(await kit.client()) for _ in range(3)]
            answers = [asyncio.ensure_future(one.fetched(ORDERS)) for one in asking]
            before = partition.log.end_offset
            await asyncio.sleep(0.05)
            # What the follower had fetched before says nothing of now.
            partition.fetched_by(follower, before)
            await asyncio.sleep(0.05)
            assert not any(one.done() for one in answers)
            assert 0 < partition.log.end_offset - before <= len(answers)
            partition.fetched_by(follower, partition.log.end_offset)
            answered = await asyncio.gather(*answers)
            assert [one.topics[0].partitions[0].committed_offset for one in answered] == [5, 5, 5]

    kit.run(scenario)


def test_a_leader_without_followers_answers_offsets_at_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 5)) == [OK]
            before = partition_of(kit).log.end_offset
            assert await group.offsets(ORDERS) == {("orders", 0): (5, "", OK)}
            assert partition_of(kit).log.end_offset == before

    kit.run(scenario)


def test_what_cannot_be_read_is_coordinated_by_nobody_and_others_are_listed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, offsets_topic_num_partitions="2") as client:
            await client.create("orders")
            bad, good = Group(client, "b"), Group(client, "a")
            assert await bad.commit("orders", (0, 1)) == [OK]
            assert await good.commit("orders", (0, 1)) == [OK]
            index = kit.broker._coordinator.partition_of("b")
            partition_of(kit, index).append(unreadable(), 1)
        async with running(kit) as client:
            bad, good = Group(client, "b"), Group(client, "a")
            while not shard_of(kit, index).failure:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.001)
            assert (await bad.fetched(ORDERS)).error_code == LOADING
            assert await good.offsets(ORDERS) == {("orders", 0): (1, "", OK)}
            assert await listed(client) == (OK, {"a": ("Empty", "")})

    kit.run(scenario)


# -- isolation


def test_a_coordinator_that_is_cut_off_answers_nobody(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            await kit.begin_leadership(OFFSETS, **followed_by(2))
            partition = partition_of(kit)
            follower = ReplicaRef(BrokerId(2), Session(1))
            for _ in range(2):
                partition.fetched_by(follower, partition.log.end_offset)
            await loaded(kit)
            waiting = Group(await kit.client())
            await waiting.send_commit("orders", (0, 5), member=(member.member_id, 1))
            await asyncio.sleep(0.05)
            partition.isolate()
            answer = await waiting.client.receive()
            assert answer.topics[0].partitions[0].error_code == NOT_HERE
            assert await group.heartbeat(member) is NOT_HERE
            assert (await group.fetched(ORDERS)).error_code == NOT_HERE
            assert (await group.described()).error_code == NOT_HERE
            partition.is_isolated = False
            partition.fetched_by(follower, partition.log.end_offset)
            assert await group.heartbeat(member) is OK
            # Its record was in the log all the while.
            answered = await answered_with_a_follower(group, partition, follower)
            assert answered == {("orders", 0): (5, "", OK)}

    kit.run(scenario)


# -- the end


def test_a_broker_that_stops_answers_waiting_joins(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            group, newcomer = Group(await kit.client()), Group(await kit.client())
            await group.be_alone()
            await newcomer.send_join(await joined_id(newcomer))
            await asyncio.sleep(0.05)
            stopping = asyncio.ensure_future(kit.broker.stop())
            async with asyncio.timeout(2):
                assert (await newcomer.client.receive()).error_code == NOT_HERE
                await stopping

    kit.run(scenario)


def test_a_broker_that_stops_does_not_wait_for_what_loads(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load_never(_: Partition, _new_state: Any) -> GroupsState:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    monkeypatch.setattr(group_log, "load", load_never)

    async def scenario() -> None:
        async with running(kit) as client:
            assert (await Group(client).join()).error_code == LOADING
            kit.close_clients()
            async with asyncio.timeout(2):
                await kit.broker.stop()

    kit.run(scenario)


# -- memory


def test_strangers_leave_nothing_behind(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            one = shard_of(kit)
            stranger = Group(client, "g", version=3)
            joined = type("Joined", (), {"generation_id": 3, "member_id": "nobody"})
            for number in range(10_000):
                stranger.group_id = f"stranger-{number}"
                await stranger.send_heartbeat(joined)
                if number % 100 == 0:
                    await client.receive()
                    await stranger.sync(joined)
                    await stranger.commit("orders", (0, 1), member=("nobody", 3))
                    await stranger.leave("nobody")
                    await stranger.join("nobody")
                    assert await stranger.state() == "Dead"
                    assert await stranger.delete() is ErrorCode.group_id_not_found
                    await stranger.fetched(ORDERS)
                else:
                    await client.receive()
            assert (len(one._members), len(one._timers), len(one._waiting)) == (0, 0, 0)
            assert (list(one), len(one._log.safety)) == ([], 0)
            assert partition_of(kit).log.end_offset == 0

    kit.run(scenario)


def test_an_id_that_was_requested_and_not_used_goes_with_its_time(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, group_min_session_timeout_ms="10") as client:
            group = Group(client)
            await group.send_join(session_ms=50)
            assert (await client.receive()).error_code == ErrorCode.member_id_required
            assert list(shard_of(kit)) == ["g"]
            await asyncio.sleep(0.2)
            assert list(shard_of(kit)) == []

    kit.run(scenario)


def test_a_group_is_deleted_with_the_ids_that_were_requested(
    kit: "Kit", caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(kit, group_min_session_timeout_ms="10") as client:
            group = Group(client)
            await group.send_join(session_ms=50)
            await client.receive()
            assert await group.delete() is OK
            assert list(shard_of(kit)) == []
            await asyncio.sleep(0.2)

    kit.run(scenario)
    assert [one.message for one in caplog.records if one.levelname == "ERROR"] == []


def test_nobody_commits_for_a_member(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 1), member=("m", 0)) == [
                ErrorCode.illegal_generation
            ]
            assert await group.commit("orders", (0, 1), member=("m", -1)) == [OK]
            member = await group.be_alone(metadata=SUBSCRIBED_TO_ORDERS)
            who = member.member_id
            unknown, illegal = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
            assert await group.commit("orders", (0, 2), member=NOBODY) == [unknown]
            assert await group.commit("orders", (0, 2), member=("m", 1)) == [unknown]
            assert await group.commit("orders", (0, 2), member=(who, -1)) == [illegal]
            assert await group.commit("orders", (0, 2), member=(who, 2)) == [illegal]
            assert await group.offsets(ORDERS) == {("orders", 0): (1, "", OK)}

    kit.run(scenario)
