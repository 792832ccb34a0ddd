"""Offsets of transactions in a whole broker: they count after their marker, and only then."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.coordinator import group_memory
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.requests import Identity
from chiplog_core.transactions.stored import FIRST_GENERATION, SECOND_GENERATION
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import Producer
from tests.coordinator.groups_kit import (
    NOBODY,
    OFFSETS,
    OK,
    Group,
    loaded,
    make,
    running,
    shard_of,
    time_ahead,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

UNSTABLE = ErrorCode.unstable_offset_commit
PRODUCER = Producer(producer_id=7, epoch=3)
NONE_STORED = (-1, "", OK)
LONG_MS = 30 * 24 * 3_600_000


async def commit(
    kit: "Kit",
    offset: int,
    *partitions: int,
    producer: Producer = PRODUCER,
    member: tuple[str, int] = NOBODY,
    instance: str | None = None,
) -> ErrorCode:
    view = kit.broker._cluster.topic("orders")
    assert view is not None
    now_ms = kit.broker._coordinator.now_ms()
    commits = {
        TopicPartition("orders", one): CommittedOffset(
            offset=offset, commit_timestamp_ms=now_ms, topic_id=view.topic_id
        )
        for one in partitions or (0,)
    }
    who = Identity(member_id=member[0], generation=member[1], group_instance_id=instance)
    shard = shard_of(kit)
    verification = shard.partition.verifications.begin(producer.producer_id)
    return await outcome(lambda then: shard.commit("g", who, commits, then, producer, verification))


async def end(
    kit: "Kit",
    producer: Producer = PRODUCER,
    *,
    commits: bool = True,
    coordinator_epoch: int = 0,
    is_raised: bool = False,
) -> ErrorCode:
    marker = Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_commit=commits,
        coordinator_epoch=coordinator_epoch,
        transaction_version=SECOND_GENERATION if is_raised else FIRST_GENERATION,
    )
    coordinator = kit.broker._coordinator
    return await outcome(lambda then: coordinator.append_marker(0, marker, then))


async def found(
    client: "Client", *partitions: int, version: int = 9, stable: bool = True
) -> dict[int, tuple[int, str, ErrorCode]]:
    """Partition -> offset, metadata and code; without partitions all of the group."""
    types = client.types(ApiKey.OFFSET_FETCH, version)
    kind = "OffsetFetchRequestTopic" + ("s" if version >= 8 else "")
    topics: Any = (make(getattr(types, kind), name="orders", partition_indexes=partitions),)
    topics = topics if partitions else None
    if version >= 8:
        group = make(
            types.OffsetFetchRequestGroup,
            group_id="g",
            member_id=None,
            member_epoch=-1,
            topics=topics,
        )
        request = types.OffsetFetchRequest(groups=(group,), require_stable=stable)
        (answer,) = (await client.ask(ApiKey.OFFSET_FETCH, request, version)).groups
    else:
        request = make(types.OffsetFetchRequest, group_id="g", topics=topics, require_stable=stable)
        answer = await client.ask(ApiKey.OFFSET_FETCH, request, version)
    assert answer.error_code == OK
    return {
        one.partition_index: (one.committed_offset, one.metadata, ErrorCode(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
    }


async def restarted(kit: "Kit") -> None:
    """Another coordinator, that reads the log: the same broker in its next leader epoch."""
    await kit.begin_leadership(OFFSETS)
    await loaded(kit)


@pytest.mark.parametrize("commits", [True, False])
def test_they_count_after_a_commit_and_never_after_an_abort(kit: "Kit", commits: bool) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            assert await Group(client).commit("orders", (0, 5)) == [OK]
            assert await commit(kit, 8, 0, 1) is OK
            for _ in range(2):
                assert await found(client, 0, 1, stable=False) == {0: (5, "", OK), 1: NONE_STORED}
                assert await found(client, 0, 1) == {0: (-1, "", UNSTABLE), 1: (-1, "", UNSTABLE)}
                await restarted(kit)
            assert await end(kit, commits=commits) is OK
            for _ in range(2):
                assert await found(client, 0, 1) == (
                    {0: (8, "", OK), 1: (8, "", OK)}
                    if commits
                    else {0: (5, "", OK), 1: NONE_STORED}
                )
                await restarted(kit)
            assert shard_of(kit).offset_count == (2 if commits else 1)

    kit.run(scenario)


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
def test_only_who_asks_for_stable_offsets_waits_for_them(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await Group(client).commit("orders", (0, 5)) == [OK]
            assert await commit(kit, 8) is OK
            stable = {0: (-1, "", UNSTABLE)} if version >= 7 else {0: (5, "", OK)}
            assert await found(client, 0, version=version) == stable
            assert await found(client, version=version) == stable, "nor all of the group"
            assert await found(client, 0, version=version, stable=False) == {0: (5, "", OK)}

    kit.run(scenario)


def test_an_offset_for_an_earlier_topic_of_the_name_holds_nobody_up(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            await client.delete("orders")
            await client.create("orders")
            assert await found(client, 0) == {0: NONE_STORED}
            assert await end(kit) is OK
            assert await found(client, 0) == {0: NONE_STORED}

    kit.run(scenario)


def test_a_marker_counts_although_the_disk_reads_nothing(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise DamagedLogError("no sector can be read")

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            with monkeypatch.context() as patched:
                patched.setattr(PartitionLog, "read", unreadable)
                async with asyncio.timeout(5):
                    assert await end(kit) is OK
            assert await found(client, 0) == {0: (8, "", OK)}

    kit.run(scenario)


def test_a_plain_commit_after_it_wins(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            assert await Group(client).commit("orders", (0, 5)) == [OK]
            assert await end(kit) is OK
            assert await found(client, 0) == {0: (5, "", OK)}

    kit.run(scenario)


def test_an_old_epoch_is_fenced_and_leaves_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            old = Producer(producer_id=7, epoch=2)
            assert await commit(kit, 3, 1, producer=old) is OK
            assert await end(kit, Producer(producer_id=7, epoch=3), commits=False) is OK
            assert await commit(kit, 4, 1, producer=old) is ErrorCode.invalid_producer_epoch
            assert await commit(kit, 5, 0) is OK
            assert await end(kit, old) is ErrorCode.invalid_producer_epoch
            assert await end(kit, coordinator_epoch=4) is OK
            late = await end(kit, coordinator_epoch=3)
            assert late is ErrorCode.transaction_coordinator_fenced
            assert await found(client, 0, 1) == {0: (5, "", OK), 1: NONE_STORED}

    kit.run(scenario)


def test_a_late_marker_does_not_end_the_next_transaction(kit: "Kit") -> None:
    """In the second generation every transaction has another epoch (KIP-890)."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            next_epoch = Producer(producer_id=7, epoch=PRODUCER.epoch + 1)
            assert await commit(kit, 3, 0) is OK
            assert await end(kit, next_epoch, is_raised=True) is OK
            assert await end(kit, next_epoch, is_raised=True) is OK, "a marker may come twice"
            assert await commit(kit, 4, 1, producer=next_epoch) is OK
            late = await end(kit, next_epoch, is_raised=True)
            assert late is ErrorCode.invalid_producer_epoch
            assert await found(client, 0, 1) == {0: (3, "", OK), 1: (-1, "", UNSTABLE)}

    kit.run(scenario)


