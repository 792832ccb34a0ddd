"""Resets at a coordinator: planned, refused, done once, and whole whenever the broker dies."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.handlers.group_resets import GroupResets
from chiplog_core.durations import Duration
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.consumer_group import Reset, ResetStrategy, ResetTopic, WhileActive
from chiplog_core.model.group_exchange import (
    RESET_PATH,
    GroupRefusal,
    LogRefusal,
    PartitionPosition,
    ResetAnswer,
    ResetRequest,
    TopicPositions,
)
from chiplog_core.model.group_status import ResetOffset, ResetState
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import OK, Group, partition_of, running, shard_of
from tests.server.inquiry_kit import asking

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

UNKNOWN = ErrorCode.unknown_member_id
RUN = Reset(id="one", strategy=ResetStrategy.TO_EARLIEST, dry_run=False)
PLAN = replace(RUN, dry_run=True)
FENCE = replace(RUN, while_active=WhileActive.FENCE)


def position(
    index: int, start: int = 10, end: int = 20, since: int | None = None
) -> PartitionPosition:
    return PartitionPosition(
        partition=PartitionIndex(index),
        log_start_offset=Offset(start),
        end_offset=Offset(end),
        since_offset=None if since is None else Offset(since),
    )


def positions(*partitions: PartitionPosition) -> tuple[TopicPositions, ...]:
    return (TopicPositions(topic="orders", partitions=partitions),)


HERE = positions(position(0), position(1))


def moved(*rows: tuple[int, int, int]) -> tuple[ResetOffset, ...]:
    return tuple(
        ResetOffset(
            topic="orders",
            partition=PartitionIndex(index),
            offset=before,
            new_offset=Offset(after),
        )
        for index, before, after in rows
    )


async def ask(
    kit: "Kit", reset: Reset, where: tuple[TopicPositions, ...] = HERE, group_id: str = "g"
) -> ResetAnswer:
    broker = kit.broker
    resets = GroupResets(broker._coordinator, broker._cluster)
    answer = await resets.answer(ResetRequest(group_id=group_id, reset=reset, positions=where))
    assert (answer.group_id, answer.id) == (group_id, reset.id)
    assert (answer.state is None) == (answer.refusal is not None)
    return answer


async def committed(group: Group) -> dict[int, int]:
    found = await group.offsets()
    return {index: offset for (_, index), (offset, _, _) in found.items()}


def is_replayed(kit: "Kit") -> None:
    """Live state is what the log says."""
    partition = partition_of(kit)
    live = shard_of(kit)._log.state
    replayed = GroupsState(partition.log.log_start_offset)
    log = partition.log
    replayed.apply(log.read(log.log_start_offset, 1 << 20, log.end_offset, min_one=True).read())
    assert replayed.group_ids() == live.group_ids()
    for group_id in live.group_ids():
        assert replayed.group(group_id) == live.group(group_id)
        assert replayed.offsets(group_id) == live.offsets(group_id)
        assert replayed.resets(group_id) == live.resets(group_id)


async def with_orders(client: "Client") -> Group:
    assert await client.create("orders", 2) == OK
    group = Group(client)
    assert await group.commit("orders", (0, 15), (1, 16)) == [OK, OK]
    return group


def run(kit: "Kit", scenario: Callable[["Client", Group], Any], **config: str) -> None:
    async def whole() -> None:
        async with running(kit, **config) as client:
            await scenario(client, await with_orders(client))
            is_replayed(kit)

    kit.run(whole)


def test_a_dry_run_plans_and_uses_up_no_id(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        end = partition_of(kit).log.end_offset
        planned = await ask(kit, PLAN)
        assert (planned.state, planned.message) == (ResetState.PLANNED, "")
        assert planned.offsets == moved((0, 15, 10), (1, 16, 10))
        assert partition_of(kit).log.end_offset == end
        assert await committed(group) == {0: 15, 1: 16}

        assert (await ask(kit, RUN)).state is ResetState.DONE

    run(kit, scenario)


def test_an_id_runs_once_and_is_reported_again(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        done = await ask(kit, RUN)
        assert done.state is ResetState.DONE
        assert await committed(group) == {0: 10, 1: 10}
        await group.commit("orders", (0, 17))
        end = partition_of(kit).log.end_offset

        for again in (RUN, PLAN, FENCE):
            # What it needs the first time it does not need any more.
            assert await ask(kit, again, where=()) == done
        assert partition_of(kit).log.end_offset == end
        assert await committed(group) == {0: 17, 1: 10}

    run(kit, scenario)


def test_another_reset_under_the_same_id_is_refused(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        await ask(kit, RUN)
        other = await ask(kit, replace(RUN, strategy=ResetStrategy.TO_LATEST))
        assert other.state is ResetState.REFUSED
        assert "each id runs only once" in other.message
        assert await committed(group) == {0: 10, 1: 10}

        another = replace(RUN, id="two", strategy=ResetStrategy.TO_LATEST)
        assert (await ask(kit, another)).state is ResetState.DONE
        assert await committed(group) == {0: 20, 1: 20}
        assert (await ask(kit, RUN)).state is ResetState.DONE, "the first id is known for ever"
        assert await committed(group) == {0: 20, 1: 20}

    run(kit, scenario)


def test_members_are_in_the_way(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        member = await group.be_alone()
        refused = await ask(kit, RUN)
        assert refused.state is ResetState.REFUSED
        assert "has 1 member: stop its consumers" in refused.message
        planned = await ask(kit, PLAN)
        assert planned.state is ResetState.PLANNED
        assert "the reset would be refused until all members have left" in planned.message
        assert await group.heartbeat(member) == OK
        assert await committed(group) == {0: 15, 1: 16}

        await group.leave(member.member_id)
        assert (await ask(kit, RUN)).state is ResetState.DONE

    run(kit, scenario)


def test_members_are_fenced_and_come_back(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        member = await group.be_alone()
        who = member.member_id, member.generation_id
        assert await group.commit("orders", (0, 18), member=who) == [OK]

        done = await ask(kit, FENCE)

        assert (done.state, done.offsets) == (ResetState.DONE, moved((0, 18, 10), (1, 16, 10)))
        assert await group.commit("orders", (0, 19), member=who) == [UNKNOWN]
        assert await group.heartbeat(member) == UNKNOWN
        assert await group.state() == "Empty"
        is_replayed(kit)
        again = await group.be_alone()
        assert again.generation_id == member.generation_id + 2
        assert await committed(group) == {0: 10, 1: 10}

    run(kit, scenario)


def test_who_joins_in_the_meantime_is_answered_when_the_reset_is_safe(kit: "Kit") -> None:
    async def scenario(client: "Client", group: Group) -> None:
        await group.be_alone()
        waiting = Group(await kit.client(), version=3)
        kit.disk.may_sync.clear()
        resetting = asyncio.ensure_future(ask(kit, FENCE))
        await asyncio.sleep(0)
        await waiting.send_join()
        joining = asyncio.ensure_future(waiting.client.receive())
        await asyncio.sleep(0.05)
        assert not resetting.done()
        assert not joining.done()

        kit.disk.may_sync.set()

        assert (await resetting).state is ResetState.DONE
        assert (await joining).error_code == OK
        assert await committed(group) == {0: 10, 1: 10}

    run(kit, scenario)


def test_what_members_have_read_since_is_there(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        member = await group.be_alone()
        who = member.member_id, member.generation_id
        await group.commit("orders", (0, 25), member=who)

        done = await ask(kit, replace(FENCE, strategy=ResetStrategy.TO_CURRENT))

        assert done.offsets == moved((0, 25, 25), (1, 16, 16))

    run(kit, scenario)


@pytest.mark.parametrize(
    ("reset", "where", "offsets"),
    [
        (replace(RUN, strategy=ResetStrategy.TO_LATEST), HERE, moved((0, 15, 20), (1, 16, 20))),
        (
            replace(RUN, strategy=ResetStrategy.SHIFT_BY, shift_by=-2),
            HERE,
            moved((0, 15, 13), (1, 16, 14)),
        ),
        (
            replace(RUN, strategy=ResetStrategy.BY_DURATION, duration=Duration("1h")),
            positions(position(0, since=12), position(1, since=20)),
            moved((0, 15, 12), (1, 16, 20)),
        ),
        (
            replace(RUN, topics=(ResetTopic(topic="orders", partitions=(PartitionIndex(1),)),)),
            positions(position(1)),
            moved((1, 16, 10)),
        ),
        (replace(RUN, topics=(ResetTopic(topic="orders"),)), HERE, moved((0, 15, 10), (1, 16, 10))),
    ],
)
def test_where_to(
    kit: "Kit",
    reset: Reset,
    where: tuple[TopicPositions, ...],
    offsets: tuple[ResetOffset, ...],
) -> None:
    async def scenario(_: "Client", group: Group) -> None:
        assert (await ask(kit, reset, where)).offsets == offsets
        now = await committed(group)
        assert all(now[one.partition] == one.new_offset for one in offsets)

    run(kit, scenario)


@pytest.mark.parametrize(
    ("reset", "group_id", "message"),
    [
        (RUN, "new", "no committed offsets: list the topics"),
        (replace(RUN, topics=(ResetTopic(topic="bills"),)), "g", "there is no topic bills"),
        (
            replace(RUN, topics=(ResetTopic(topic="orders", partitions=(PartitionIndex(2),)),)),
            "g",
            "orders has 2 partitions and none with number 2",
        ),
        (
            replace(
                RUN,
                strategy=ResetStrategy.SHIFT_BY,
                shift_by=1,
                topics=(ResetTopic(topic="orders"),),
            ),
            "new",
            "orders-0 cannot be shifted",
        ),
        (
            replace(RUN, topics=(ResetTopic(topic="__consumer_offsets"),)),
            "g",
            "__consumer_offsets is an internal topic",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    kit: "Kit", reset: Reset, group_id: str, message: str
) -> None:
    async def scenario(_: "Client", __: Group) -> None:
        refused = await ask(kit, reset, group_id=group_id)
        assert refused.state is ResetState.REFUSED
        assert message in refused.message
        assert not shard_of(kit).exists("new")

    run(kit, scenario)


@pytest.mark.parametrize(
    "where",
    [
        positions(position(0)),
        positions(
            position(0),
            PartitionPosition(partition=PartitionIndex(1), refusal=LogRefusal.UNSETTLED),
        ),
    ],
)
def test_nothing_is_done_where_a_position_is_not_known(
    kit: "Kit", where: tuple[TopicPositions, ...]
) -> None:
    async def scenario(_: "Client", group: Group) -> None:
        await group.be_alone()
        answer = await ask(kit, FENCE, where)
        assert answer.refusal is GroupRefusal.UNAVAILABLE
        assert "the leader of orders-1 has not reported" in answer.message
        assert await group.state() == "Stable"
        assert await committed(group) == {0: 15, 1: 16}

    run(kit, scenario)


def test_a_group_that_never_was_can_begin_somewhere(kit: "Kit") -> None:
    async def scenario(client: "Client", _: Group) -> None:
        reset = replace(RUN, topics=(ResetTopic(topic="orders"),))
        done = await ask(kit, reset, group_id="new")
        assert done.offsets == moved((0, -1, 10), (1, -1, 10))
        assert await committed(Group(client, "new")) == {0: 10, 1: 10}

    run(kit, scenario)


def test_what_does_not_fit_into_one_batch_is_refused_whole(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        member = await group.be_alone()
        end = partition_of(kit).log.end_offset
        log = partition_of(kit).log
        log._state.config = replace(log.config, max_message_bytes=400)
        refused = await ask(kit, FENCE)
        assert refused.state is ResetState.REFUSED
        assert "2 partitions do not fit into one batch" in refused.message
        assert partition_of(kit).log.end_offset == end
        assert await group.heartbeat(member) == OK, "nobody was fenced for nothing"
        assert await committed(group) == {0: 15, 1: 16}

    run(kit, scenario)


def test_a_full_disk_leaves_everything_as_it_was(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        await group.be_alone()
        kit.disk.fill_up()
        answer = await ask(kit, FENCE)
        assert answer.refusal is not None
        kit.disk.append_error = None
        assert shard_of(kit).done_reset("g", "one") is None

    run(kit, scenario)


def test_a_deleted_group_forgets_its_resets(kit: "Kit") -> None:
    async def scenario(_: "Client", group: Group) -> None:
        await ask(kit, RUN)
        assert await group.delete() == OK
        assert not shard_of(kit).exists("g")
        await group.commit("orders", (0, 15), (1, 16))
        assert (await ask(kit, RUN)).offsets == moved((0, 15, 10), (1, 16, 10))

    run(kit, scenario)


@pytest.mark.parametrize("torn_bytes", [0, 1])
def test_killed_between_the_append_and_the_answer_it_is_done_whole_or_not_at_all(
    kit: "Kit", tmp_path_factory: pytest.TempPathFactory, torn_bytes: int
) -> None:
    crashed = type(kit)(tmp_path_factory.mktemp("crashed"))

    async def until_killed() -> None:
        async with running(kit) as client:
            await (await with_orders(client)).be_alone()
            kit.disk.may_sync.clear()
            end = partition_of(kit).log.end_offset
            asking = asyncio.ensure_future(ask(kit, FENCE))
            while partition_of(kit).log.end_offset == end:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            assert not asking.done(), "it is answered when it is safe"
            shutil.copytree(kit.directory, crashed.directory, dirs_exist_ok=True)
            kit.disk.may_sync.set()
            await asking

    async def afterwards() -> None:
        is_done = not torn_bytes
        async with running(crashed) as client:
            group, shard = Group(client), shard_of(crashed)
            while not shard.is_loaded:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.001)
            assert len(shard.describe("g").members) == (0 if is_done else 1)
            assert (shard.done_reset("g", "one") is not None) is is_done
            assert await committed(group) == ({0: 10, 1: 10} if is_done else {0: 15, 1: 16})
            if is_done:
                await group.commit("orders", (0, 19))
            done = await ask(crashed, FENCE)
            assert (done.state, done.offsets) == (ResetState.DONE, moved((0, 15, 10), (1, 16, 10)))
            assert await committed(group) == {0: 19 if is_done else 10, 1: 10}
            is_replayed(crashed)

    kit.run(until_killed)
    (log,) = (crashed.directory / "data" / "__consumer_offsets-0").glob("*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - torn_bytes)
    crashed.run(afterwards)


def test_it_is_requested_over_http(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders", partitions=2)
            group = Group(client)
            await group.commit("orders", (0, 15), (1, 16))
            asked = ResetRequest(group_id="g", reset=RUN, positions=HERE)
            for _ in range(3):
                answer = await asker.ask(RESET_PATH, asked, ResetAnswer)
                assert answer.state is ResetState.DONE
                assert answer.offsets == moved((0, 15, 10), (1, 16, 10))
            assert await committed(group) == {0: 10, 1: 10}

    kit.run(scenario)
