"""A leader that hears nobody takes no records; who hears anybody, or waits for nobody, does."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from prometheus_client import generate_latest

from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.isolation import SILENCE_S
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import Producer
from tests.metadata.kubernetes.brokers_kit import run
from tests.metadata.kubernetes.isolation_kit import OK, STEP_S, SteppedClock, SteppedCluster

OTHER_ID = "CCCCCCCCCCCCCCCCCCCCCQ"
NOT_LEADER = ErrorCode.not_leader_or_follower
NO_LEADER = (ErrorCode.leader_not_available, -1)


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """That a broker was isolated once, and not any more."""
    with caplog.at_level(logging.INFO, "chiplog_broker"):
        yield
    assert [one for one in caplog.messages if "isolated" in one] == [
        "isolated",
        "not_isolated_any_more",
    ]


def test_an_isolated_leader_takes_no_records_and_names_no_leader(
    cluster: SteppedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = cluster
        await one.begin(partitions=2)
        assert await one.told() == [(OK, 1)] * 2
        one.cut_api()
        one.cut_followers()
        await one.pass_silently(SILENCE_S - 3 * STEP_S)
        assert not one.replica().is_isolated
        # Nobody knows yet. This one waits for the others, which do not come.
        waiting = asyncio.create_task(one.produce())
        await one.brokers.eventually(lambda: one.replica().waiting_produces == 1)
        await one.pass_silently(SILENCE_S)
        assert await waiting == NOT_LEADER
        end_offset = one.replica().log.end_offset
        assert [await one.produce(), await one.produce(acks=1)] == [NOT_LEADER] * 2
        assert one.replica().log.end_offset == end_offset
        assert await one.told() == [NO_LEADER] * 2
        assert await one.described() == [NO_LEADER] * 2
        metrics = generate_latest(one.brokers.up[1].broker.exposition().registry).decode()
        assert "\nchiplog_broker_isolated_partitions 2.0\n" in metrics
        # The others lead nothing, so they are not.
        assert not any(one.brokers.up[broker_id].replica().is_isolated for broker_id in (2, 3))
        one.brokers.api.away = False
        await one.brokers.eventually(lambda: not one.replica().is_isolated)
        assert await one.told() == [(OK, 1)] * 2

    with logged(caplog):
        run(cluster.brokers, scenario)


@pytest.mark.parametrize("serves_another", [False, True])
def test_it_names_itself_only_while_it_serves_something(
    cluster: SteppedCluster, serves_another: bool
) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.make_reachable()
        operator = cluster.brokers.operator
        if serves_another:
            alone = {"partition": 0, "replicas": [1], "isr": ["1@1"], "leader": "1@1"}
            epochs = {"leaderEpoch": 1, "partitionEpoch": 1}
            operator.write_map("alone", [alone | epochs], topic_id=OTHER_ID)
            replicas = cluster.brokers.up[1].broker._replicas
            await cluster.brokers.eventually(lambda: replicas.get("alone", 0) is not None)
        view = cluster.brokers.up[1].broker._cluster
        await cluster.brokers.eventually(lambda: len(view.nodes("plain")) == 3)
        assert await cluster.nodes() == ({1, 2, 3}, 1)
        cluster.cut_api()
        cluster.cut_followers()
        await cluster.pass_silently(SILENCE_S)
        if serves_another:
            assert await cluster.nodes() == ({1, 2, 3}, 1)
            assert await cluster.told("alone") == [(OK, 1)]
        else:
            assert await cluster.nodes() == ({2, 3}, 2)
        cluster.brokers.api.away = False
        await cluster.brokers.eventually(lambda: not cluster.replica().is_isolated)
        assert await cluster.nodes() == ({1, 2, 3}, 1)

    run(cluster.brokers, scenario)


def test_readers_read_on(cluster: SteppedCluster) -> None:
    async def scenario() -> None:
        await cluster.begin_isolated()
        async with cluster.client() as client:
            ((code, records),) = await client.fetch(cluster.replica().log.topic_id, (0, 0))
            assert code == OK
            assert records
            assert (await client.offset("orders", -1))[::2] == (OK, 1)

    run(cluster.brokers, scenario)


def test_a_client_with_acks_0_hears_of_it_by_the_end_of_its_connection(
    cluster: SteppedCluster,
) -> None:
    async def scenario() -> None:
        await cluster.begin_isolated()
        batch = cluster.brokers.kit.batch(b"x")
        async with cluster.client() as client:
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", batch, acks=0))
            assert await client.is_closed()

    run(cluster.brokers, scenario)


def test_it_ends_when_a_follower_in_sync_fetches(
    cluster: SteppedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await cluster.begin_isolated()
        assert await cluster.told() == [NO_LEADER]
        cluster.join_follower(2)
        await cluster.brokers.eventually(lambda: not cluster.replica().is_isolated)
        assert await cluster.told() == [(OK, 1)]
        cluster.join_follower(3)
        assert await cluster.produce() == OK

    with logged(caplog):
        run(cluster.brokers, scenario)


def test_it_ends_with_the_next_use_of_the_fetch_session_of_one_that_rests(
    cluster: SteppedCluster,
) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.cut_api()
        # In no time, so that the fetches which are waiting were not answered.
        await cluster.pass_silently(SILENCE_S)
        assert cluster.replica().is_isolated
        await cluster.brokers.eventually(lambda: not cluster.replica().is_isolated)
        assert await cluster.produce() == OK

    run(cluster.brokers, scenario)


def has_fetched_since(followers: Followers, since_s: float) -> bool:
    return followers.last_fetch_s >= since_s


def test_an_outage_of_the_api_server_alone_changes_nothing_also_at_rest(
    cluster: SteppedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await cluster.begin(partitions=2)
        cluster.cut_api()
        followers = cluster.replica().followers
        assert followers is not None
        for _ in range(4 * int(SILENCE_S)):
            SteppedClock.ahead_s += STEP_S
            # Its waiting fetch ends in time, and it sends the next one.
            has_fetched = partial(has_fetched_since, followers, SteppedClock().monotonic_s())
            await cluster.brokers.eventually(has_fetched)
            await cluster.check()
        assert [one.idle_entry is not None for one in followers._counted_followers] == [True, True]
        assert await cluster.told() == [(OK, 1)] * 2
        assert [await cluster.produce(index=index) for index in (0, 1)] == [OK, OK]

    with caplog.at_level(logging.INFO, "chiplog_broker"):
        run(cluster.brokers, scenario)
    assert not [one for one in caplog.messages if "isolated" in one]


def test_who_waits_for_nobody_serves_on(cluster: SteppedCluster) -> None:
    """One replica; and several of which only the leader is listed."""

    async def scenario() -> None:
        await cluster.brokers.start(1)
        cluster.brokers.lead(1, isr=(1,), replicas=(1,))
        await cluster.brokers.eventually(lambda: cluster.brokers.leads(1))
        cluster.cut_api()
        await cluster.pass_silently(3 * SILENCE_S)
        assert await cluster.produce() == OK
        assert await cluster.told() == [(OK, 1)]
        cluster.brokers.api.away = False
        cluster.brokers.lead(1, isr=(1,), minIsr=1)
        await cluster.brokers.eventually(lambda: cluster.brokers.leads(1))
        cluster.cut_api()
        await cluster.pass_silently(3 * SILENCE_S)
        assert await cluster.produce() == OK

    run(cluster.brokers, scenario)


def test_a_stall_of_the_process_is_no_silence(cluster: SteppedCluster) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.cut_api()
        cluster.cut_followers()
        SteppedClock.ahead_s += 10 * SILENCE_S
        await cluster.check()
        assert not cluster.replica().is_isolated
        await cluster.pass_silently(SILENCE_S)
        assert cluster.replica().is_isolated

    run(cluster.brokers, scenario)


def test_an_idempotent_batch_that_was_refused_while_it_waited_is_there_once(
    cluster: SteppedCluster,
) -> None:
    """The client cannot know whether it is; it sends it again, here or to the next leader."""

    async def scenario() -> None:
        one = cluster
        await one.begin()
        one.cut_api()
        one.cut_followers()
        batch = one.brokers.kit.batch(
            b"y", producer=Producer(producer_id=7, epoch=0, base_sequence=0)
        )
        async with one.client() as client:
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", batch))
            await one.brokers.eventually(lambda: one.replica().waiting_produces == 1)
            await one.pass_silently(SILENCE_S)
            (refused,) = (await client.receive()).responses[0].partition_responses
            assert refused.error_code == NOT_LEADER
            one.join_follower(2)
            one.join_follower(3)
            await one.brokers.eventually(lambda: not one.replica().is_isolated)
            (again,) = await client.produce("orders", batch)
        assert (again.error_code, again.base_offset) == (OK, 1)
        await one.brokers.equal(2)

    run(cluster.brokers, scenario)


def test_another_leadership_is_not_isolated_by_the_silence_of_the_one_before(
    cluster: SteppedCluster,
) -> None:
    async def scenario() -> None:
        await cluster.begin_isolated()
        cluster.brokers.api.away = False
        cluster.brokers.lead(2, minIsr=2)
        await cluster.brokers.settled(2)
        assert not cluster.replica().is_isolated
        assert await cluster.told() == [(OK, 2)]
        cluster.brokers.lead(1, minIsr=2)
        await cluster.brokers.settled(1)
        await cluster.check()
        assert await cluster.produce() == OK
        assert await cluster.told() == [(OK, 1)]

    run(cluster.brokers, scenario)
