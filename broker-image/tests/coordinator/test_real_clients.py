"""Kafka's clients consume in groups of two, stop and go on: they share no code with us."""

import asyncio
import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers.group_resets import GroupResets
from chiplog_broker.metadata.listeners import Listener
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.consumer_group import Reset, ResetStrategy, WhileActive
from chiplog_core.model.group_exchange import PartitionPosition, ResetRequest, TopicPositions
from chiplog_core.model.group_status import ResetState
from tests.coordinator.groups_kit import OK, Group, running

if TYPE_CHECKING:
    from tests.conftest import Kit

PARTITIONS = 4
QUIET_POLLS = 20
"""Of 50 ms each, heartbeats going on: nobody is about to join again."""
LIMIT_S = 50.0
"""For each wait in a thread. Nobody can cancel a thread: without a limit, a test whose time is up
would hang."""
LAST = range(5, 10)
"""Of ten records of a partition, those that are read again."""


class KafkaPython:
    """One consumer of kafka-python."""

    def __init__(self, address: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka import KafkaConsumer  # type: ignore[import-untyped]  # noqa: PLC0415
        self.consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
        )
        # If it joins before it knows the partitions, it joins again when it does. If that takes
        # longer than one poll, version 3.0.12 drops the assignment and sends no heartbeats any more
        # (its `need_rejoin` is false too early, so the result of the join is never read).
        self.consumer.partitions_for_topic("orders")

    def poll(self) -> list[bytes]:
        found = self.consumer.poll(timeout_ms=50)
        return [record.value for records in found.values() for record in records]

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class Confluent:
    """One consumer of librdkafka."""

    def __init__(self, address: str) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415

        config: dict[str, Any] = {
            "bootstrap.servers": address,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.consumer = Consumer(config, logger=logging.getLogger("librdkafka"))
        self.consumer.subscribe(["orders"])

    def poll(self) -> list[bytes]:
        found = self.consumer.consume(num_messages=100, timeout=0.05)
        return [one.value() or b"" for one in found if one.error() is None]

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class AioKafka:
    """One consumer of aiokafka, driven like the others: from a thread, by a loop of its own."""

    def __init__(self, address: str) -> None:
        from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # noqa: PLC0415

        self.runner = asyncio.Runner()

        async def begin() -> Any:
            consumer = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=address,
                group_id="g",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                heartbeat_interval_ms=200,
            )
            # It waits for its first assignment, and so for the other one to join.
            self.starting = asyncio.ensure_future(consumer.start())
            return consumer

        self.consumer = self.runner.run(begin())

    async def _poll(self) -> list[bytes]:
        if not self.starting.done():
            await asyncio.wait([self.starting], timeout=0.05)
            return []
        found = await self.consumer.getmany(timeout_ms=50)
        return [record.value for records in found.values() for record in records]

    def poll(self) -> list[bytes]:
        return self.runner.run(self._poll())

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self) -> None:
        self.runner.run(self.consumer.commit())

    def close(self) -> None:
        self.runner.run(self.consumer.stop())
        self.runner.close()


def rounds() -> Iterator[None]:
    """As many as fit into `LIMIT_S`."""
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        yield
    raise AssertionError(f"not within {LIMIT_S:g} s")


def settled(client: Callable[[str], Any], address: str) -> tuple[Any, Any]:
    """Two consumers, each with its half, and nothing left to read."""
    both = client(address), client(address)
    for _ in rounds():
        if [one.assigned() for one in both] == [PARTITIONS / 2] * 2:
            break
        for one in both:
            assert one.poll() == []
    return both


def reached(both: tuple[Any, Any], count: int) -> list[bytes]:
    """What a group of two gets, and commits; both stay."""
    got: list[bytes] = []
    for _ in rounds():
        if len(got) >= count:
            break
        for one in both:
            got += one.poll()
    for one in both:
        one.commit()
    return got


def consumed(both: tuple[Any, Any], count: int) -> list[bytes]:
    """What a group of two gets, and commits; both leave."""
    got = reached(both, count)
    for one in both:
        one.close()
    return got


