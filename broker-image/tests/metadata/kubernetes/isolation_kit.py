"""Three brokers with the test's clock: they check for isolation when the test says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.partitions import housekeeping
from chiplog_broker.partitions.isolation import SILENCE_S
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.silence import SilenceWatch
from chiplog_broker.ports.clock import SystemClock
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes import brokers_kit
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers

if TYPE_CHECKING:
    from tests.conftest import Client

OK = ErrorCode.none
STEP_S = 1.0


class SteppedClock(SystemClock):
    """Goes like the machine's, and further where a test says so."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + SteppedClock.ahead_s


class SteppedCluster:
    """Three brokers that check for isolation when the test says so."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.watches: list[SilenceWatch] = []

    def replica(self, index: int = 0) -> Partition:
        return self.brokers.up[1].replica(index)

    async def begin(self, **options: Any) -> None:
        """Broker 1 leads, all are in sync, have the same records, and rest."""
        await self.brokers.start(*ALL, replica_fetch_wait_max_ms="50")
        self.brokers.lead(1, minIsr=2, **options)
        await self.brokers.settled(1)
        for index in range(self.brokers.partitions):
            assert await self.produce(index=index) == OK
            await self.brokers.equal(1, index)
        await self.brokers.eventually(lambda: all(map(at_rest, self.brokers.replicas(1))))

    async def begin_isolated(self, **options: Any) -> None:
        """As `begin`; then broker 1 is cut off for too long."""
        await self.begin(**options)
        self.cut_api()
        self.cut_followers()
        await self.pass_silently(SILENCE_S)
        assert self.replica().is_isolated

    async def check(self) -> None:
        """Nothing else runs meanwhile."""
        for watch in self.watches:
            await watch.check()

    async def pass_silently(self, seconds: float) -> None:
        """Let a little more than this pass without any contact."""
        await self.check()
        passed_s = 0.0
        while passed_s <= seconds:
            SteppedClock.ahead_s += STEP_S
            passed_s += STEP_S
            await self.check()

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

    def make_reachable(self) -> None:
        """Clients of each broker are told the addresses that were bound."""
        for broker_id, member in self.brokers.up.items():
            bound = member.broker.addresses.items()
            self.brokers.operator.write_broker(
                broker_id,
                endpoints=[{"listener": one, "host": at[0], "port": at[1]} for one, at in bound],
            )

    async def nodes(self) -> tuple[set[int], int]:
        """The brokers and the controller, as broker 1 answers Metadata."""
        async with self.client() as client:
            answer = await client.metadata("orders")
        return {one.node_id for one in answer.brokers}, answer.controller_id

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


def at_rest(replica: Partition | None) -> bool:
    """Whether all followers have everything, and fetch without naming it."""
    assert replica is not None
    followers = replica.followers
    assert followers is not None
    return all(one.idle_entry is not None for one in followers._counted_followers)


def stepped_cluster(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> SteppedCluster:
    """Made before any of its brokers is started."""
    one = SteppedCluster(brokers)
    SteppedClock.ahead_s = 0.0
    monkeypatch.setattr(brokers_kit, "SystemClock", SteppedClock)
    monkeypatch.setattr(housekeeping, "CHECK_INTERVAL_S", 3600.0)
    init = SilenceWatch.__init__

    def kept(watch: SilenceWatch, *given: Any) -> None:
        init(watch, *given)
        one.watches.append(watch)

    monkeypatch.setattr(SilenceWatch, "__init__", kept)
    return one