def test_a_marker_without_offsets_is_kept_and_changes_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await end(kit) is OK
            assert await found(client, 0) == {0: NONE_STORED}
            await restarted(kit)
            assert await commit(kit, 8) is OK

    kit.run(scenario)


def test_a_marker_that_this_broker_may_not_write_is_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            await kit.begin_leadership(OFFSETS, leader=2)
            assert await end(kit) is ErrorCode.not_leader_or_follower
            await kit.begin_leadership(OFFSETS)
            await loaded(kit)
            assert await end(kit) is OK
            assert await found(client, 0) == {0: (8, "", OK)}

    kit.run(scenario)


def test_members_commit_in_their_own_generation(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 1, member=("m", 1)) is ErrorCode.illegal_generation
            member = await Group(client).be_alone()
            mine = (member.member_id, member.generation_id)
            assert await commit(kit, 1, member=mine) is OK
            assert await commit(kit, 2) is OK, "versions before 3 have no member"
            older = (member.member_id, member.generation_id - 1)
            assert await commit(kit, 3, member=older) is ErrorCode.illegal_generation
            foreign = ("somebody", member.generation_id)
            assert await commit(kit, 3, member=foreign) is ErrorCode.unknown_member_id
            static = await commit(kit, 3, member=("", member.generation_id), instance="i")
            assert static is ErrorCode.unknown_member_id
            assert await end(kit) is OK
            assert await found(client, 0) == {0: (2, "", OK)}

    kit.run(scenario)


def test_a_group_of_nothing_else_is_there_until_it_is_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            group = Group(client)
            assert await group.state() == "Empty"
            with time_ahead(kit, wall_ms=LONG_MS, ticks_ms=LONG_MS):
                await kit.broker._coordinator.expire_offsets()
            assert shard_of(kit).exists("g"), "a transaction may still commit it"
            assert await group.delete() is OK
            assert not shard_of(kit).exists("g")
            assert await end(kit) is OK
            assert await found(client, 0) == {0: NONE_STORED}
            assert shard_of(kit).offset_count == 0
            await restarted(kit)
            assert not shard_of(kit).exists("g")

    kit.run(scenario)


def test_offsets_in_transactions_take_memory_too(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 3)
            monkeypatch.setattr(group_memory, "MAX_OFFSETS", 2)
            full = ErrorCode.coordinator_not_available
            assert await commit(kit, 1, 0, 1, 2) is full
            assert await commit(kit, 1, 0, 1) is OK
            assert await Group(client).commit("orders", (2, 1)) == [full]
            assert await end(kit, commits=False) is OK
            assert await Group(client).commit("orders", (2, 1)) == [OK]

    kit.run(scenario)


def test_they_are_transactional_batches_that_tools_can_read(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            assert await commit(kit, 8) is OK
            (partition,) = kit.partitions(OFFSETS)
            assert partition.last_stable_offset == 0
            assert await end(kit) is OK
            assert partition.last_stable_offset == 2

    kit.run(scenario)