@pytest.mark.parametrize("client", [KafkaPython, Confluent, AioKafka])
def test_a_group_of_two_continues_where_it_stopped(
    kit: "Kit", client: Callable[[str], Any]
) -> None:
    async def scenario() -> None:
        for name, offset in (("before", 10), ("after", 20)):
            async with running(kit) as ours:
                await ours.create("orders", PARTITIONS)
                both = await asyncio.to_thread(settled, client, address_of(kit))
                sent = await produced(kit, name)
                got = await asyncio.to_thread(consumed, both, len(sent))
                assert sorted(got) == sorted(sent)
                committed = await Group(ours).offsets()
                assert [one[0] for one in committed.values()] == [offset] * PARTITIONS
                assert await Group(ours).state() == "Empty"

    kit.run(scenario)


# aiokafka loses a socket whenever nobody listens; no other test is to find it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("client", [KafkaPython, Confluent, AioKafka])
def test_a_group_of_two_does_not_notice_a_restart(kit: "Kit", client: Callable[[str], Any]) -> None:
    async def scenario() -> None:
        async with running(kit) as ours:
            await ours.create("orders", PARTITIONS)
            host, port = kit.broker.addresses["PLAINTEXT"]
            both = await asyncio.to_thread(settled, client, address_of(kit))
            members = await Group(ours).described()
        again = Listener("PLAINTEXT", host, port, host, port)
        broker = kit.new_broker({"group.initial.rebalance.delay.ms": "0"}, [again])
        await broker.start()
        try:
            sent = await produced(kit, "after")
            group = Group(await kit.client())
            assert await group.described() == members
            got = await asyncio.to_thread(consumed, both, len(sent))
            assert sorted(got) == sorted(sent)
            assert [one[0] for one in (await group.offsets()).values()] == [10] * PARTITIONS
        finally:
            kit.close_clients()
            await broker.stop()

    kit.run(scenario)
    gc.collect()


def replayed(both: tuple[Any, Any], count: int) -> set[bytes]:
    """What both get once they are members again, each with its half, and commit; both leave.

    Who comes back first may read all of it before the other comes, which reads its half again.
    """
    got: set[bytes] = set()
    quiet = 0
    for _ in rounds():
        if len(got) >= count and quiet >= QUIET_POLLS:
            break
        found = [record for one in both for record in one.poll()]
        got.update(found)
        is_settled = [one.assigned() for one in both] == [PARTITIONS / 2] * 2
        quiet = quiet + 1 if is_settled and not found else 0
    for one in both:
        one.commit()
        one.close()
    return got


@pytest.mark.parametrize("client", [KafkaPython, Confluent, AioKafka])
def test_a_group_of_two_that_is_fenced_comes_back_and_replays(
    kit: "Kit", client: Callable[[str], Any]
) -> None:
    async def scenario() -> None:
        async with running(kit) as ours:
            await ours.create("orders", PARTITIONS)
            both = await asyncio.to_thread(settled, client, address_of(kit))
            sent = await produced(kit, "before")
            got = await asyncio.to_thread(reached, both, len(sent))
            assert sorted(got) == sorted(sent)
            reset = Reset(
                id="one",
                strategy=ResetStrategy.SHIFT_BY,
                shift_by=-5,
                dry_run=False,
                while_active=WhileActive.FENCE,
            )
            here = tuple(
                PartitionPosition(
                    partition=PartitionIndex(index),
                    log_start_offset=Offset(0),
                    end_offset=Offset(10),
                )
                for index in range(PARTITIONS)
            )
            asked = ResetRequest(
                group_id="g",
                reset=reset,
                positions=(TopicPositions(topic="orders", partitions=here),),
            )
            broker = kit.broker
            answer = await GroupResets(broker._coordinator, broker._cluster).answer(asked)
            assert answer.state is ResetState.DONE, answer
            again = await asyncio.to_thread(replayed, both, len(sent) // 2)
            last = {f"before-{index}-{number}" for index in range(PARTITIONS) for number in LAST}
            assert again == {one.encode() for one in last}
            committed = await Group(ours).offsets()
            assert [one[0] for one in committed.values()] == [10] * PARTITIONS

    kit.run(scenario)


def address_of(kit: "Kit") -> str:
    return "{}:{}".format(*kit.broker.addresses["PLAINTEXT"])


async def produced(kit: "Kit", name: str) -> set[bytes]:
    """Ten records in each partition."""
    client = await kit.client()
    everything = set()
    for index in range(PARTITIONS):
        values = [f"{name}-{index}-{number}".encode() for number in range(10)]
        (answer,) = await client.produce("orders", kit.batch(*values), partition=index)
        assert answer.error_code == OK
        everything.update(values)
    return everything
