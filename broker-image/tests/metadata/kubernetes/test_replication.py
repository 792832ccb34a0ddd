"""Followers have what their leader has, whoever leads and whoever was away."""

import asyncio
import random
import shutil

import pytest

from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, pieces_of, run


@pytest.mark.parametrize("durability", ["Fsync", "PageCache"])
def test_records_appear_on_all_replicas(brokers: Brokers, durability: str) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2, durability=durability)
        await brokers.settled(1)
        for number in range(20):
            base = await brokers.produce(1, b"a%d" % number, b"b%d" % number)
            assert base == number * 2
        # What acks=all acknowledged is on every in-sync replica now, not some time.
        assert set(brokers.ends().values()) == {40}
        await brokers.equal(40)
        await brokers.all_know_high_watermark(40)
        fetching = brokers.up[2].broker.fetching
        assert fetching is not None
        assert (fetching.leaders, fetching.max_lag) == (frozenset({1}), 0)

    run(brokers, scenario)


def test_a_follower_that_was_away_catches_up(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"before")
        await brokers.stop(3)
        brokers.fence(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        for _ in range(10):
            await brokers.produce(1, b"while away" * 100)
        await brokers.start(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.equal(11)

    run(brokers, scenario)


def test_a_follower_without_any_data_gets_it_all(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.stop(3)
        shutil.rmtree(brokers.directory / "3")
        brokers.fence(3)
        brokers._sessions[3] = 7
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.start(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.equal(3)

    run(brokers, scenario)


def test_another_leader_by_a_new_map(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        offset = 0
        for leader in (1, 2, 3, 1, 3, 2):
            brokers.lead(leader)
            await brokers.settled(leader)
            for _ in range(3):
                assert await brokers.produce(leader, b"%d" % offset) == offset
                offset += 1
            await brokers.equal(offset)
            fetching = brokers.up[leader].broker.fetching
            assert fetching is not None
            assert not fetching.leaders, "a leader copies from nobody"

    run(brokers, scenario)


async def keep_producing(
    brokers: Brokers, acknowledged: dict[int, bytes], enough: asyncio.Event
) -> None:
    """As fast as acks=all goes, to whoever leads; what was acknowledged goes into the dict."""
    number = 0
    while not enough.is_set():
        leader = next((one for one in brokers.up if brokers.leads(one)), None)
        if leader is None:
            await asyncio.sleep(0.002)
            continue
        value = b"%08d" % number
        number += 1
        client = await brokers.client(leader)
        try:
            batch = brokers.kit.batch(value)
            (one,) = await client.produce("orders", batch, acks=-1, timeout_ms=1000)
        finally:
            client.writer.close()
        if one.error_code == ErrorCode.none:
            assert one.base_offset not in acknowledged, "an offset was given out twice"
            acknowledged[one.base_offset] = value


def test_leaders_that_change_under_load_lose_nothing_acknowledged(brokers: Brokers) -> None:
    chance = random.Random(5)  # noqa: S311 - reproducible, not secret

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        acknowledged: dict[int, bytes] = {}
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_producing(brokers, acknowledged, enough))
            for number in range(24):
                brokers.lead(chance.choice(ALL), minIsr=2)
                await asyncio.sleep(chance.random() * 0.1)
                had = len(acknowledged)
                while number % 2 and len(acknowledged) == had:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            enough.set()
        brokers.lead(1)
        await brokers.settled(1)
        end_offset = await brokers.produce(1, b"last") + 1
        await brokers.equal(end_offset)
        assert len(acknowledged) >= 12
        written = b"".join(pieces_of(brokers.up[1].replica()))
        assert [value for value in acknowledged.values() if value not in written] == []
        halted = [one.replica().following for one in brokers.up.values()]
        assert not any(one is not None and one.is_halted for one in halted)

    run(brokers, scenario)


def test_one_replica_costs_no_task_and_no_connection(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, isr=(1,), replicas=(1,))
        await brokers.eventually(lambda: brokers.leads(1))
        await brokers.produce(1, b"x")
        for member in brokers.up.values():
            fetching = member.broker.fetching
            assert fetching is not None
            assert not fetching.leaders

    run(brokers, scenario)
