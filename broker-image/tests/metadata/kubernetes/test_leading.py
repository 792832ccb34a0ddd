"""What followers are answered, and what their fetches say to the leader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.handlers import produce
from chiplog_broker.metadata.kubernetes import store
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_broker.storage.log import PartitionLog
from chiplog_core.ids import TopicId
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import replica_fetch, schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

OK = ErrorCode.none
CREDENTIALS = FixedCredentials(Credentials("chiplog", "secret"))
TOPIC_ID = UUID(bytes=TopicId.from_text("BBBBBBBBBBBBBBBBBBBBBQ").value)
VERSION = APIS[ApiKey.FETCH].max_version
EPOCH = 3


@dataclass
class FollowerPeer:
    """A follower as its leader sees it: a connection on which it fetches."""

    connection: PeerConnection
    replica_id: int = 2
    session: int = 1
    epoch: int = EPOCH

    async def ask(
        self, offset: int, last_epoch: int = -1, *, wait_ms: int = 0, **changes: Any
    ) -> FetchPartitionResponse:
        requested = {"replica_id": self.replica_id, "session": self.session, "epoch": self.epoch}
        requested |= changes
        partition = FetchPartition(0, requested["epoch"], offset, last_epoch, 0, 1 << 20)
        request = FetchRequest(
            replica_id=requested["replica_id"],
            replica_epoch=requested["session"],
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(None, TOPIC_ID, [partition])],
            forgotten_topics=[],
            rack_id="",
            cluster_id=None,
        )
        body = replica_fetch.encode_request(VERSION, request)
        answer = await self.connection.exchange(ApiKey.FETCH, VERSION, [body], 10)
        response = replica_fetch.decode_response(VERSION, answer)
        assert response.error_code == OK
        (topic,) = response.topics
        (found,) = topic.partitions
        return found


@dataclass
class Cluster:
    """Broker 1 leads `orders` of three replicas; brokers 2 and 3 are the test's."""

    member: "MemberKit"
    client: "Client"
    followers: dict[int, FollowerPeer]
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def replica(self) -> Any:
        return self.member.replica()

    def write_map(self, **changes: Any) -> None:
        self.state |= changes
        self.member.operator.write_map("orders", [dict(self.state)], minIsr=2)

    async def applied(self, **changes: Any) -> None:
        """Change the map, and wait until the broker goes by it."""
        self.write_map(partitionEpoch=self.state["partitionEpoch"] + 1, **changes)

        def is_known() -> bool:
            topic = self.member.broker._cluster.topic("orders")
            epoch = self.state["partitionEpoch"]
            return topic is not None and topic.partitions[0].partition_epoch == epoch

        await self.member.eventually(is_known)

    async def send(self, *values: bytes, client: "Client | None" = None, **more: Any) -> None:
        """Begin to produce with acks=all; on return only followers are waited for."""
        one, waiting = client or self.client, self.replica.waiting_produces
        batch = self.member.kit.batch(*values, **more)
        await one.send(ApiKey.PRODUCE, one.produce_request("orders", batch))
        log = self.replica.log
        await self.member.eventually(
            lambda: (
                self.replica.waiting_produces > waiting
                and log.countable_end_offset == log.end_offset
            )
        )

    async def is_safe(self, client: "Client | None" = None) -> int:
        """Wait for the answer to `send`; where the records went."""
        answer = await (client or self.client).receive()
        (one,) = answer.responses[0].partition_responses
        assert one.error_code == OK, ErrorCode(one.error_code)
        return int(one.base_offset)

    async def all_fetch(self, offset: int, last_epoch: int = EPOCH) -> None:
        for one in self.followers.values():
            answer = await one.ask(offset, last_epoch)
            assert answer.error_code == OK

    def proposals(self) -> list[tuple[int, list[str]]]:
        """What is in this broker's status: base epoch and members."""
        return [
            (one.base_partition_epoch, [str(member) for member in one.isr])
            for one in self.member.operator.status.proposals
        ]


@pytest.fixture(autouse=True)
def nobody_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """No operator is there to move leaderships when the broker stops."""
    monkeypatch.setattr(store, "DRAIN_S", 0.0)


