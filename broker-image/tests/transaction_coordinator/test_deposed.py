"""A coordinator that was deposed and has not heard of it yet gives no old answers."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from chiplog_broker.coordinator import holding
from chiplog_broker.partitions.partition import Partition
from chiplog_core.groups.at import At
from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.errors import ErrorCode
from tests.transaction_coordinator.fake_partition import markers_are_noted
from tests.transaction_coordinator.transactions_kit import (
    FENCED,
    OK,
    STATE,
    Producing,
    at_rest,
    loaded,
    running,
    shard_of,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

ORDERS, OTHERS = At("orders", 0), At("orders", 1)
NOT_AVAILABLE = ErrorCode.coordinator_not_available
FOLLOWER = ReplicaRef(BrokerId(2), Session(1))
IN_SYNC: dict[str, Any] = {
    "replicas": (1, 2),
    "isr": (1, 2),
    "isr_refs": (ReplicaRef(BrokerId(1), Session(1)), FOLLOWER),
    "live_refs": (ReplicaRef(BrokerId(1), Session(1)), FOLLOWER),
    "leader_session": 1,
}

T = TypeVar("T")


def fetch(partition: Partition) -> None:
    """The follower fetches everything, and says so with its next fetch."""
    for _ in range(2):
        partition.fetched_by(FOLLOWER, partition.log.end_offset)


async def with_a_follower(partition: Partition, asked: Awaitable[T]) -> T:
    """The answer, while a follower fetches what is there."""
    waiting = asyncio.ensure_future(asked)
    while not waiting.done():
        await asyncio.sleep(0.001)
        fetch(partition)
    return await waiting


async def proven(partition: Partition, asked: Awaitable[T]) -> T:
    """The answer, which is given only when a follower has fetched since the question."""
    waiting = asyncio.ensure_future(asked)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    return await with_a_follower(partition, waiting)


async def deposed(kit: "Kit") -> Partition:
    """A coordinator with a follower that fetches nothing more: it follows another leader."""
    await kit.begin_leadership(STATE, **IN_SYNC)
    partition = shard_of(kit).partition
    fetch(partition)
    await loaded(kit)
    return partition


async def committed(client: "Client", version: int) -> tuple[Producing, Producer]:
    """A producer with a transaction of the first generation that is committed."""
    producing = Producing(client, version=version)
    producer = await producing.ready()
    assert await producing.add(producer, ORDERS) == {ORDERS: OK}
    assert (await producing.end(producer))[0] is OK
    return producing, producer


def test_the_next_transaction_is_not_taken_for_the_last_one(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first generation they have the same epoch. The next one was begun at another
    coordinator: "it is committed already" would lose it."""
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing, producer = await committed(client, 4)
            await at_rest(kit)
            partition = await deposed(kit)
            assert (await proven(partition, producing.end(producer)))[0] is OK
            # The next one may have been committed elsewhere, while it is open here.
            for _ in range(2):
                added = await proven(partition, producing.add(producer, ORDERS))
                assert added == {ORDERS: OK}
            monkeypatch.setattr(holding, "TIMEOUT_S", 0.05)
            assert await producing.add(producer, ORDERS) == {ORDERS: NOT_AVAILABLE}

    kit.run(scenario)


def test_no_good_producer_is_fenced(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epoch is newer than what an old coordinator knows, and so may its partitions be."""
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client, version=4)
            producer = await producing.ready()
            assert await producing.add(producer, ORDERS) == {ORDERS: OK}
            partition = await deposed(kit)
            newer = Producer(producer.producer_id, producer.epoch + 1)
            unknown, both = Producing(client, "new", version=4), (ORDERS, OTHERS)
            assert (await proven(partition, producing.end(newer)))[0] is FENCED
            assert await proven(partition, producing.add(newer, ORDERS)) == {ORDERS: FENCED}
            code, _ = await proven(partition, unknown.end(newer))
            assert code is ErrorCode.invalid_producer_id_mapping
            verified = await proven(
                partition, producing.add_as_broker(producer, *both, verify_only=True)
            )
            assert verified == {ORDERS: OK, OTHERS: ErrorCode.transaction_abortable}
            # What it has is answered at once: every transaction waits for that.
            verified = await producing.add_as_broker(producer, ORDERS, verify_only=True)
            assert verified == {ORDERS: OK}
            monkeypatch.setattr(holding, "TIMEOUT_S", 0.05)
            verified = await producing.add_as_broker(producer, *both, verify_only=True)
            assert verified == dict.fromkeys(both, NOT_AVAILABLE)

    kit.run(scenario)


def test_who_asks_together_waits_for_one_record(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing = Producing(client, version=4)
            producer = await producing.ready()
            partition = await deposed(kit)
            before = partition.log.end_offset
            old = Producer(producer.producer_id, producer.epoch + 1)
            clients = [Producing(await kit.client(), version=4) for _ in range(3)]
            answers = await with_a_follower(
                partition, asyncio.gather(*(one.end(old) for one in clients))
            )
            assert [code for code, _ in answers] == [FENCED] * 3
            assert 0 < partition.log.end_offset - before <= 3
            # The next coordinator passes over these records.
            await kit.begin_leadership(STATE)
            assert dict(await loaded(kit))["t"].producer == producer

    kit.run(scenario)
