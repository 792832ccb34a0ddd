"""OffsetCommit, OffsetFetch and OffsetDelete of a whole broker, in old and new versions."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.requests import Identity
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import (
    OK,
    Group,
    listed,
    partition_of,
    running,
    shard_of,
    time_ahead,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

UNKNOWN = ErrorCode.unknown_topic_or_partition
NO_COMMIT = (-1, "", OK)


@pytest.mark.parametrize("version", [2, 4, 5, 6, 8, 9])
def test_what_was_committed_is_found(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 3)
            group = Group(client, version=version)
            assert await group.commit("orders", (0, 5), (1, 6, "half"), (2, 7, "")) == [OK] * 3
            expected = {("orders", 0): (5, "", OK), ("orders", 1): (6, "half", OK)}
            for asking in (1, 2, 5, 7, 8, 9):
                reader = Group(client, version=asking)
                assert await reader.offsets(("orders", (0, 1))) == expected
            found = await reader.fetched(("orders", (0,)))
            epoch = found.topics[0].partitions[0].committed_leader_epoch
            assert epoch == (7 if version >= 6 else -1)

    kit.run(scenario)


def test_topics_by_their_ids(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            orders, empty_group = await client.topic_id("orders"), UUID(int=5)
            group = Group(client, version=10)
            assert await group.commit(orders, (0, 5), (2, 5)) == [OK, UNKNOWN]
            assert await group.commit(empty_group, (0, 5)) == [ErrorCode.unknown_topic_id]
            found = await group.offsets((orders, (0, 1, 7)), (empty_group, (0,)))
            assert found == {
                (orders, 0): (5, "", OK),
                (orders, 1): NO_COMMIT,
                (orders, 7): NO_COMMIT,
                (empty_group, 0): (-1, "", ErrorCode.unknown_topic_id),
            }
            assert await group.offsets() == {(orders, 0): (5, "", OK)}

    kit.run(scenario)


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_all_that_there_is(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            await client.create("other")
            group = Group(client, version=version)
            assert await group.offsets() == {}
            await group.commit("orders", (1, 5))
            await group.commit("other", (0, 6))
            assert await Group(client, "another").commit("other", (0, 9)) == [OK]
            assert await group.offsets() == {("orders", 1): (5, "", OK), ("other", 0): (6, "", OK)}
            assert await group.offsets(("unheard", (0,))) == {("unheard", 0): NO_COMMIT}

    kit.run(scenario)


def test_many_groups_at_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            for number in range(3):
                assert await Group(client, f"g{number}").commit("orders", (0, number)) == [OK]
            types = client.types(ApiKey.OFFSET_FETCH, 9)
            groups = tuple(
                types.OffsetFetchRequestGroup(
                    group_id=one, member_id=None, member_epoch=-1, topics=None
                )
                for one in ("g2", "g0", "nobody")
            )
            request = types.OffsetFetchRequest(groups=groups, require_stable=True)
            answer = await client.ask(ApiKey.OFFSET_FETCH, request, 9)
            found = [
                (
                    one.group_id,
                    one.error_code,
                    [t.partitions[0].committed_offset for t in one.topics],
                )
                for one in answer.groups
            ]
            assert found == [("g2", OK, [2]), ("g0", OK, [0]), ("nobody", OK, [])]

    kit.run(scenario)


def test_a_group_that_is_named_often_is_answered_once(kit: "Kit") -> None:
    """Its name takes a few bytes, all of its commits may take millions."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await Group(client).commit("orders", (0, 5)) == [OK]
            types = client.types(ApiKey.OFFSET_FETCH, 9)
            some = (types.OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
            groups = tuple(
                types.OffsetFetchRequestGroup(
                    group_id="g", member_id=str(number), member_epoch=-1, topics=topics
                )
                for topics in (None, some)
                for number in range(20)
            )
            request = types.OffsetFetchRequest(groups=groups, require_stable=True)
            answer = await client.ask(ApiKey.OFFSET_FETCH, request, 9)
            assert [one.group_id for one in answer.groups] == ["g", "g"]
            for one in answer.groups:
                assert [t.partitions[0].committed_offset for t in one.topics] == [5]

    kit.run(scenario)


def test_each_partition_of_a_commit_is_judged_by_itself(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, offset_metadata_max_bytes="4") as client:
            await client.create("orders", 3)
            group = Group(client)
            large = ErrorCode.offset_metadata_too_large
            codes = await group.commit("orders", (0, 1, "half"), (1, 1, "halfs"), (3, 1), (-1, 1))
            assert codes == [OK, large, UNKNOWN, UNKNOWN]
            assert await group.commit("unheard", (0, 1)) == [UNKNOWN]
            # What is longer is not the number of letters.
            assert await group.commit("orders", (2, 1, "äöü")) == [large]
            assert await group.offsets() == {("orders", 0): (1, "half", OK)}

    kit.run(scenario)


def test_a_partition_that_is_named_twice(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, offset_metadata_max_bytes="4") as client:
            await client.create("orders")
            group, large = Group(client), ErrorCode.offset_metadata_too_large
            assert await group.commit("orders", (0, 1), (0, 2)) == [OK, OK]
            assert await group.offsets() == {("orders", 0): (2, "", OK)}
            assert await group.commit("orders", (0, 3), (0, 4, "too large")) == [OK, large]
            assert await group.offsets() == {("orders", 0): (3, "", OK)}

    kit.run(scenario)


def test_a_commit_of_nothing_makes_no_group(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            assert await Group(client).commit("orders") == []
            assert await listed(client) == (OK, {})
            assert partition_of(kit).log.end_offset == 0

    kit.run(scenario)


def test_the_group_without_a_name_commits_and_fetches_and_nothing_else(kit: "Kit") -> None:
    """Old consumers that assign their partitions have none; Kafka lets them."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group, invalid = Group(client, ""), ErrorCode.invalid_group_id
            assert await group.commit("orders", (0, 5)) == [OK]
            assert await group.offsets(("orders", (0,))) == {("orders", 0): (5, "", OK)}
            joined = await group.join()
            assert joined.error_code == invalid
            assert (await group.sync(joined)).error_code == invalid
            assert await group.heartbeat(joined) is invalid
            assert (await group.leave("m")).error_code == invalid
            assert await group.delete_offsets("orders", 0) == (invalid, [])
            assert await group.state() == "Empty"
            assert await group.delete() is OK

    kit.run(scenario)


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9, 10])
def test_the_first_version_says_by_partition_what_others_say_once(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit, offsets_topic_num_partitions="1") as client:
            await client.create("orders")
            orders: Any = await client.topic_id("orders") if version == 10 else "orders"
            partition_of(kit).resign()
            kit.broker._coordinator.refresh()
            answer = await Group(client, version=version).fetched((orders, (0, 1)))
            told = ErrorCode.not_coordinator
            if version > 1:
                assert (answer.error_code, answer.topics) == (told, ())
            else:
                (topic,) = answer.topics
                assert [one.error_code for one in topic.partitions] == [told] * 2
                assert {one.committed_offset for one in topic.partitions} == {-1}

    kit.run(scenario)


@pytest.mark.parametrize(("version", "retention_ms"), [(9, -1), (2, 60_000), (4, 60_000)])
def test_a_topic_that_is_created_again_inherits_no_commits(
    kit: "Kit", version: int, retention_ms: int
) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group, old = Group(client), Group(client, version=version)
            assert await old.commit("orders", (0, 5), retention_ms=retention_ms) == [OK]
            await client.delete("orders")
            assert await group.state() == "Dead", "nothing is kept of what nobody can read"
            assert await group.offsets(("orders", (0,))) == {("orders", 0): NO_COMMIT}
            assert await group.offsets() == {}
            await client.create("orders")
            assert await group.offsets(("orders", (0,))) == {("orders", 0): NO_COMMIT}
            assert await group.offsets() == {}
            assert await group.commit("orders", (0, 1)) == [OK]
            assert await group.offsets() == {("orders", 0): (1, "", OK)}

    kit.run(scenario)


LOADING = ErrorCode.coordinator_load_in_progress


def test_a_group_is_requested_again_until_its_topic_is_known(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            for name in ("orders", "other"):
                await client.create(name, 2)
            group, by_id = Group(client), Group(client, version=10)
            for name in ("orders", "other"):
                assert await group.commit(name, (0, 5)) == [OK]
            cluster, (orders, other) = kit.broker._cluster, (("orders", (0,)), ("other", (0,)))
            view = cluster.topic("orders")
            assert view is not None
            cluster.remove("orders")
            cluster.announce("orders", view.topic_id)
            for asked in ((orders,), (other, orders), ()):
                found = await group.fetched(*asked)
                assert (found.error_code, list(found.topics)) == (LOADING, [])
            assert (await by_id.fetched((view.topic_id, (1,)))).error_code == LOADING
            # The first version has no code for a group.
            told = await Group(client, version=1).offsets(orders, other)
            assert set(told.values()) == {(-1, "", LOADING)}
            # What is not asked for, or was never committed, does not have to be known.
            assert await group.offsets(other) == {("other", 0): (5, "", OK)}
            assert await group.offsets(("orders", (1,))) == {("orders", 1): NO_COMMIT}
            assert await Group(client, "another").offsets(orders) == {("orders", 0): NO_COMMIT}
            assert await group.commit("orders", (0, 6)) == [LOADING]
            assert await by_id.commit(view.topic_id, (0, 6)) == [LOADING]
            cluster.put(view)
            assert await group.offsets(orders) == {("orders", 0): (5, "", OK)}
            assert await group.offsets() == dict.fromkeys(told, (5, "", OK))

    kit.run(scenario)


def test_of_a_topic_that_is_gone_nothing_is_committed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group, orders = Group(client), ("orders", (0,))
            assert await group.commit("orders", (0, 5)) == [OK]
            cluster = kit.broker._cluster
            view = cluster.topic("orders")
            assert view is not None
            cluster.remove("orders")
            assert await group.offsets(orders) == {("orders", 0): NO_COMMIT}
            assert await group.offsets() == {}
            # Nor of the topic that will have its name: what is stored is of the one before.
            cluster.announce("orders", UUID(int=7))
            assert await group.offsets(orders) == {("orders", 0): NO_COMMIT}
            # But of the one before nobody hears what is committed for the next one.
            cluster.put(view)
            cluster.announce("orders", UUID(int=7))
            partition = TopicPartition("orders", 0)
            commit = CommittedOffset(offset=9, commit_timestamp_ms=0, topic_id=UUID(int=7))
            shard = shard_of(kit)
            made = outcome(lambda told: shard.commit("g", Identity(), {partition: commit}, told))
            assert await made is OK
            assert (await group.fetched(orders)).error_code == LOADING
            assert await group.commit("orders", (0, 6)) == [LOADING]

    kit.run(scenario)


def test_commits_and_members_are_there_after_a_restart(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            group = Group(client)
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            assert await group.commit("orders", (0, 5, "half"), member=who) == [OK]
            assert await Group(client, "simple").commit("orders", (1, 6)) == [OK]
            described = await group.described()
        async with running(kit) as client:
            group = Group(client)
            while await group.state() == "":
                pass  # it is loading
            assert await group.described() == described
            assert await group.offsets() == {("orders", 0): (5, "half", OK)}
            assert await Group(client, "simple").offsets() == {("orders", 1): (6, "", OK)}
            assert await group.heartbeat(member) is OK
            assert await group.commit("orders", (0, 6), member=who) == [OK]
            assert (await group.sync(member)).assignment == b"all"

    kit.run(scenario)


# -- times


@pytest.mark.parametrize("retention_ms", [60_000, (1 << 63) - 1])
def test_a_commit_may_say_how_long_it_is_kept(kit: "Kit", retention_ms: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client, version=4)
            await send_retention(group, retention_ms)
            assert (await client.receive()).topics[0].partitions[0].error_code == OK
            await forget_later(kit, 59_000)
            assert await group.offsets() == {("orders", 0): (5, "", OK)}
            await forget_later(kit, 61_000)
            expected = {} if retention_ms == 60_000 else {("orders", 0): (5, "", OK)}
            assert await group.offsets() == expected

    kit.run(scenario)


async def send_retention(group: Group, retention_ms: int) -> None:
    """A commit of version 4. kio has durations where the protocol has a number."""
    client = group.client
    await group.send_commit("orders", (0, 5), retention_ms=60_000)
    if retention_ms != 60_000:
        await client.receive()
        await send_raw_retention(client, retention_ms)


async def send_raw_retention(client: "Client", retention_ms: int) -> None:
    def text(one: bytes) -> bytes:
        return len(one).to_bytes(2, "big") + one

    body = b"".join(
        (
            text(b"g"),
            (-1).to_bytes(4, "big", signed=True),
            text(b""),
            retention_ms.to_bytes(8, "big"),
            (1).to_bytes(4, "big"),
            text(b"orders"),
            (1).to_bytes(4, "big"),
            (0).to_bytes(4, "big"),
            (5).to_bytes(8, "big"),
            text(b""),
        )
    )
    header = (8).to_bytes(2, "big") + (4).to_bytes(2, "big") + (0).to_bytes(4, "big") + b"\xff\xff"
    frame = header + body
    client.writer.write(len(frame).to_bytes(4, "big") + frame)
    client._sent.append((ApiKey.OFFSET_COMMIT, 4))


async def forget_later(kit: "Kit", after_ms: int) -> None:
    """What expires within this time, by the broker's own retention."""
    with time_ahead(kit, wall_ms=after_ms, ticks_ms=after_ms):
        await kit.broker._coordinator.expire_offsets()


WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("step_ms", [WEEK_MS, -WEEK_MS])
def test_commits_have_the_time_of_the_wall_clock_as_it_is_now(kit: "Kit", step_ms: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            before_ms = kit.broker._coordinator.now_ms()
            with time_ahead(kit, wall_ms=step_ms):
                assert await group.commit("orders", (0, 5), member=who) == [OK]
                assert await group.heartbeat(member) is OK
            (commit,) = shard_of(kit).offsets("g").values()
            assert 0 <= commit.commit_timestamp_ms - step_ms - before_ms < 600_000
            stored = shard_of(kit)._log.state.group("g")
            assert stored is not None
            assert abs(stored.current_state_timestamp_ms - before_ms) < 600_000

    kit.run(scenario)


@pytest.mark.parametrize(("wall_ms", "ticks_ms"), [(1, 0), (0, 1), (1, -1), (-1, 1)])
def test_nothing_expires_because_one_clock_jumped(kit: "Kit", wall_ms: int, ticks_ms: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.commit("orders", (0, 5)) == [OK]
            jumped = time_ahead(kit, wall_ms=wall_ms * 9 * WEEK_MS, ticks_ms=ticks_ms * 9 * WEEK_MS)
            with jumped:
                await kit.broker._coordinator.expire_offsets()
            assert await group.offsets() == {("orders", 0): (5, "", OK)}

    kit.run(scenario)


def test_what_nobody_came_back_for_expires(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            simple, left, there = (Group(client, one) for one in ("simple", "left", "there"))
            await simple.commit("orders", (0, 1))
            for group in (left, there):
                member = await group.be_alone()
                who = member.member_id, member.generation_id
                assert await group.commit("orders", (0, 2), member=who) == [OK]
                if group is left:
                    await group.leave(member.member_id)
            await forget_later(kit, WEEK_MS - 10_000)
            assert set((await listed(client))[1]) == {"simple", "left", "there"}
            await forget_later(kit, WEEK_MS + 10_000)
            assert (await listed(client))[1] == {"there": ("Stable", "consumer")}
            assert await there.offsets() == {("orders", 0): (2, "", OK)}
            assert await simple.offsets() == await left.offsets() == {}
        async with running(kit) as client:
            there = Group(client, "there")
            while await there.state() == "":
                pass
            assert list((await listed(client))[1]) == ["there"]

    kit.run(scenario)


def test_nothing_expires_while_nobody_knows_what_is_subscribed_to(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            await client.create("other")
            group, newcomer = Group(client), Group(await kit.client(), version=3)
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            await group.commit("orders", (0, 1), member=who)
            await group.commit("other", (0, 2), member=who)
            await newcomer.send_join()
            while await group.heartbeat(member) is OK:
                pass
            await forget_later(kit, WEEK_MS + 10_000)
            orders, other = ("orders", 0), ("other", 0)
            assert await group.offsets() == {orders: (1, "", OK), other: (2, "", OK)}
            joined = await group.join(member.member_id)
            await group.sync(joined, {})
            await forget_later(kit, WEEK_MS + 10_000)
            assert await group.offsets() == {orders: (1, "", OK)}

    kit.run(scenario)


def test_the_broker_deletes_expired_offsets_automatically(kit: "Kit") -> None:
    async def scenario() -> None:
        often = {"offsets_retention_check_interval_ms": "10"}
        async with running(kit, **often) as client:
            await client.create("orders")
            group = Group(client, version=4)
            await group.send_commit("orders", (0, 5), retention_ms=1)
            await client.receive()
            while await group.offsets():
                pass

    kit.run(scenario)


# -- OffsetDelete


def test_commits_are_deleted_but_for_topics_in_use(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            await client.create("other", 2)
            group = Group(client)
            assert await group.delete_offsets("orders", 0) == (ErrorCode.group_id_not_found, [])
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            await group.commit("orders", (0, 5), member=who)
            await group.commit("other", (0, 5), (1, 6), member=who)
            in_use = ErrorCode.group_subscribed_to_topic
            assert await group.delete_offsets("orders", 0, 1) == (OK, [in_use] * 2)
            assert await group.delete_offsets("other", 0, 2) == (OK, [OK, UNKNOWN])
            assert await group.delete_offsets("unheard", 0) == (OK, [UNKNOWN])
            left = {("orders", 0): (5, "", OK), ("other", 1): (6, "", OK)}
            assert await group.offsets() == left
            # While the group rebalances nobody knows what will be subscribed to.
            newcomer = Group(await kit.client(), version=3)
            await newcomer.send_join()
            while await group.state() != "PreparingRebalance":
                pass
            assert await group.delete_offsets("other", 1) == (OK, [in_use])
            assert await group.offsets() == left

    kit.run(scenario)


def test_a_group_survives_its_last_offset(kit: "Kit") -> None:
    """Tools delete a group's offsets and then the group; also one that never had members."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            await group.commit("orders", (0, 5))
            assert await group.delete_offsets("orders", 0) == (OK, [OK])
            assert await group.offsets() == {}
        async with running(kit) as client:
            group = Group(client)
            while await group.state() == "":
                pass  # it is loading
            assert await listed(client) == (OK, {"g": ("Empty", "")})
            assert await group.delete() is OK
            assert await group.delete() is ErrorCode.group_id_not_found

    kit.run(scenario)


def test_a_group_without_offsets_expires(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            await Group(client).delete_offsets("orders", 0)
            assert await listed(client) == (OK, {"g": ("Empty", "")})
            await forget_later(kit, 1000)
            assert await listed(client) == (OK, {})

    kit.run(scenario)


def test_of_a_group_that_is_no_consumers_nothing_is_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            joined = await group.join(protocol_type="connect")
            refused = ErrorCode.non_empty_group
            assert await group.delete_offsets("orders", 0) == (refused, [])
            await group.leave(joined.member_id)
            assert await group.delete_offsets("orders", 0) == (OK, [OK])

    kit.run(scenario)


def test_what_is_reported_unknown_is_not_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            await group.commit("orders", (0, 5))
            assert await group.delete_offsets("orders", 7) == (OK, [UNKNOWN])
            assert await group.delete_offsets("payments", 0) == (OK, [UNKNOWN])
            assert len(shard_of(kit).offsets("g")) == 1

    kit.run(scenario)