@asynccontextmanager
async def leading(member: "MemberKit", **changes: Any) -> AsyncIterator[Cluster]:
    keyring = Keyring(CREDENTIALS, SystemRng())
    member.more_listeners = [internal_listener("127.0.0.1", keyring, host="127.0.0.1", port=0)]
    for broker_id in (2, 3):
        member.operator.add_broker(
            broker_id, admittedIncarnation=str(broker_id) * 32, session=1, fenced=False
        )
    state = member.partition(
        1, EPOCH, replicas=[1, 2, 3], isr=["1@1", "2@1", "3@1"], partitionEpoch=10
    )
    cluster = Cluster(member, None, {}, state | changes)  # type: ignore[arg-type]
    cluster.write_map()
    async with member.admitted(1) as client:
        cluster.client = client
        dialer = Dialer(SystemNet().connect, SystemRng(), CREDENTIALS, "broker-2")
        address = member.broker.addresses["internal"]
        for broker_id in (2, 3):
            connection = await dialer.dial(*address, 5)
            cluster.followers[broker_id] = FollowerPeer(connection, broker_id)
        try:
            yield cluster
        finally:
            for one in cluster.followers.values():
                one.connection.close()
            for other in member.kit._clients:
                other.writer.close()


Scenario = Callable[[Cluster], Any]


def run(member: "MemberKit", scenario: Scenario, **changes: Any) -> None:
    async def whole() -> None:
        async with leading(member, **changes) as cluster:
            await scenario(cluster)

    member.run(whole)


async def nothing_comes(client: "Client") -> bool:
    await asyncio.sleep(0.05)
    return not client.reader._buffer  # type: ignore[attr-defined]


def test_acks_all_waits_for_every_member_and_readers_see_no_more(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        two, three = one.followers.values()
        await one.all_fetch(0, -1)
        await one.send(b"a")
        answer = await two.ask(0)
        assert (answer.error_code, answer.high_watermark) == (OK, 0)
        assert len(answer.records) > 0  # type: ignore[arg-type]
        reader = await one.member.client()
        for offset in (0, 1):
            assert await reader.fetch(TOPIC_ID, (0, offset)) == [(OK, b"")]
        assert (await reader.fetch(TOPIC_ID, (0, 2)))[0][0] is ErrorCode.offset_out_of_range
        await two.ask(1, EPOCH)
        assert await nothing_comes(one.client)
        answer = await three.ask(1, EPOCH)
        assert answer.high_watermark == 1
        assert await one.is_safe() == 0
        ((code, records),) = await reader.fetch(TOPIC_ID, (0, 0))
        assert code is OK
        assert records

    run(member, scenario)


def test_a_duplicate_waits_for_the_followers_like_its_original(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        await one.all_fetch(0, -1)
        again = await one.member.client()
        producer = Producer(producer_id=7, epoch=0, base_sequence=0)
        await one.send(b"a", producer=producer)
        await one.send(b"a", producer=producer, client=again)
        assert await nothing_comes(again)
        assert one.replica.log.end_offset == 1
        await one.all_fetch(1)
        assert await one.is_safe() == 0
        assert await one.is_safe(again) == 0

    run(member, scenario)


def test_a_waiting_follower_is_woken_by_an_append(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        two = one.followers[2]
        waiting = asyncio.ensure_future(two.ask(0, wait_ms=9000))
        await one.member.eventually(lambda: one.replica.replica_fetchers)
        await one.send(b"a")
        answer = await asyncio.wait_for(waiting, 2)
        assert len(answer.records) > 0  # type: ignore[arg-type]
        assert one.replica.high_watermark == 0
        assert not one.replica.replica_fetchers

    run(member, scenario)


def test_a_waiting_follower_gets_the_error_of_a_failed_disk(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        waiting = asyncio.ensure_future(one.followers[2].ask(0, wait_ms=9000))
        await one.member.eventually(lambda: one.replica.replica_fetchers)
        one.replica.go_offline("the device is broken")
        answer = await asyncio.wait_for(waiting, 2)
        assert answer.error_code == ErrorCode.kafka_storage_error

    run(member, scenario)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"session": 2}, ErrorCode.stale_broker_epoch),
        ({"session": 0}, ErrorCode.stale_broker_epoch),
        ({"session": -1}, ErrorCode.stale_broker_epoch),
        ({"replica_id": 7}, ErrorCode.stale_broker_epoch),
        ({"replica_id": 1}, ErrorCode.stale_broker_epoch),
        ({"epoch": EPOCH - 1}, ErrorCode.fenced_leader_epoch),
        ({"epoch": EPOCH + 1}, ErrorCode.unknown_leader_epoch),
        ({"epoch": -1}, ErrorCode.unknown_leader_epoch),
    ],
)
def test_a_fetch_of_another_session_or_epoch_counts_for_nothing(
    member: "MemberKit", wrong: dict[str, int], code: ErrorCode
) -> None:
    async def scenario(one: Cluster) -> None:
        two, three = one.followers.values()
        await one.send(b"a")
        await three.ask(1, EPOCH)
        answer = await two.ask(1, EPOCH, **wrong)
        assert answer.error_code == code
        assert not answer.records
        assert one.replica.high_watermark == 0
        assert (await two.ask(1, EPOCH)).high_watermark == 1

    run(member, scenario)


