"""Loading what thousands of commits left behind: many slices, many segments, compacted or not."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.coordinator.loading import SLICE_BYTES, load
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.requests import Identity
from tests.coordinator.groups_kit import OK, partition_of, running, shard_of

if TYPE_CHECKING:
    from tests.conftest import Kit

GROUPS = 7
COMMITS = 5_000
SMALL: dict[str, Any] = {"offsets_topic_segment_bytes": str(1 << 20)}


async def commit_much(shard: Shard) -> dict[str, int]:
    """The last offset of each group."""
    last = {}
    for number in range(COMMITS):
        group_id = f"group-{number % GROUPS}"
        commit = CommittedOffset(offset=number, metadata="x" * 900, commit_timestamp_ms=1)
        shard.commit(group_id, Identity(), {TopicPartition("orders", 0): commit}, ignored)
        last[group_id] = number
    await shard.until_all_safe()
    return last


def ignored(_code: object) -> None:
    """Many others are told the same."""


def offsets_of(shard: Shard) -> dict[str, int]:
    return {
        group_id: commit.offset for group_id in shard for commit in shard.offsets(group_id).values()
    }


async def loaded(kit: "Kit") -> Shard:
    while not (shard := shard_of(kit)).is_loaded:
        assert not shard.failure
        await asyncio.sleep(0.001)
    return shard


@pytest.mark.parametrize("cleans", [False, True])
def test_all_of_it_is_there_after_a_restart(kit: "Kit", cleans: bool) -> None:
    async def scenario() -> None:
        config = SMALL | {
            "log_cleaner_enable": str(cleans).lower(),
            "log_cleaner_backoff_ms": "10",
        }
        async with running(kit, **config):
            last = await commit_much(await loaded(kit))
            log = partition_of(kit).log
            written_bytes = log.size_bytes
            assert written_bytes > 4 << 20, "several segments"
            while cleans and log.size_bytes > written_bytes // 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            end_offset = log.end_offset
        async with running(kit, **config):
            shard = await loaded(kit)
            assert offsets_of(shard) == last
            assert partition_of(kit).log.end_offset == end_offset

    kit.run(scenario)


def test_other_tasks_run_while_it_loads(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, **SMALL):
            shard = await loaded(kit)
            last, turns = await commit_much(shard), 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.ensure_future(count())
            state = await load(shard.partition, GroupsState)
            counting.cancel()
            assert turns > shard.partition.log.size_bytes // SLICE_BYTES
            assert state.group_ids() == last.keys()

    kit.run(scenario)


def test_expiry_continues_after_a_fault(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real_expire, faults = Shard.expire, [ValueError("a fault")]

    def expire(shard: Shard, now_ms: int, retention_ms: int) -> None:
        if faults:
            raise faults.pop()
        real_expire(shard, now_ms, retention_ms)

    monkeypatch.setattr(Shard, "expire", expire)

    async def scenario() -> None:
        async with running(kit, offsets_retention_check_interval_ms="10"):
            shard = await loaded(kit)
            commit = CommittedOffset(offset=1, commit_timestamp_ms=1, expire_timestamp_ms=2)
            commits = {TopicPartition("orders", 0): commit}
            assert await outcome(lambda then: shard.commit("g", Identity(), commits, then)) is OK
            while list(shard):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    kit.run(scenario)
    assert "offsets_not_expired" in [one.message for one in caplog.records]
