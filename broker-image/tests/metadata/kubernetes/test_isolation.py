"""A leader that hears nobody takes no records; who hears anybody, or waits for nobody, does."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import generate_latest

from chiplog_broker.partitions import housekeeping
from chiplog_broker.partitions.contact import Contact
from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.isolation import SILENCE_S
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.records.writer import Producer
from tests.metadata.kubernetes import brokers_kit
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

if TYPE_CHECKING:
    from tests.conftest import Client

OK = ErrorCode.none
NOT_LEADER = ErrorCode.not_leader_or_follower
NO_LEADER = (ErrorCode.leader_not_available, -1)
STEP_S = 1.0


class SteppedClock(SystemClock):
    """Goes like the machine's, and further where a test says so."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + SteppedClock.ahead_s


class Cluster:
    """Three brokers that look at the clock when the test says so."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.contacts: dict[int, Contact] = {}

    def replica(self, index: int = 0) -> Partition:
        return self.brokers.up[1].replica(index)

    async def look(self) -> None:
        """Nothing else runs meanwhile."""
        for contact in self.contacts.values():
            await contact.look()

    async def pass_silently(self, seconds: float) -> None:
        """Time goes on, and nobody is heard in it."""
        passed_s = 0.0
        while passed_s < seconds:
            SteppedClock.ahead_s += STEP_S
            passed_s += STEP_S
            await self.look()

    def cut_api(self) -> None:
        self.brokers.api.away = True

    def cut_followers(self) -> None:
        """They ask the leader no more, and do not say so."""
        for broker_id in (2, 3):
            for following in self.followings(broker_id):
                self.fetching(broker_id).end(following)

    def join_follower(self, broker_id: int) -> None:
        for following in self.followings(broker_id):
            self.fetching(broker_id).begin(following)

    def fetching(self, broker_id: int) -> Any:
        return self.brokers.up[broker_id].broker.fetching

    def followings(self, broker_id: int) -> list[Any]:
        return [one.following for one in self.brokers.replicas(broker_id) if one is not None]

    @asynccontextmanager
    async def client(self) -> AsyncIterator["Client"]:
        """Of broker 1."""
        client = await self.brokers.client(1)
        try:
            yield client
        finally:
            client.writer.close()

    async def told(self, topic: str = "orders") -> list[tuple[int, int]]:
        """(code, leader) of each partition, as broker 1 answers Metadata."""
        async with self.client() as client:
            (found,) = (await client.metadata(topic)).topics
        assert found.error_code == OK
        return [(one.error_code, one.leader_id) for one in found.partitions]

    async def described(self) -> list[tuple[int, int]]:
        async with self.client() as client:
            types = client.types(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
            topics = (types.TopicRequest(name="orders"),)
            request = types.DescribeTopicPartitionsRequest(
                topics=topics, response_partition_limit=10, cursor=None
            )
            answer = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
        return [(one.error_code, one.leader_id) for one in answer.topics[0].partitions]

    async def produce(self, acks: int = -1, index: int = 0) -> ErrorCode:
        batch = self.brokers.kit.batch(b"x")
        async with self.client() as client:
            (one,) = await client.produce(
                "orders", batch, acks=acks, partition=index, timeout_ms=20_000
            )
        return ErrorCode(one.error_code)


@pytest.fixture
def cluster(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    one = Cluster(brokers)
    SteppedClock.ahead_s = 0.0
    monkeypatch.setattr(brokers_kit, "SystemClock", SteppedClock)
    monkeypatch.setattr(housekeeping, "LOOK_INTERVAL_S", 3600.0)
    init = Contact.__init__

    def kept(contact: Contact, replicas: Any, *others: Any) -> None:
        init(contact, replicas, *others)
        one.contacts[len(one.contacts) + 1] = contact

    monkeypatch.setattr(Contact, "__init__", kept)
    return one


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """That a broker was isolated once, and not any more."""
    with caplog.at_level(logging.INFO, "chiplog_broker"):
        yield
    assert [one for one in caplog.messages if "isolated" in one] == [
        "isolated",
        "not_isolated_any_more",
    ]


async def begin(one: Cluster, **options: Any) -> None:
    """Broker 1 leads, all are in sync, have the same records, and rest."""
    await one.brokers.start(*ALL)
    one.brokers.lead(1, minIsr=2, **options)
    await one.brokers.settled(1)
    for index in range(one.brokers.partitions):
        assert await one.produce(index=index) == OK
        await one.brokers.equal(1, index)


async def begin_isolated(one: Cluster, **options: Any) -> None:
    await begin(one, **options)
    one.cut_api()
    one.cut_followers()
    await one.pass_silently(SILENCE_S)
    assert one.replica().is_isolated


def test_an_isolated_leader_takes_no_records_and_names_no_leader(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = cluster
        await begin(one, partitions=2)
        assert await one.told() == [(OK, 1)] * 2
        one.cut_api()
        one.cut_followers()
        await one.pass_silently(SILENCE_S - 2 * STEP_S)
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
        metrics = generate_latest(one.brokers.up[1].broker.registry()).decode()
        assert "\nchiplog_broker_isolated_partitions 2.0\n" in metrics
        # The others lead nothing, so they are not.
        assert not any(one.brokers.up[broker_id].replica().is_isolated for broker_id in (2, 3))
        one.brokers.api.away = False
        await one.brokers.eventually(lambda: not one.replica().is_isolated)
        assert await one.told() == [(OK, 1)] * 2

    with logged(caplog):
        run(cluster.brokers, scenario)


def test_readers_read_on(cluster: Cluster) -> None:
    async def scenario() -> None:
        await begin_isolated(cluster)
        async with cluster.client() as client:
            ((code, records),) = await client.fetch(cluster.replica().log.topic_id, (0, 0))
            assert code == OK
            assert records
            assert (await client.offset("orders", -1))[::2] == (OK, 1)

    run(cluster.brokers, scenario)


def test_a_client_with_acks_0_hears_of_it_by_the_end_of_its_connection(cluster: Cluster) -> None:
    async def scenario() -> None:
        await begin_isolated(cluster)
        batch = cluster.brokers.kit.batch(b"x")
        async with cluster.client() as client:
            await client.send(ApiKey.PRODUCE, client.produce_request("orders", batch, acks=0))
            assert await client.is_closed()

    run(cluster.brokers, scenario)


def test_it_ends_when_a_follower_in_sync_fetches(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await begin_isolated(cluster)
        assert await cluster.told() == [NO_LEADER]
        cluster.join_follower(2)
        await cluster.brokers.eventually(lambda: not cluster.replica().is_isolated)
        assert await cluster.told() == [(OK, 1)]
        cluster.join_follower(3)
        assert await cluster.produce() == OK

    with logged(caplog):
        run(cluster.brokers, scenario)


def test_it_ends_with_the_next_use_of_the_fetch_session_of_one_that_rests(
    cluster: Cluster,
) -> None:
    async def scenario() -> None:
        await begin(cluster)
        cluster.cut_api()
        # In no time, so that the fetches which are waiting were not answered.
        await cluster.pass_silently(SILENCE_S + STEP_S)
        assert cluster.replica().is_isolated
        await cluster.brokers.eventually(lambda: not cluster.replica().is_isolated)
        assert await cluster.produce() == OK

    run(cluster.brokers, scenario)


def has_heard_since(followers: Followers, since_s: float) -> bool:
    return followers.heard_s >= since_s


def test_an_outage_of_the_api_server_alone_changes_nothing_also_at_rest(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await begin(cluster, partitions=2)
        cluster.cut_api()
        followers = cluster.replica().followers
        assert followers is not None
        for _ in range(4 * int(SILENCE_S)):
            SteppedClock.ahead_s += STEP_S
            # Its waiting fetch ends in time, and it sends the next one.
            is_heard = partial(has_heard_since, followers, SteppedClock().monotonic_s())
            await cluster.brokers.eventually(is_heard)
            await cluster.look()
        assert [one.resting is not None for one in followers._counted] == [True, True]
        assert await cluster.told() == [(OK, 1)] * 2
        assert [await cluster.produce(index=index) for index in (0, 1)] == [OK, OK]

    with caplog.at_level(logging.INFO, "chiplog_broker"):
        run(cluster.brokers, scenario)
    assert not [one for one in caplog.messages if "isolated" in one]


def test_who_waits_for_nobody_serves_on(cluster: Cluster) -> None:
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


def test_a_stall_of_the_process_is_no_silence(cluster: Cluster) -> None:
    async def scenario() -> None:
        await begin(cluster)
        cluster.cut_api()
        cluster.cut_followers()
        SteppedClock.ahead_s += 10 * SILENCE_S
        await cluster.look()
        assert not cluster.replica().is_isolated
        await cluster.pass_silently(SILENCE_S)
        assert cluster.replica().is_isolated

    run(cluster.brokers, scenario)


def test_an_idempotent_batch_that_was_refused_while_it_waited_is_there_once(
    cluster: Cluster,
) -> None:
    """The client cannot know whether it is; it sends it again, here or to the next leader."""

    async def scenario() -> None:
        one = cluster
        await begin(one)
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


def test_another_reign_is_not_isolated_by_the_silence_of_the_one_before(cluster: Cluster) -> None:
    async def scenario() -> None:
        await begin_isolated(cluster)
        cluster.brokers.api.away = False
        cluster.brokers.lead(2, minIsr=2)
        await cluster.brokers.settled(2)
        assert not cluster.replica().is_isolated
        assert await cluster.told() == [(OK, 2)]
        cluster.brokers.lead(1, minIsr=2)
        await cluster.brokers.settled(1)
        await cluster.look()
        assert await cluster.produce() == OK
        assert await cluster.told() == [(OK, 1)]

    run(cluster.brokers, scenario)