def test_where_histories_part_is_answered_at_once_and_counts_for_nothing(
    member: "MemberKit",
) -> None:
    async def scenario(one: Cluster) -> None:
        two, three = one.followers.values()
        await one.send(b"a")
        await three.ask(1, EPOCH)
        await one.applied(leaderEpoch=EPOCH + 2)
        two.epoch = three.epoch = EPOCH + 2
        await one.send(b"b", client=await one.member.client())
        await three.ask(2, EPOCH + 2)
        for offset, last_epoch, expected in (
            (2, EPOCH, (EPOCH, 1)),
            (5, EPOCH + 2, (EPOCH + 2, 2)),
            # Of an epoch that never wrote here: what was before it, and where that ends.
            (1, EPOCH + 1, (EPOCH, 1)),
        ):
            answer = await two.ask(offset, last_epoch, wait_ms=9000)
            assert answer.error_code == OK
            assert answer.diverging_epoch == expected
            assert not answer.records
        assert one.replica.high_watermark == 0
        unknown = await two.ask(1, EPOCH + 3)
        assert unknown.error_code == ErrorCode.unknown_leader_epoch
        assert (await two.ask(1, EPOCH)).diverging_epoch is None
        assert one.replica.high_watermark == 1

    run(member, scenario)


def test_a_follower_below_the_log_start_gets_the_log_start_offset(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        for number in range(3):
            await one.send(b"x")
            await one.all_fetch(number + 1)
            await one.is_safe()
        assert await one.client.delete_records("orders", 2) == (OK, 2)
        answer = await one.followers[2].ask(1, EPOCH)
        assert answer.error_code == ErrorCode.offset_out_of_range
        assert answer.log_start_offset == 2

    run(member, scenario)


async def epoch_end(client: "Client", epoch: int) -> tuple[ErrorCode, int]:
    types = client.types(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    partition = types.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=-1, leader_epoch=epoch
    )
    topic = types.OffsetForLeaderTopic(topic="orders", partitions=(partition,))
    request = schema.request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)(
        replica_id=-1, topics=(topic,)
    )
    answer = await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, request)
    (found,) = answer.topics[0].partitions
    return ErrorCode(found.error_code), found.end_offset


