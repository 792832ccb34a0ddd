"""What a coordinator does without a request: after a restart, in a new leadership, or in time."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.coordinator import holding
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.transaction_coordinator import coordinator as coordinator_module
from chiplog_broker.transaction_coordinator import shard as shard_module
from chiplog_broker.transaction_coordinator import transaction_memory
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_broker.transaction_coordinator.transaction_log import TransactionLog
from chiplog_core.groups.at import At
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import LAST_EPOCH, Producer
from chiplog_core.transactions.states import TransactionState
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import run_steps
from tests.transaction_coordinator.fake_partition import Written, markers_are_noted
from tests.transaction_coordinator.transactions_kit import (
    BUSY,
    OK,
    STATE,
    Producing,
    at_rest,
    loaded,
    running,
    shard_of,
)

if TYPE_CHECKING:
    from tests.conftest import Kit

ORDERS = At("orders", 0)


def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No marker is ever written."""
    monkeypatch.setattr(MarkerWriter, "write", lambda *_: None)


def test_a_decided_transaction_is_completed_after_a_restart(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        unwritten(monkeypatch)
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            assert (await producing.end(producer))[0] is OK
            # The answer came before the markers; until they are written nothing else is possible.
            assert await producing.add(producer, ORDERS) == {ORDERS: BUSY}
            assert (await producing.init())[0] is BUSY
            assert (await producing.end(producer))[0] is BUSY
        written = markers_are_noted(monkeypatch)
        async with running(kit) as client:
            stored = await at_rest(kit)
            assert stored.state is TransactionState.COMPLETE_COMMIT
            assert written == {Written(ORDERS, producer, True)}
            assert (await Producing(client, version=4).add(producer, ORDERS)) == {ORDERS: OK}

    kit.run(scenario)


def test_another_leadership_goes_through_the_log_again(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            before = shard_of(kit)
            await kit.begin_leadership(STATE)
            after = await loaded(kit)
            assert after is not before
            assert after.leader_epoch == before.leader_epoch + 1
            assert dict(after) == dict(before)
            assert before.refusal()[0] is ErrorCode.not_coordinator
            assert (await producing.end(producer))[0] is OK
            await at_rest(kit)
            assert written == {Written(ORDERS, producer, True)}
            await kit.begin_leadership(STATE, leader=2)
            assert (await producing.init())[0] is ErrorCode.not_coordinator
            assert (await producing.end(producer))[0] is ErrorCode.not_coordinator
            code = ErrorCode.not_coordinator
            assert await producing.add(producer, ORDERS) == {ORDERS: code}

    kit.run(scenario)


def test_an_open_transaction_is_aborted_after_its_timeout(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        interval = "transaction_abort_timed_out_transaction_cleanup_interval_ms"
        async with running(kit, **{interval: "5"}) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready(timeout_ms=50)
            await producing.add(producer, ORDERS)
            while (await at_rest(kit)).state is not TransactionState.COMPLETE_ABORT:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            raised = Producer(producer.producer_id, producer.epoch + 1)
            assert written == {Written(ORDERS, raised, False, is_raised=True)}
            assert (await producing.end(producer))[0] is ErrorCode.producer_fenced

    kit.run(scenario)


def test_a_transaction_times_out_although_the_clock_was_set_back(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer may be dead: readers would wait until the clock has caught up."""
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready(timeout_ms=60_000)
            await producing.add(producer, ORDERS)
            shard, ticks_ms = shard_of(kit), 1_000
            shard._context = replace(shard._context, ticks_ms=lambda: ticks_ms)
            # As far as this coordinator knows, it has begun when it is seen for the first time.
            for passed_ms in (0, 60_000):
                ticks_ms = 1_000 + passed_ms
                run_steps(shard.abort_timed_out(now_ms=0))
                assert (await at_rest(kit)).state is TransactionState.ONGOING
            # That was another transaction, also if it ends while others are looked at.
            ticks_ms = 61_001
            steps = shard.abort_timed_out(now_ms=0)
            next(steps)
            assert (await producing.end(producer))[0] is OK
            await producing.add(producer, ORDERS)
            run_steps(steps)
            assert (await at_rest(kit)).state is TransactionState.ONGOING
            ticks_ms = 121_002
            run_steps(shard.abort_timed_out(now_ms=0))
            async with asyncio.timeout(5):
                while (await at_rest(kit)).state is not TransactionState.COMPLETE_ABORT:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            run_steps(shard.abort_timed_out(now_ms=0))
            assert shard._seen_open == {}

    kit.run(scenario)


def test_many_timeouts_and_expiries_take_several_slices(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one appends a record."""
    unwritten(monkeypatch)
    monkeypatch.setattr(coordinator_module, "SLICE_S", 0.0)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            for number in range(20):
                producing = Producing(client, f"open-{number}", version=4)
                await producing.add(await producing.ready(timeout_ms=1), ORDERS)
                await Producing(client, f"idle-{number}", version=4).ready()
            transactions = kit.broker._transactions
            counting = asyncio.create_task(count_turns())
            await asyncio.sleep(0.01)
            for work in (transactions.abort_timed_out, transactions.expire):
                before = turns
                await work()
                assert turns - before >= 20
            counting.cancel()
            assert transactions.counters.timed_out == 20

    kit.run(scenario)


def test_ids_that_are_not_used_are_forgotten(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    unwritten(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            used, idle = Producing(client, "used", version=4), Producing(client, "idle", version=4)
            producer = await used.ready()
            await idle.ready()
            await used.add(producer, ORDERS)
            shard, clock = shard_of(kit), kit.broker._transactions._clock
            week_ms = 7 * 24 * 3_600_000
            run_steps(shard.expire(clock.now_ms() + week_ms - 60_000, week_ms))
            assert len(dict(shard)) == 2
            run_steps(shard.expire(clock.now_ms() + week_ms, week_ms))
            async with asyncio.timeout(5):
                while shard.stored("idle") is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            assert shard.stored("used") is not None, "it has an open transaction"
            await kit.begin_leadership(STATE)
            assert [name for name, _ in await loaded(kit)] == ["used"]

    kit.run(scenario)


def test_a_producer_without_epochs_gets_another_id(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=5)
            await producing.ready()
            shard = shard_of(kit)
            stored = shard.stored("t")
            assert stored is not None
            shard._log.append("t", replace(stored, producer_epoch=LAST_EPOCH))
            last = Producer(stored.producer_id, LAST_EPOCH)
            while shard._log.present("t").is_pending:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await producing.add_as_broker(last, ORDERS, verify_only=False)
            code, continues = await producing.end(last)
            assert code is OK
            assert continues is not None
            assert (continues.producer_id != last.producer_id, continues.epoch) == (True, 0)
            fencing = Producer(last.producer_id, LAST_EPOCH + 1)
            assert (await at_rest(kit)).producer == continues
            assert written == {Written(ORDERS, fencing, True, is_raised=True)}

    kit.run(scenario)


def test_a_record_that_is_refused_changes_nothing(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    markers_are_noted(monkeypatch)
    append: Any = Partition.append

    def refuse(partition: Partition, *args: Any, **options: Any) -> Any:
        if partition.name.topic == "__transaction_state":
            raise PartitionError(ErrorCode.not_enough_replicas)
        return append(partition, *args, **options)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            monkeypatch.setattr(Partition, "append", refuse)
            code = ErrorCode.coordinator_not_available
            assert (await producing.init())[0] is code
            assert await producing.add(producer, ORDERS) == {ORDERS: code}
            monkeypatch.setattr(Partition, "append", append)
            # No epoch was raised, and no transaction begun.
            assert await producing.add(producer, ORDERS) == {ORDERS: OK}
            assert (await producing.end(producer))[0] is OK

    kit.run(scenario)


def test_the_last_record_is_tried_again(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    markers_are_noted(monkeypatch)
    monkeypatch.setattr(shard_module, "COMPLETE_RETRY_S", 0.001)
    append: Any = TransactionLog.append
    refused: list[Any] = []

    def refuse_complete(log: Any, transactional_id: str, record: Any) -> Any:
        if record.state is TransactionState.COMPLETE_COMMIT and len(refused) < 3:
            refused.append(record)
            return Code.COORDINATOR_NOT_AVAILABLE
        return append(log, transactional_id, record)

    monkeypatch.setattr(TransactionLog, "append", refuse_complete)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            assert (await producing.end(producer))[0] is OK
            assert (await at_rest(kit)).state is TransactionState.COMPLETE_COMMIT
            assert len(refused) == 3

    kit.run(scenario)


def test_answers_wait_for_the_high_watermark(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    markers_are_noted(monkeypatch)
    monkeypatch.setattr(holding, "TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            partition = shard_of(kit).partition
            # As if a follower had to fetch it first.
            advance: Any = Partition._advance
            monkeypatch.setattr(Partition, "_advance", lambda *_: None)
            code = ErrorCode.coordinator_not_available
            assert await producing.add(producer, ORDERS) == {ORDERS: code}
            assert await producing.add(producer, ORDERS) == {ORDERS: BUSY}, "it is pending"
            assert (await producing.end(producer))[0] is BUSY
            monkeypatch.setattr(Partition, "_advance", advance)
            monkeypatch.setattr(holding, "TIMEOUT_S", 60.0)  # nothing is late from now on
            partition._appended()
            assert await producing.add(producer, ORDERS) == {ORDERS: OK}
            assert (await producing.end(producer))[0] is OK

    kit.run(scenario)


def test_the_next_transaction_waits_for_the_markers_of_the_last_one(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Any] = []
    monkeypatch.setattr(MarkerWriter, "write", lambda *args: waiting.append(args[-1]))
    monkeypatch.setattr(shard_module, "HELD_S", 5.0)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            await producing.add(producer, ORDERS)
            assert (await producing.end(producer))[0] is OK
            adding = asyncio.create_task(producing.add(producer, ORDERS))
            await asyncio.sleep(0.05)
            assert not adding.done()
            other = Producing(await kit.client(), version=4)
            assert (await other.end(producer))[0] is BUSY, "it might be for the last transaction"
            for written in waiting:
                written(OK)
            assert await adding == {ORDERS: OK}
            # Those that wait get an answer if the leadership ends.
            waiting.clear()
            assert (await producing.end(producer))[0] is OK
            held = asyncio.create_task(producing.init())
            await asyncio.sleep(0.05)
            assert not held.done()
            await kit.begin_leadership(STATE)
            assert (await held)[0] is BUSY

    kit.run(scenario)


def test_nobody_waits_for_markers_that_cannot_be_written(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition may have no leader for minutes. The questions of a broker about many producers
    are answered together, so one that waits delays all of them, again and again."""
    unwritten(monkeypatch)
    monkeypatch.setattr(shard_module, "HELD_S", 5.0)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=5)
            producer = await producing.ready()
            await producing.add_as_broker(producer, ORDERS, verify_only=False)
            code, continues = await producing.end(producer)
            assert code is OK
            assert continues is not None
            adding = asyncio.create_task(
                producing.add_as_broker(continues, ORDERS, verify_only=False)
            )
            await asyncio.sleep(0.02)
            assert not adding.done()
            await kit.begin_leadership(STATE)
            assert await adding == {ORDERS: BUSY}
            await loaded(kit)
            monkeypatch.setattr(shard_module, "STUCK_MS", 1)
            found = await producing.add_as_broker(continues, ORDERS, verify_only=False)
            assert found == {ORDERS: BUSY}

    kit.run(scenario)


def test_memory_is_limited(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    unwritten(monkeypatch)
    monkeypatch.setattr(transaction_memory, "MAX_TRANSACTIONAL_IDS", 2)
    monkeypatch.setattr(transaction_memory, "MAX_PARTITIONS", 3)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 4)
            producers = [Producing(client, name, version=4) for name in "abc"]
            first, _ = [await one.ready() for one in producers[:2]]
            code = ErrorCode.coordinator_not_available
            assert (await producers[2].init())[0] is code
            assert (await producers[1].init())[0] is OK, "it exists"
            some = [At("orders", index) for index in range(3)]
            assert await producers[0].add(first, *some) == dict.fromkeys(some, OK)
            assert await producers[0].add(first, At("orders", 3)) == {At("orders", 3): code}
            long = Producing(client, "x" * 20_000, version=4)
            assert (await long.init())[0] is ErrorCode.invalid_request

    kit.run(scenario)


def test_what_admins_see(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    markers_are_noted(monkeypatch)

    async def listed(producing: Producing, **filters: Any) -> set[tuple[str, str]]:
        answer = await producing.ask(
            ApiKey.LIST_TRANSACTIONS,
            **{
                "state_filters": (),
                "producer_id_filters": (),
                "duration_filter": -1,
                "transactional_id_pattern": None,
                **filters,
            },
        )
        assert answer.error_code == OK
        return {(one.transactional_id, one.transaction_state) for one in answer.transaction_states}

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            a, b = Producing(client, "a", version=2), Producing(client, "b", version=2)
            producer, other = await a.ready(), await b.ready()
            partitions = At("orders", 0), At("orders", 1)
            await a.add(producer, *partitions)
            ongoing, empty = ("a", "Ongoing"), ("b", "Empty")
            assert await listed(a) == {ongoing, empty}
            assert await listed(a, state_filters=("Ongoing", "odd")) == {ongoing}
            assert await listed(a, producer_id_filters=(other.producer_id,)) == {empty}
            assert await listed(a, duration_filter=60_000) == set()
            await asyncio.sleep(0.005)
            assert await listed(a, duration_filter=1) == {ongoing}
            assert await listed(a, transactional_id_pattern="b.*") == {empty}

            answer = await a.ask(
                ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=("a", "c", "", "a")
            )
            found = {one.transactional_id: one for one in answer.transaction_states}
            assert {name: ErrorCode(one.error_code) for name, one in found.items()} == {
                "a": OK,
                "c": ErrorCode.transactional_id_not_found,
                "": ErrorCode.invalid_request,
            }
            assert (found["a"].producer_id, found["a"].producer_epoch) == producer
            assert found["a"].transaction_state == "Ongoing"
            assert [(one.topic, one.partitions) for one in found["a"].topics] == [
                ("orders", (0, 1))
            ]

    kit.run(scenario)
