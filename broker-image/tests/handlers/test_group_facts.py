"""What the operator is told of groups, by a whole broker over HTTP."""

import asyncio
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers import group_description, group_facts, slices
from chiplog_broker.handlers.group_description import member_status
from chiplog_broker.handlers.leaders import Leaders
from chiplog_core.groups.description import MemberDescription
from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex, ReplicaRef, Session
from chiplog_core.model.group_exchange import (
    FACTS_PATH,
    GroupFacts,
    GroupRefusal,
    GroupsAnswer,
    GroupsRequest,
    PartitionOffset,
    TopicOffsets,
    answer_from_body,
    lag_records,
    to_body,
)
from chiplog_core.model.group_status import AssignedTopic, GroupState
from tests.coordinator.groups_kit import (
    OFFSETS,
    OK,
    Group,
    all_led,
    loaded,
    partition_of,
    shard_of,
)
from tests.server.inquiry_kit import Asker, asking

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

HERE = 1


def assignment(*partitions: tuple[str, int]) -> bytes:
    """The consumer protocol's, version 0, a topic for each."""
    parts = [struct.pack(">hi", 0, len(partitions))]
    for topic, partition in partitions:
        parts.append(struct.pack(">h", len(topic)) + topic.encode())
        parts.append(struct.pack(">ii", 1, partition))
    return b"".join(parts) + struct.pack(">i", -1)


async def facts(kit: "Kit", asker: Asker, *groups: str, **asked: Any) -> GroupsAnswer:
    asked = {"partitions": all_led(kit), "groups": groups, **asked}
    return await asker.ask(FACTS_PATH, GroupsRequest(**asked), GroupsAnswer)


async def fact(kit: "Kit", asker: Asker, group_id: str = "g", **asked: Any) -> GroupFacts:
    (found,) = (await facts(kit, asker, group_id, **asked)).groups
    assert found.group_id == group_id
    return found


async def appended(kit: "Kit", offset: int) -> None:
    """Until the commit is in the log, safe or not."""
    while [one.offset for one in shard_of(kit).offsets("g").values()] != [offset]:  # noqa: ASYNC110
        await asyncio.sleep(0.001)  # nobody is told of it


async def consuming(client: "Client", assigned: bytes) -> Any:
    """A stable group of one member."""
    group = Group(client)
    joined = await group.join()
    await group.sync(joined, {joined.member_id: assigned})
    return joined


