"""Answers that wait for the high watermark, and what is kept while they do."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.coordinator import holding
from chiplog_broker.coordinator.holding import Safety, outcome
from chiplog_broker.partitions.partition import Partition
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NewRecord, build_batch
from tests.coordinator.groups_kit import OK, partition_of, running

if TYPE_CHECKING:
    from tests.conftest import Kit


def append(partition: Partition) -> int:
    """A record whose sync may wait; where it ends."""
    batch = build_batch([NewRecord(b"value", key=b"key", timestamp_ms=1)])
    return partition.append(memoryview(batch), 1, acks_all=True).last_offset + 1


class Answers(list[ErrorCode]):
    """What callbacks were told."""

    def __call__(self, code: ErrorCode) -> None:
        self.append(code)


def test_a_group_waits_for_its_own_records_only(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            partition = partition_of(kit)
            safety, mine, others = Safety(partition), Answers(), Answers()
            kit.disk.may_sync.clear()
            safety.appended("mine", append(partition))
            safety.call_when_safe("others", others)
            safety.call_when_safe("mine", mine)
            assert (mine, others) == ([], [OK])
            kit.disk.may_sync.set()
            assert await outcome(lambda answers: safety.call_when_safe("mine", answers)) is OK
            assert mine == [OK], "once, and in order"
            safety.call_when_safe("mine", mine)
            assert mine == [OK, OK]

    kit.run(scenario)


def test_all_groups_are_safe_when_the_last_one_is(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            partition, answers = partition_of(kit), Answers()
            safety = Safety(partition)
            safety.call_when_all_safe(answers)
            assert answers == [OK]
            kit.disk.may_sync.clear()
            safety.appended("one", append(partition))
            safety.call_when_all_safe(answers)
            assert answers == [OK]
            kit.disk.may_sync.set()
            assert await outcome(safety.call_when_all_safe) is OK
            assert answers == [OK, OK]

    kit.run(scenario)


def test_a_timeout_is_reported_once(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async with running(kit):
            partition, answers = partition_of(kit), Answers()
            safety = Safety(partition)
            kit.disk.may_sync.clear()
            safety.appended("g", append(partition))
            safety.call_when_safe("g", answers)
            code = await outcome(lambda one: safety.call_when_safe("g", one))
            assert code is ErrorCode.coordinator_not_available
            assert answers == [code]
            # On a busy machine the sync itself takes longer than the timeout.
            monkeypatch.setattr(holding, "TIMEOUT_S", 30.0)
            kit.disk.may_sync.set()
            assert await outcome(lambda one: safety.call_when_safe("g", one)) is OK
            assert answers == [code], "it has its answer already"

    kit.run(scenario)


def test_repeated_requests_while_the_disk_hangs_leave_nothing_behind(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "TIMEOUT_S", 0.01)

    async def scenario() -> None:
        async with running(kit):
            partition = partition_of(kit)
            safety = Safety(partition)
            kit.disk.may_sync.clear()
            safety.appended("g", append(partition))
            for _ in range(20):
                await outcome(lambda one: safety.call_when_safe("g", one))
            assert partition.waiting_produces == 1

    kit.run(scenario)


def test_groups_whose_records_are_safe_are_not_remembered(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            partition = partition_of(kit)
            safety = Safety(partition)
            for index in range(100):
                safety.appended(f"group-{index}", append(partition))
                kit.disk.may_sync.clear()
            assert len(safety) > 90
            kit.disk.may_sync.set()
            assert await outcome(safety.call_when_all_safe) is OK
            for _ in range(100):
                safety.appended("last", append(partition))
            assert len(safety) == 1

    kit.run(scenario)


def test_a_partition_that_is_led_elsewhere_says_so(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            partition, answers = partition_of(kit), Answers()
            safety = Safety(partition)
            kit.disk.may_sync.clear()
            safety.appended("g", append(partition))
            safety.call_when_safe("g", answers)
            partition.resign()
            assert answers == [ErrorCode.not_coordinator]

    kit.run(scenario)


def test_a_request_without_a_wait_gets_no_result(kit: "Kit") -> None:
    """Its answer must not get in the way of those of others."""

    async def scenario() -> None:
        async with running(kit):
            partition, answers = partition_of(kit), Answers()
            safety = Safety(partition)
            kit.disk.may_sync.clear()
            safety.appended("g", append(partition))
            gone = asyncio.ensure_future(outcome(lambda one: safety.call_when_safe("g", one)))
            await asyncio.sleep(0)
            gone.cancel()
            safety.call_when_safe("g", answers)
            kit.disk.may_sync.set()
            await outcome(lambda one: safety.call_when_safe("g", one))
            assert answers == [OK]

    kit.run(scenario)