def test_a_new_leadership_shows_no_end_before_it_is_replicated(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        await one.send(b"a")
        await one.all_fetch(1)
        await one.is_safe()
        await one.send(b"b")
        await one.applied(leaderEpoch=EPOCH + 1)
        for peer in one.followers.values():
            peer.epoch = EPOCH + 1
        client = await one.member.client()
        assert (await client.offset("orders", -1))[0] is ErrorCode.offset_not_available
        late = await client.offset("orders", -1, version=4)
        assert late[0] is ErrorCode.leader_not_available
        assert await client.offset("orders", 2**40) == (ErrorCode.offset_not_available, -1, -1)
        # What is certain is answered.
        assert (await client.offset("orders", -2))[::2] == (OK, 0)
        assert (await client.offset("orders", 0))[::2] == (OK, 0)
        not_yet = (ErrorCode.offset_not_available, -1)
        assert await epoch_end(client, EPOCH + 1) == not_yet
        assert await epoch_end(client, EPOCH) == not_yet
        for offset in (1, 2):
            assert await client.fetch(TOPIC_ID, (0, offset)) == [(OK, b"")]
        # The batch of the reign before becomes safe in this one.
        await one.all_fetch(2)
        assert await one.is_safe() == 1
        assert (await client.offset("orders", -1))[::2] == (OK, 2)
        assert await epoch_end(client, EPOCH) == (OK, 2)

    run(member, scenario)


def test_acks_all_is_refused_while_too_few_replicas_are_alive(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        await one.applied(isr=["1@1", "2@1"])
        member.operator.write_broker(2, fenced=True)
        await member.eventually(lambda: not one.replica.has_min_isr)
        batch = one.member.kit.batch(b"a")
        (refused,) = await one.client.produce("orders", batch)
        assert refused.error_code == ErrorCode.not_enough_replicas
        assert one.replica.log.end_offset == 0

    run(member, scenario)


def test_who_lags_is_proposed_out_and_who_catches_up_is_proposed_in(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        two, three = one.followers.values()
        replica = one.replica
        await one.send(b"a")
        await two.ask(1, EPOCH)
        replica._context.lag_max_s.__self__._config["replica.lag.time.max.ms"] = "50"
        await asyncio.sleep(0.06)
        await two.ask(1, EPOCH)
        replica.check_followers()
        await member.eventually(lambda: one.proposals() == [(10, ["1@1", "2@1"])])
        # The map has not answered: three's word is waited for as long.
        assert await nothing_comes(one.client)
        await one.applied(isr=["1@1", "2@1"])
        await member.eventually(lambda: one.proposals() == [])
        assert await one.is_safe() == 0
        await three.ask(0)
        assert one.proposals() == []
        await three.ask(1, EPOCH)
        await member.eventually(lambda: one.proposals() == [(11, ["1@1", "2@1", "3@1"])])
        # From now on it is waited for, whatever the map says.
        await one.send(b"b")
        await two.ask(2, EPOCH)
        assert await nothing_comes(one.client)
        await three.ask(2, EPOCH)
        assert await one.is_safe() == 1
        assert len(one.proposals()) == 1
        await one.applied(isr=["1@1", "2@1", "3@1"])
        await member.eventually(lambda: one.proposals() == [])

    run(member, scenario)


def test_a_leader_becomes_a_follower_and_leads_again(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        await one.send(b"a")
        waiting = asyncio.ensure_future(one.followers[2].ask(1, EPOCH, wait_ms=9000))
        await member.eventually(lambda: one.replica.replica_fetchers)
        await one.applied(leader="2@1", leaderEpoch=EPOCH + 1)
        replica = one.replica
        assert not replica.is_leader
        assert (replica.following.leader_id, replica.following.leader_epoch) == (2, EPOCH + 1)
        answer = await asyncio.wait_for(waiting, 2)
        assert answer.error_code == ErrorCode.not_leader_or_follower
        produced = await one.client.receive()
        (failed,) = produced.responses[0].partition_responses
        assert failed.error_code == ErrorCode.not_leader_or_follower
        following = replica.following
        await one.applied(leader=None)
        assert following.is_over
        assert replica.following is None
        await one.applied(leader="1@1", leaderEpoch=EPOCH + 2)
        assert replica.is_leader
        assert replica.following is None
        assert replica.leader_epoch == EPOCH + 2

    run(member, scenario)


@pytest.mark.parametrize("replicas", [[2, 1, 3], [2, 3]])
def test_a_producer_is_told_who_leads_now(member: "MemberKit", replicas: list[int]) -> None:
    """Also one that waits when the leader resigns, or loses its replica: before the broker has
    changed all its replicas of the topic, and could show them in metadata."""

    async def scenario(one: Cluster) -> None:
        await one.send(b"a")
        isr = [f"{broker_id}@1" for broker_id in replicas]
        await one.applied(leader="2@1", leaderEpoch=EPOCH + 1, replicas=replicas, isr=isr)
        waited = await one.client.receive()
        later = await one.client.ask(
            ApiKey.PRODUCE, one.client.produce_request("orders", member.kit.batch(b"b"))
        )
        for answer in (waited, later):
            (failed,) = answer.responses[0].partition_responses
            assert failed.error_code == ErrorCode.not_leader_or_follower
            leader = failed.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (2, EPOCH + 1)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (2, "b2", 9092)

    run(member, scenario)


def test_a_waiting_consumer_is_told_who_leads_now(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        request = one.client.fetch_request(TOPIC_ID, (0, 0), wait_ms=9_000)
        await one.client.send(ApiKey.FETCH, request)
        await member.eventually(lambda: one.replica.fetchers)
        await one.applied(leader="2@1", leaderEpoch=EPOCH + 1, replicas=[2, 3], isr=["2@1", "3@1"])
        answer = await one.client.receive()
        (failed,) = answer.responses[0].partitions
        assert failed.error_code == ErrorCode.not_leader_or_follower
        leader = failed.current_leader
        assert (leader.leader_id, leader.leader_epoch) == (2, EPOCH + 1)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port) == (2, "b2", 9092)

    run(member, scenario)


@pytest.mark.parametrize("leader", [None, "3@1"])
def test_no_leader_is_told_that_cannot_be_reached(member: "MemberKit", leader: str | None) -> None:
    async def scenario(one: Cluster) -> None:
        member.operator.write_broker(3, fenced=True)
        await member.eventually(lambda: 3 not in member.broker._cluster.brokers)
        await one.applied(leader=leader, leaderEpoch=EPOCH + 1)
        answer = await one.client.ask(
            ApiKey.PRODUCE, one.client.produce_request("orders", member.kit.batch(b"a"))
        )
        (failed,) = answer.responses[0].partition_responses
        assert failed.error_code == ErrorCode.not_leader_or_follower
        assert failed.current_leader.leader_id == -1
        assert answer.node_endpoints == ()

    run(member, scenario)


@pytest.mark.parametrize("leads", [True, False])
def test_a_batch_that_arrives_before_the_map_is_held_until_it_comes(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    """Its client has heard of the new leader before that broker."""

    async def scenario(one: Cluster) -> None:
        monkeypatch.setattr(produce, "HOLD_S", 60.0)
        request = one.client.produce_request("orders", member.kit.batch(b"a"), acks=1)
        await one.client.send(ApiKey.PRODUCE, request)
        await member.eventually(lambda: one.replica._role_waiters)
        leader = "1@1" if leads else "3@1"
        await one.applied(leader=leader, leaderEpoch=EPOCH + 1)
        answer = await one.client.receive()
        (found,) = answer.responses[0].partition_responses
        if leads:
            assert (found.error_code, found.base_offset) == (OK, 0)
        else:
            assert found.error_code == ErrorCode.not_leader_or_follower
            assert found.current_leader.leader_id == 3
        # A client that comes back gets the other leader at once.
        await one.applied(leader="1@1", leaderEpoch=EPOCH + 2)
        await one.applied(leader="2@1", leaderEpoch=EPOCH + 3)
        (refused,) = await one.client.produce("orders", member.kit.batch(b"b"), acks=1)
        assert refused.error_code == ErrorCode.not_leader_or_follower

    run(member, scenario, leader="2@1")


def test_no_batch_is_held_for_long(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        (refused,) = await one.client.produce("orders", member.kit.batch(b"a"))
        assert refused.error_code == ErrorCode.not_leader_or_follower
        assert refused.current_leader.leader_id == 2
        assert not one.replica._role_waiters

    run(member, scenario, leader="2@1")


def test_a_client_with_old_metadata_is_held_once(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may send one request for each of many partitions: the others get the leader at once."""

    async def scenario(one: Cluster) -> None:
        await one.client.produce("orders", member.kit.batch(b"a"))
        monkeypatch.setattr(produce, "HOLD_S", 60.0)
        (refused,) = await one.client.produce("orders", member.kit.batch(b"b"))
        assert refused.error_code == ErrorCode.not_leader_or_follower
        assert refused.current_leader.leader_id == 2
        # After a while its metadata may be new, so its batch is held again.
        monkeypatch.setattr(produce, "HELD_IN_VAIN_S", 0.0)
        monkeypatch.setattr(produce, "HOLD_S", 0.01)
        other = await member.client()
        await other.produce("orders", member.kit.batch(b"c"))
        monkeypatch.setattr(produce, "HOLD_S", 60.0)
        request = other.produce_request("orders", member.kit.batch(b"d"), acks=1)
        await other.send(ApiKey.PRODUCE, request)
        await member.eventually(lambda: one.replica._role_waiters)
        await one.applied(leader="1@1", leaderEpoch=EPOCH + 1)
        assert (await other.receive()).responses[0].partition_responses[0].error_code == OK

    run(member, scenario, leader="2@1")


def test_nothing_waits_for_the_last_sync_of_a_replica_that_was_moved_away(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other partitions of the topic are led in the meantime; only its deletion waits."""

    async def scenario(one: Cluster) -> None:
        moved, syncs, may_sync = one.replica, asyncio.Event(), asyncio.Event()
        make_durable = PartitionLog.make_durable

        async def slowly(log: PartitionLog, offset: int) -> None:
            if log is moved.log:
                syncs.set()
                await may_sync.wait()
            await make_durable(log, offset)

        monkeypatch.setattr(PartitionLog, "make_durable", slowly)
        request = one.client.produce_request("orders", member.kit.batch(b"a"))
        await one.client.send(ApiKey.PRODUCE, request)
        await syncs.wait()
        try:
            write_moved(1, {"broker": 1})
            await member.eventually(lambda: leads_other(1))
            write_moved(2, {"broker": 1, "removableSince": 12})
            await member.eventually(lambda: leads_other(2))
            assert moved.log.partition in member.broker._directory.logs
            assert not removed()
        finally:
            may_sync.set()
        await member.eventually(removed)
        assert moved.log.partition not in member.broker._directory.logs

    def write_moved(step: int, leftover: dict[str, Any]) -> None:
        """Partition 0 is elsewhere, and partition 1 has another leader epoch here."""
        elsewhere = {"replicas": [2, 3], "isr": ["2@1", "3@1"], "leader": "2@1"}
        elsewhere |= {"partitionEpoch": 10 + step, "leftovers": [leftover]}
        states = [
            member.partition(1, EPOCH + 1, 0, **elsewhere),
            member.partition(1, EPOCH + step, 1),
        ]
        member.operator.write_map("orders", states)

    def leads_other(step: int) -> bool:
        other = member.broker._replicas.get("orders", 1)
        return other is not None and other.leader_epoch == EPOCH + step

    def removed() -> bool:
        return bool(member.operator.status.removed_replicas)

    run(member, scenario)


def test_a_leader_that_is_left_alone_waits_for_nobody(member: "MemberKit") -> None:
    async def scenario(one: Cluster) -> None:
        await one.send(b"a")
        await one.applied(replicas=[1], isr=["1@1"])
        assert await one.is_safe() == 0
        assert one.replica.followers is None
        # And who comes later is not waited for before it is in sync.
        await one.applied(replicas=[1, 2, 3])
        (answer,) = await one.client.produce("orders", one.member.kit.batch(b"b"), acks=1)
        assert answer.base_offset == 1
        await member.eventually(lambda: one.replica.high_watermark == 2)

    run(member, scenario)


def test_a_high_watermark_is_remembered(member: "MemberKit") -> None:
    async def first(one: Cluster) -> None:
        await one.send(b"a")
        await one.all_fetch(1)
        await one.is_safe()
        await one.send(b"b")

    async def second() -> None:
        member.operator.write_map(
            "orders",
            [
                member.partition(
                    1, 4, replicas=[1, 2], isr=["1@1", "2@1"], leader="2@1", partitionEpoch=11
                )
            ],
        )
        async with member.admitted(2):
            assert member.replica().high_watermark == 1
            assert member.replica().log.end_offset == 2

    run(member, first)
    member.run(second)