def test_members_offsets_and_ends_of_a_group(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders", partitions=2)
            await client.produce("orders", kit.batch(b"1", b"2", b"3"))
            member = await consuming(client, assignment(("orders", 0), ("orders", 1), ("gone", 0)))
            who = member.member_id, member.generation_id
            assert await Group(client).commit("orders", (0, 1), member=who) == [OK]
            found = await fact(kit, asker)

            assert (found.refusal, found.coordinator, found.is_whole) == (None, HERE, True)
            assert found.leader_epoch == partition_of(kit).leader_epoch
            assert (found.state, found.protocol_type) == (GroupState.STABLE, "consumer")
            assert (found.protocol, found.generation) == ("range", member.generation_id)
            (one,) = found.members
            assert (one.member_id, one.host) == (member.member_id, "/127.0.0.1")
            assert found.member_count == 1
            assert one.assignment == (
                AssignedTopic(topic="gone", partitions=(PartitionIndex(0),)),
                AssignedTopic(topic="orders", partitions=(PartitionIndex(0), PartitionIndex(1))),
            )
            (topic,) = found.topics
            first, second = topic.partitions
            assert (first.committed_offset, first.end_offset, first.log_start_offset) == (1, 3, 0)
            assert abs((first.commit_time_ms or 0) - asker.clock_ms()) < 60_000
            assert (second.committed_offset, second.commit_time_ms) == (-1, None)
            assert second.end_offset == 0

    kit.run(scenario)


def test_all_groups_of_the_partitions_that_were_named_in_pages(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_facts, "ANSWERED_ITEMS", 4)

    async def scenario() -> None:
        async with asking(kit, offsets_topic_num_partitions="3") as (client, asker):
            await client.create("orders", partitions=2)
            names = [f"g{index}" for index in range(7)]
            for name in names:
                await Group(client, name).commit("orders", (0, 1), (1, 1))
            found: list[str] = []
            pages, after = 0, None
            while True:
                answer = await facts(kit, asker, after=after)
                assert {one.refusal for one in answer.partitions} == {None}
                found += [one.group_id for one in answer.groups]
                pages, after = pages + 1, answer.next_after
                if after is None:
                    break
            assert (found, pages) == (names, 4)
            monkeypatch.setattr(group_facts, "ANSWERED_ITEMS", 5_000)
            one_partition = all_led(kit)[:1]
            answer = await facts(kit, asker, partitions=one_partition)
            here = {one for one in names if kit.broker._coordinator.partition_of(one) == 0}
            assert {one.group_id for one in answer.groups} == here
            strangers = await facts(kit, asker, *names, partitions=one_partition)
            refused = {one.group_id for one in strangers.groups if one.refusal is not None}
            assert refused == set(names) - here

    kit.run(scenario)


def test_a_group_that_is_not_there_is_dead(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (_, asker):
            found = await fact(kit, asker)
            assert (found.state, found.refusal, found.topics) == (GroupState.DEAD, None, ())
            assert (await facts(kit, asker)).groups == ()

    kit.run(scenario)


def test_what_was_committed_for_an_earlier_topic_of_the_name_is_absent(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            # As long as the coordinator has not purged it, the commit is still there.
            view = kit.broker._cluster.topic("orders")
            assert view is not None
            other_id = type(view.topic_id)(int=77)
            kit.broker._cluster.put(replace(view, topic_id=other_id))
            assert (await fact(kit, asker)).topics == ()
            kit.broker._cluster.put(view)
            assert (await fact(kit, asker)).topics[0].partitions[0].committed_offset == 5

    kit.run(scenario)


def test_the_end_of_what_another_broker_leads_is_absent(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            (partition,) = kit.partitions("orders")
            partition.resign()
            (topic,) = (await fact(kit, asker)).topics
            (one,) = topic.partitions
            assert (one.committed_offset, one.end_offset, one.log_start_offset) == (5, None, None)

    kit.run(scenario)


@pytest.mark.parametrize("wrong", [-1, 1])
def test_another_epoch_is_not_answered(kit: "Kit", wrong: int) -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            await kit.begin_leadership(OFFSETS)
            await loaded(kit)
            (one,) = all_led(kit)
            assert (await fact(kit, asker)).refusal is None
            believed = replace(one, leader_epoch=LeaderEpoch(one.leader_epoch + wrong))
            answer = await facts(kit, asker, partitions=(believed,))
            assert answer.groups == ()
            assert [one.refusal for one in answer.partitions] == [GroupRefusal.NOT_COORDINATOR]
            found = await fact(kit, asker, partitions=(believed,))
            assert (found.refusal, found.topics) == (GroupRefusal.NOT_COORDINATOR, ())

    kit.run(scenario)


def test_a_broker_that_does_not_coordinate_now_reports_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            shard, cluster = shard_of(kit), kit.broker._cluster
            # Isolated: another broker may lead by now.
            shard.partition.is_isolated = True
            assert (await fact(kit, asker)).refusal is GroupRefusal.NOT_COORDINATOR
            shard.partition.is_isolated = False
            # Fenced: the map is about to name another leader.
            me = cluster.brokers.pop(HERE)
            assert (await fact(kit, asker)).refusal is GroupRefusal.NOT_COORDINATOR
            cluster.brokers[HERE] = me
            shard.is_loaded = False
            assert (await fact(kit, asker)).refusal is GroupRefusal.LOADING
            assert (await facts(kit, asker)).partitions[0].refusal is GroupRefusal.LOADING
            shard.failure = "unreadable"
            assert (await fact(kit, asker)).refusal is GroupRefusal.UNAVAILABLE
            shard.is_loaded, shard.failure = True, ""
            assert (await fact(kit, asker)).refusal is None

    kit.run(scenario)


def test_nothing_is_reported_before_it_is_safe(kit: "Kit") -> None:
    """Neither a commit, nor that a group is gone."""

    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            group = Group(client)
            await group.commit("orders", (0, 5))
            kit.disk.may_sync.clear()
            await group.send_commit("orders", (0, 6))
            await appended(kit, 6)
            asked = asyncio.ensure_future(fact(kit, asker))
            listed = asyncio.ensure_future(facts(kit, asker))
            await asyncio.sleep(0.1)
            assert not asked.done()
            assert not listed.done()
            kit.disk.may_sync.set()
            assert (await asked).topics[0].partitions[0].committed_offset == 6
            assert (await listed).groups[0].topics == (await asked).topics

    kit.run(scenario)


def test_a_leadership_that_ends_during_the_request_is_reported_in_place_of_facts(
    kit: "Kit",
) -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            group = Group(client)
            await group.commit("orders", (0, 5))
            kit.disk.may_sync.clear()
            await group.send_commit("orders", (0, 6))
            await appended(kit, 6)
            asked = asyncio.ensure_future(facts(kit, asker, "g"))
            await asyncio.sleep(0.05)
            partition_of(kit).resign()
            answer = await asked
            assert answer.groups[0].refusal is GroupRefusal.NOT_COORDINATOR
            assert answer.partitions[0].refusal is GroupRefusal.NOT_COORDINATOR

    kit.run(scenario)


def test_an_end_that_the_new_leader_cannot_vouch_for_is_absent(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            await client.produce("orders", kit.batch(b"1"))
            await Group(client).commit("orders", (0, 1))
            view = kit.broker._cluster.topic("orders")
            assert view is not None
            refs = tuple(ReplicaRef(BrokerId(one), Session(1)) for one in (1, 2))
            ids = 1, 2
            (partition,) = kit.partitions("orders")
            partition.high_watermark = 0
            partition.lead(
                replace(
                    view.partitions[0],
                    leader_epoch=partition.leader_epoch + 1,
                    replicas=ids,
                    isr=ids,
                    isr_refs=refs,
                    live_refs=refs,
                    leader_session=1,
                ),
                1,
            )
            (one,) = (await fact(kit, asker)).topics[0].partitions
            assert (one.committed_offset, one.end_offset) == (1, None)

    kit.run(scenario)


def test_a_lag_is_never_negative_while_records_and_commits_come(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders")
            group = Group(await kit.client())
            produced = 0

            async def consume() -> None:
                nonlocal produced
                while True:
                    await client.produce("orders", kit.batch(b"1"))
                    produced += 1
                    await group.commit("orders", (0, produced))

            consuming = asyncio.ensure_future(consume())
            lags: list[int] = []
            while len(lags) < 100:
                for topic in (await fact(kit, asker)).topics:
                    (one,) = topic.partitions
                    assert one.end_offset is not None
                    assert one.end_offset >= one.committed_offset
                    lags.append(lag_records(one.committed_offset, one.end_offset))
            consuming.cancel()
            assert set(lags) <= {0, 1}

    kit.run(scenario)


def test_large_groups_do_not_hold_up_the_loop_and_say_what_is_left_out(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks have turns while an answer is put together; offsets beyond the bound are not
    told, and that is said."""
    monkeypatch.setattr(group_description, "MAX_EXCHANGED_ITEMS", 150)
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    async def scenario() -> None:
        async with asking(kit) as (client, _):
            await client.create("orders", partitions=200)
            await Group(client).commit("orders", *((index, 1) for index in range(200)))
            handler = group_facts.GroupFactsHandler(
                kit.broker._coordinator, kit.broker._cluster, leaders(kit), kit.broker._ports.clock
            )
            others = 0

            async def other() -> None:
                nonlocal others
                while True:
                    others += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(other())
            answer = await handler.answer(GroupsRequest(partitions=all_led(kit)))
            task.cancel()
            (found,) = answer.groups
            assert not found.is_whole
            assert [len(one.partitions) for one in found.topics] == [150]
            assert others >= 150

    kit.run(scenario)


def leaders(kit: "Kit") -> Leaders:
    return Leaders(kit.broker._cluster, kit.broker._replicas)


def test_names_are_cut_to_what_a_status_has_room_for() -> None:
    """Else one client with a long name would make the whole answer unreadable."""
    long = "x" * 10_000
    member = MemberDescription(
        member_id=long,
        group_instance_id=long,
        client_id=long,
        client_host=long,
        metadata=b"",
        assignment=b"",
    )
    found = GroupFacts(
        group_id="g",
        members=(member_status(member, ()),),
        topics=(
            TopicOffsets(
                topic="t",
                partitions=(PartitionOffset(partition=PartitionIndex(0), committed_offset=-1),),
            ),
        ),
    )
    assert answer_from_body(GroupFacts, to_body(found)) == found
